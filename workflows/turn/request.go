package turn

import (
	"fmt"
	"time"
)

// UserMessage is a user's message to a session. The client stores a text over Temporal's payload limit in the journal,
// and Blob names it. The ID is unique in its session and never reused there: a message that is sent twice is
// answered once.
type UserMessage struct {
	ID   string `json:"id,omitempty"`
	Text string `json:"text,omitempty"`
	Blob string `json:"blob,omitempty"`
	// Queue starts a turn of its own for the message after the running turn has ended. Otherwise the message is merged
	// into the running turn.
	Queue bool `json:"queue,omitempty"`
}

// Approvals bounds how long a turn waits for decisions. Zero means no bound.
type Approvals struct {
	ApprovalExpiry time.Duration `json:"approval_expiry,omitempty"`
	// OnExpiry decides an approval that expires: Deny or Allow.
	OnExpiry       Permission    `json:"on_expiry,omitempty"`
	QuestionExpiry time.Duration `json:"question_expiry,omitempty"`
}

// RequestKind is the kind of a Request.
type RequestKind string

// The kinds of requests.
const (
	RequestApproval    RequestKind = "approval"
	RequestQuestion    RequestKind = "question"
	RequestElicitation RequestKind = "elicitation" // from a tool's server, in the middle of a call
)

// Request is an approval, a question or an elicitation that a turn waits for.
type Request struct {
	// ID is unique in its turn: the call's ID ("3.0") for an approval, "q<step>" for a question, and "e<call>.<n>" for
	// an elicitation, with n counting from 1.
	ID   string      `json:"id"`
	Kind RequestKind `json:"kind"`
	Step int         `json:"step"`
	// The fields of an approval: the call, its arguments (a preview in the workflow), and the reason for the request.
	Tool          string `json:"tool,omitempty"`
	Arguments     string `json:"arguments,omitempty"`
	ArgumentsHash string `json:"arguments_hash,omitempty"`
	Risk          Risk   `json:"risk,omitempty"`
	Why           string `json:"why,omitempty"`
	// MaxGrant is the widest grant that would make this request unnecessary: GrantCall, GrantNever, or empty if both
	// scopes would.
	MaxGrant GrantScope `json:"max_grant,omitempty"`
	// Question is a preview; the transcript has the whole text.
	Question string `json:"question,omitempty"`
	// Elicitation is the complete elicitation, and Call is the call that it belongs to.
	Elicitation *Elicitation `json:"elicitation,omitempty"`
	Call        string       `json:"call,omitempty"`
	ExpiresAt   time.Time    `json:"expires_at,omitzero"`
}

// DecisionStatus is how a Request was settled.
type DecisionStatus string

// The statuses of decisions.
const (
	StatusAllowed   DecisionStatus = "allowed"
	StatusDenied    DecisionStatus = "denied"
	StatusExpired   DecisionStatus = "expired"   // Decision.Allowed is the configured outcome
	StatusAnswered  DecisionStatus = "answered"  // a question
	StatusCancelled DecisionStatus = "cancelled" // the turn was stopped
)

// ReasonCallEnded is the reason of a decision that closes an elicitation whose call ended before the response.
const ReasonCallEnded = "its call has ended"

// Decision settles a Request: a user's decision, or the request's expiry or cancellation.
type Decision struct {
	ID     string         `json:"id"` // of the Request
	Status DecisionStatus `json:"status"`
	// Allowed means that the call may run. It is also set on an expired approval if OnExpiry is Allow.
	Allowed bool `json:"allowed,omitempty"`
	// ArgumentsHash is the hash of the arguments that the user saw. The approval is valid for these arguments only.
	ArgumentsHash string    `json:"arguments_hash,omitempty"`
	By            string    `json:"by,omitempty"`
	Reason        string    `json:"reason,omitempty"`
	At            time.Time `json:"at"`
	// Response is the response to an elicitation.
	Response *ElicitationResponse `json:"response,omitempty"`
	// Grant permits later calls of this tool in the session: with any arguments (GrantTool) or with the same ones
	// (GrantCall).
	Grant GrantScope `json:"grant,omitempty"`
}

// GrantScope is the scope of a grant.
type GrantScope string

// The scopes of grants.
const (
	GrantCall GrantScope = "call" // this tool with exactly these arguments
	GrantTool GrantScope = "tool" // this tool
	// GrantNever appears only in MaxGrant: no grant can replace the approval, so each call needs its own.
	GrantNever GrantScope = "never"
)

// Grants reports whether a grant of scope s would make the request unnecessary.
func (w Request) Grants(s GrantScope) bool {
	return w.MaxGrant == "" || w.MaxGrant == s
}

// WhyNoGrant says why the request cannot be remembered with the wanted scope, and which scope it accepts. See Grants.
func (w Request) WhyNoGrant() string {
	if w.MaxGrant == GrantCall {
		return fmt.Sprintf(`call %s is asked for because of its arguments, or of what the conversation holds: allowing the tool for good would not spare the question. Allow it once, or for exactly these arguments (always "call")`, w.ID)
	}
	return fmt.Sprintf("nothing spares the question of call %s: policy has each call approved by itself. Allow it once", w.ID)
}

// Grant is a session's permission for later calls of a tool that would otherwise need approval.
type Grant struct {
	Tool          string    `json:"tool"`
	ArgumentsHash string    `json:"arguments_hash,omitempty"` // empty: any arguments
	By            string    `json:"by,omitempty"`
	At            time.Time `json:"at"`
}

// Covers reports whether the grant allows a call of this tool with these arguments.
func (r Grant) Covers(tool, argumentsHash string) bool {
	return r.Tool == tool && (r.ArgumentsHash == "" || r.ArgumentsHash == argumentsHash)
}
