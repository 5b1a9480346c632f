package journal

import (
	"strings"
	"time"

	"github.com/everturn/everturn/workflows/plan"
	"github.com/everturn/everturn/workflows/turn"
)

// StepKey names an inference.
type StepKey struct {
	Turn string `json:"turn"`
	Step int    `json:"step"` // from 1
}

// Inference is the ledger's record of an inference.
type Inference struct {
	Key      StepKey `json:"key"`
	Attempt  int     `json:"attempt"`            // the number of the last attempt, from 1; a crash ends an attempt too
	Released int     `json:"released,omitempty"` // attempts that were never sent to a model
	Failures int     `json:"failures,omitempty"` // attempts that ended with a failure of the provider
	Model    string  `json:"model,omitempty"`    // of the last attempt
	// Base is the head from which the prompt is rendered: after the results of the step before, and after the messages
	// that came in since.
	Base turn.Head `json:"base,omitzero"`
	// Settled and the fields after it are set once the completion is recorded.
	Settled    bool            `json:"settled,omitempty"`
	Head       turn.Head       `json:"head"` // after the assistant's message
	Completion turn.Completion `json:"completion,omitzero"`
	Message    turn.Message    `json:"message,omitzero"` // the assistant's message, as it was appended
	StartedAt  time.Time       `json:"started_at,omitzero"`
	SettledAt  time.Time       `json:"settled_at,omitzero"`
	Late       int             `json:"late,omitempty"` // completions that came after the settlement
	// Undelivered are the IDs of the messages in StartInference.Messages that the session does not have.
	// StartInference sets it if the step was settled already, as after a reset of the run: a later step must append
	// these messages.
	Undelivered []string `json:"-"`
	// Appended are the messages that StartInference has appended, the last of which is Base.
	Appended []turn.Message `json:"-"`
	// OtherUsage is the usage of the step's other attempts. StartInference and SettleInference set it for a settled
	// step.
	OtherUsage turn.Usage `json:"-"`
	// Lost is the attempt before, if its provider had begun to answer and its usage is not recorded. StartInference
	// sets it.
	Lost LostAttempt `json:"-"`
}

// LostAttempt is an attempt that did not end, because its worker died. The zero value is none.
type LostAttempt struct {
	Attempt     int
	OutputBytes int64 // the size of the text that it streamed
}

// TurnRecord is the journal's record of a turn. The fields from Reason on, except for StartedAt, are set when it has
// ended.
type TurnRecord struct {
	ID         string `json:"id"`
	Session    string `json:"session,omitempty"`
	WorkflowID string `json:"workflow_id,omitempty"`
	RunID      string `json:"run_id,omitempty"`
	Agent      string `json:"agent,omitempty"`
	MessageID  string `json:"message_id,omitempty"`
	// MessageSeq is the seq of the turn's user message.
	MessageSeq int64             `json:"message_seq,omitempty"`
	State      turn.State        `json:"state"`
	Reason     turn.FinishReason `json:"reason,omitempty"`
	Code       turn.Code         `json:"code,omitempty"`
	Message    string            `json:"message,omitempty"`
	Answer     string            `json:"answer,omitempty"`
	Usage      turn.Usage        `json:"usage,omitzero"`
	Steps      int               `json:"steps,omitempty"`
	Calls      int               `json:"calls,omitempty"`
	StartedAt  time.Time         `json:"started_at,omitzero"`
	EndedAt    time.Time         `json:"ended_at,omitzero"`
}

// SessionRecord is the journal's record of a session.
type SessionRecord struct {
	ID        string     `json:"id"`
	Tenant    string     `json:"tenant,omitempty"` // empty: the default tenant
	Agent     string     `json:"agent,omitempty"`
	Head      turn.Head  `json:"head"`
	Turns     int        `json:"turns,omitempty"`
	LastTurn  TurnRecord `json:"last_turn,omitzero"`
	CreatedAt time.Time  `json:"created_at,omitzero"`
	UpdatedAt time.Time  `json:"updated_at,omitzero"`
	FirstText string     `json:"first_text,omitempty"` // a preview of the first message, at most 120 bytes
	// Parent and ForkSeq are set if the session is a fork: it shares the messages up to ForkSeq with the session
	// Parent.
	Parent  string `json:"parent,omitempty"`
	ForkSeq int64  `json:"fork_seq,omitempty"`
	// Caller is the call that started the session's first turn, if the session is that of a subagent.
	Caller turn.Caller `json:"caller,omitzero"`
	// Usage is SessionUsage. DB does not set it, because it reads all turns of the session.
	Usage turn.Usage `json:"usage,omitzero"`
	// PendingRequests is the number of open requests of the session and of its subagents at work. If there are any, the
	// state of a running LastTurn is waiting.
	PendingRequests int `json:"pending_requests,omitempty"`
}

// TaintSource names the call that brought text of an untrusted server into a session.
type TaintSource struct {
	Turn   string    `json:"turn"`
	CallID string    `json:"call_id"`
	Tool   string    `json:"tool"`
	At     time.Time `json:"at"`
}

