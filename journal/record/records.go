package record

import (
	"time"

	"github.com/everturn/everturn/workflows/turn"
)

// StepKey names an inference.
type StepKey struct {
	Turn string `json:"turn"`
	Step int    `json:"step"` // from 1
}

// RequestRecord is a request with its decision.
type RequestRecord struct {
	Session string `json:"session"`
	Turn    string `json:"turn"`
	// Request has the whole arguments of an approval. If the journal has lost them, Arguments is only their beginning,
	// shorter than ArgumentsBytes.
	turn.Request
	ArgumentsBytes int64 `json:"arguments_bytes,omitempty"`

	AskedAt  time.Time      `json:"asked_at,omitzero"`
	Decision *turn.Decision `json:"decision,omitempty"` // nil while it is open
}

// Inference is the ledger's record of (turn, step).
type Inference struct {
	Key      StepKey `json:"key"`
	Attempt  int     `json:"attempt"`            // from 1: counts every start, crashes included
	Released int     `json:"released,omitempty"` // attempts that waited for a fleet limit and were not sent
	Failures int     `json:"failures,omitempty"` // attempts that ended in a failure of the provider
	Model    string  `json:"model,omitempty"`
	// Base is the head after the results were appended: the prompt is rendered from it.
	Base turn.Head `json:"base,omitzero"`
	// Settled and the fields after it are set once the completion is recorded.
	Settled    bool            `json:"settled,omitempty"`
	Head       turn.Head       `json:"head"` // after the assistant's message
	Completion turn.Completion `json:"completion,omitzero"`
	Message    turn.Message    `json:"message,omitzero"` // as appended
	StartedAt  time.Time       `json:"started_at,omitzero"`
	SettledAt  time.Time       `json:"settled_at,omitzero"`
	Late       int             `json:"late,omitempty"` // completions that came after settlement
	// Undelivered are the IDs of those StartInference.Messages that the session has never had, if the step was settled
	// already and took none of them because the run was reset. They are left for a later step.
	Undelivered []string `json:"-"`
	// OtherUsage is the usage of the step's other attempts. StartInference and SettleInference set it for a settled step.
	OtherUsage turn.Usage `json:"-"`
	// Lost is set by StartInference if the attempt before streamed text and has no record of its usage.
	Lost LostAttempt `json:"-"`
}

// LostAttempt is an attempt that did not end, because its worker died.
type LostAttempt struct {
	Attempt     int
	OutputBytes int64 // that it streamed
}

// TurnRecord is a turn's row.
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

// SessionRecord is a session's row.
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
	// Parent and ForkSeq are set if the session is a fork: its messages up to ForkSeq are Parent's.
	Parent  string `json:"parent,omitempty"`
	ForkSeq int64  `json:"fork_seq,omitempty"`
	// Usage is SessionUsage. DB does not set it, because it reads all turns of the session.
	Usage turn.Usage `json:"usage,omitzero"`
	// PendingRequests is how many requests are open, with those of subagents at work. LastTurn is then waiting.
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
	// Repeatable is what the first claim said of the tool. If it is false, no later claim has started the call again.
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
	Late       bool         `json:"late,omitempty"` // of a SettleCall: this settlement was kept as late
	LateCount  int          `json:"late_count,omitempty"`
	// Suspended is the attempt that was suspended (DB.SuspendCall), 0 if none was. Continuation is what it left: nil
	// if the journal does not have it, as after an import.
	Suspended    int    `json:"suspended,omitempty"`
	Continuation []byte `json:"-"`
}

// Subagent is an agent whose turn a call has started.
type Subagent struct {
	Granted turn.Allowance `json:"granted"`
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
	// NotifyModel: the model has been told that the call's outcome is unknown, and has not been told this result yet.
	NotifyModel bool `json:"notify_model,omitempty"`
}
