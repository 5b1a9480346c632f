package turn

import (
	"fmt"
	"time"
)

// UserMessage is what a user says to a session. A text over Temporal's payload limit is put into the journal by the
// client, and Blob names it. The ID is unique in its session for ever: a message sent twice is answered once.
type UserMessage struct {
	ID   string `json:"id,omitempty"`
	Text string `json:"text,omitempty"`
	Blob string `json:"blob,omitempty"`
	// After: the message is for a turn of its own, when the one that runs is done. Without it, it joins the one that runs.
	Queue bool `json:"after,omitempty"`
}

// Approvals bounds how long a turn waits for people. Zero waits for ever.
type Approvals struct {
	ApprovalExpiry time.Duration `json:"approval_expiry,omitempty"`
	// OnExpiry is what an approval that nobody gave comes to: Deny, or Allow.
	OnExpiry       Permission    `json:"on_expiry,omitempty"`
	QuestionExpiry time.Duration `json:"question_expiry,omitempty"`
}

// RequestKind is what a person is asked for.
type RequestKind string

// The kinds of waits.
const (
	RequestApproval    RequestKind = "approval"
	RequestQuestion    RequestKind = "question"
	RequestElicitation RequestKind = "elicitation" // a tool's server asks, in the middle of a call
)

// Request is something that a turn waits for a person to say.
type Request struct {
	// ID is the call's for an approval ("3.0"), "q<step>" for a question, "e<call>.<n>", n counting from 1, for what a
	// tool's server asks. What a call that is held asks begins with "h". It is unique in its turn.
	ID   string      `json:"id"`
	Kind RequestKind `json:"kind"`
	Step int         `json:"step"`
	// Of an approval: the call, what it would be done with (in the workflow a preview), and why a person is asked.
	Tool          string `json:"tool,omitempty"`
	Arguments     string `json:"arguments,omitempty"`
	ArgumentsHash string `json:"arguments_hash,omitempty"`
	Risk          Risk   `json:"risk,omitempty"`
	Why           string `json:"why,omitempty"`
	// Widest is the widest Always that spares the session this question: GrantCall, GrantNever, or empty where both do.
	MaxGrant GrantScope `json:"widest,omitempty"`
	// Question is a preview; the transcript has the whole.
	Question string `json:"question,omitempty"`
	// Elicitation is the whole question of an elicitation, and Call the call that it belongs to.
	Elicitation *Elicitation `json:"inquiry,omitempty"`
	Call        string       `json:"call,omitempty"`
	ExpiresAt   time.Time    `json:"expires_at,omitzero"`
}

// DecisionStatus is what came of a Wait.
type DecisionStatus string

// The verdicts.
const (
	StatusAllowed   DecisionStatus = "allowed"
	StatusDenied    DecisionStatus = "denied"
	StatusExpired   DecisionStatus = "expired"   // nobody said anything in time; Decision.Allowed tells what that came to
	StatusAnswered  DecisionStatus = "answered"  // a question
	StatusCancelled DecisionStatus = "cancelled" // the turn was stopped
)

// Decision is what a person said to a Wait, or what time did.
type Decision struct {
	ID     string         `json:"id"` // of the Wait
	Status DecisionStatus `json:"verdict"`
	// Allowed: the call may run. It is also true of an expired approval whose configured outcome is to allow.
	Allowed bool `json:"allowed,omitempty"`
	// ArgumentsHash is what the person saw; an approval counts for these arguments only.
	ArgumentsHash string    `json:"arguments_hash,omitempty"`
	By            string    `json:"by,omitempty"`
	Reason        string    `json:"reason,omitempty"`
	At            time.Time `json:"at"`
	// Reply is what was said to an elicitation.
	Response *ElicitationResponse `json:"reply,omitempty"`
	// Always: the session asks no more for this tool (GrantTool), or for this tool with these arguments (GrantCall).
	Grant GrantScope `json:"always,omitempty"`
}

// GrantScope is how far "always allow this" goes.
type GrantScope string

// The scopes.
const (
	GrantCall GrantScope = "call" // this tool with exactly these arguments
	GrantTool GrantScope = "tool" // this tool
	// GrantNever is no scope of a ruling: nothing spares the session the question, each call is approved by itself.
	GrantNever GrantScope = "never"
)

// Spares reports whether a ruling of this scope would spare the session the question again.
func (w Request) Grants(s GrantScope) bool {
	return w.MaxGrant == "" || w.MaxGrant == s
}

// Unspared says why "always" is not taken, and what is: see Spares.
func (w Request) WhyNoGrant() string {
	if w.MaxGrant == GrantCall {
		return fmt.Sprintf(`call %s is asked for because of its arguments, or of what the conversation holds: allowing the tool for good would not spare the question. Allow it once, or for exactly these arguments (always "call")`, w.ID)
	}
	return fmt.Sprintf("nothing spares the question of call %s: policy has each call approved by itself. Allow it once", w.ID)
}

// Grant allows what policy would ask for, by the word of a person, for the rest of a session.
type Grant struct {
	Tool          string    `json:"tool"`
	ArgumentsHash string    `json:"arguments_hash,omitempty"` // empty: any arguments
	By            string    `json:"by,omitempty"`
	At            time.Time `json:"at"`
}

// Covers reports whether the rule allows a call of this tool with these arguments.
func (r Grant) Covers(tool, argumentsHash string) bool {
	return r.Tool == tool && (r.ArgumentsHash == "" || r.ArgumentsHash == argumentsHash)
}