// CallRecord is the ledger's record of a call.
type CallRecord struct {
	Turn    string        `json:"turn"`
	Step    int           `json:"step"`
	Call    turn.ToolCall `json:"call"`
	Attempt int           `json:"attempt"` // the highest attempt that claimed the call
	// Runs counts the claims that were granted and not released. It is above 1 only for repeatable tools and for calls
	// that were continued after an elicitation.
	Runs int `json:"runs,omitempty"`
	// Repeatable means that the first claim declared the tool repeatable. If it is false, no later claim has started
	// the call again.
	Repeatable bool         `json:"repeatable,omitempty"`
	Worker     string       `json:"worker,omitempty"`
	ClaimedAt  time.Time    `json:"claimed_at,omitzero"`
	Outcome    turn.Outcome `json:"outcome,omitempty"`   // zero while open
	Code       turn.Code    `json:"code,omitempty"`      // see turn.ToolResult
	Text       string       `json:"text,omitempty"`      // what the model is shown
	FullBlob   string       `json:"full_blob,omitempty"` // the whole output, if Text is truncated
	Media      []turn.Media `json:"media,omitempty"`     // without Data: see DB.Artifact
	SizeBytes  int64        `json:"size_bytes,omitempty"`
	SettledAt  time.Time    `json:"settled_at,omitzero"`
	DurationMS int64        `json:"duration_ms,omitempty"`
	Late       bool         `json:"late,omitempty"`       // SettleCall kept the settlement as a late result
	LateCount  int          `json:"late_count,omitempty"` // the number of late results
	// Suspended is the last attempt that was suspended (DB.SuspendCall); 0 if none was.
	Suspended int `json:"suspended,omitempty"`
	// ClaimedAttempt is the attempt that holds the claim, and SettledAttempt the one whose result is the outcome; 0 if
	// there is none.
	ClaimedAttempt int `json:"claimed_attempt,omitempty"`
	SettledAttempt int `json:"settled_attempt,omitempty"`
	// Continuation is that of the suspended attempt; nil if the journal does not have it, as after an import.
	Continuation []byte `json:"-"`
	// Claim and Subagent are set by ClaimCall: the state in which the claim found the call and, for the call of an
	// agent's tool, the subagent of the first claim.
	Claim    ClaimState `json:"-"`
	Subagent *Subagent  `json:"-"`
}

// Subagent is the ledger's record of an agent whose turn a call has started.
type Subagent struct {
	Granted turn.Allowance `json:"granted"` // what the caller's turn granted it
	// Background means that the caller's turn does not wait for the subagent.
	Background bool `json:"background,omitempty"`
}

// LateResult is a settlement that came after the first one.
type LateResult struct {
	Turn      string       `json:"turn"`
	CallID    string       `json:"call_id"`
	Attempt   int          `json:"attempt"`
	Outcome   turn.Outcome `json:"outcome"`
	Text      string       `json:"text,omitempty"`
	FullBlob  string       `json:"full_blob,omitempty"`
	SizeBytes int64        `json:"size_bytes,omitempty"`
	At        time.Time    `json:"at,omitzero"`
	Media     []turn.Media `json:"media,omitempty"`
	// NotifyModel means that the next inference reports this result to the model, which got "unknown" as the call's
	// outcome.
	NotifyModel bool `json:"notify_model,omitempty"`

	// Those that querier.LateResults returns also have these.
	row   int64
	tool  string // of the call
	text  stored
	media content
}

// PlanOf returns the progress of a turn's plan after calls of the turn. requests are the turn's requests, which have
// the users' confirmations and edits, and agent is turn.Config.PlanAgent.
func PlanOf(calls []CallRecord, requests []turn.Request, agent string) plan.Progress {
	p := plan.For(agent)
	for _, c := range calls {
		p = PlanAfter(p, c, requests)
	}
	return p
}

// PlanAfter returns the progress of a plan after a call of its turn. If a user answered the call's request with an
// edited plan, that one counts.
func PlanAfter(p plan.Progress, c CallRecord, requests []turn.Request) plan.Progress {
	call := PlanCall(c.Step, c.Call)
	call.Outcome = string(c.Outcome)
	if session := turn.SubagentSession(c.Turn, c.Call.ID); strings.HasPrefix(c.Call.Tool, turn.AgentTools) &&
		strings.HasSuffix(c.Text, turn.CanvasNotice(session)) {
		call.Changed = session
	}
	for _, r := range requests {
		if d := r.Decision; r.ID == c.Call.ID && r.Kind == turn.RequestApproval && r.Tool == plan.Tool && d != nil {
			if d.Response != nil {
				call.Edit = d.Response.Content
			}
			if d.Status == turn.StatusAllowed { // no expiry
				call.Confirmed = d.At
			}
		}
	}
	return p.After(call)
}

// PlanCall returns a call of a step for a plan.
func PlanCall(step int, c turn.ToolCall) plan.Call {
	return plan.Call{ID: c.ID, Inference: step, Tool: c.Tool, Arguments: c.Arguments}
}
