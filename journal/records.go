package journal

import (
	"encoding/json"
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
}

// TurnConfig is the turn config that a worker recorded when the turn began, with the turn's session, tenant and current
// state.
type TurnConfig struct {
	Session string
	Tenant  string
	State   turn.State
	Config  json.RawMessage // a turn.Config
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
	// Waiting is how many requests are open.
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
	// Suspended is the attempt that was suspended (see SuspendCall), 0 if none was. Continuation is what it left: nil
	// if the journal does not have it, as after an import.
	Suspended    int    `json:"suspended,omitempty"`
	Continuation []byte `json:"-"`
}

// BeginResult is the result of Begin.
type BeginResult struct {
	Turn TurnRecord
	// Head is the transcript's head right after this turn's message. A resuming run starts from it.
	Head turn.Head
	// Config is the turn config of the turn's first Begin; later calls do not change it.
	Config json.RawMessage
	// Resumed: this chain had begun the turn before.
	Resumed bool
	// DuplicateOf is the turn that took the message first, if that is another turn. Begin has written nothing then.
	DuplicateOf *TurnRecord
	// Closed is the ID of the unfinished turn that Begin closed, if any.
	Closed string
}

// StartInference is the input of DB.StartInference.
type StartInference struct {
	Session string
	Key     StepKey
	// Expect is the head before Results are appended. If an earlier attempt of the same step has appended the results,
	// the head is ahead of Expect by exactly those, and that is no conflict.
	Expect   turn.Head
	Outcomes []turn.CallOutcome // see appendResult
	// Messages are appended after Results, each with message_added. A message whose ID the session has had is skipped.
	Messages []turn.UserMessage
	// Chunks are emitted by the first attempt, after the chunks of Results and Messages.
	Chunks []turn.Chunk
	Model  string
	At     time.Time
}

// ForkInput names a point of a session and the new session that begins there.
type ForkInput struct {
	Session string // the session to fork
	// At is the seq of the last shared message, at least 1. A fork does not separate calls from their results: if the
	// message at At asks for calls, or the next message is a result, the point is refused with ErrForkPoint.
	At    int64
	ID    string // the new session's ID
	Agent string // empty: the forked session's agent
	Time  time.Time
}

// SettleInference is the input of DB.SettleInference.
type SettleInference struct {
	Session string
	Key     StepKey
	Attempt int
	Answer  turn.Completion
	// Message is appended to the transcript: role assistant, text, tool calls with their IDs.
	Message turn.Message
	// Chunks are the last deltas, which were not appended yet. The same transaction appends them.
	Chunks []turn.Chunk
	At     time.Time
}

// ClaimInput claims a call for a dispatch.
type ClaimInput struct {
	Turn string
	Step int
	Call turn.ToolCall
	// Attempt is the dispatch, from 1: a claim is refused if a higher dispatch has claimed the call.
	Attempt    int
	Repeatable bool
	Approved   bool // the journal must have a decision that allows the call
	Worker     string
	At         time.Time
}

// ClaimState is the state in which a claim found the call.
type ClaimState string

// The states of a claim.
const (
	// ClaimGranted: the call has not run, or it is repeatable and has no outcome yet. Run it.
	ClaimGranted ClaimState = "granted"
	// ClaimSettled: the outcome is known. Do not run it.
	ClaimSettled ClaimState = "settled"
	// ClaimTaken: an earlier dispatch claimed the call and left no outcome, and the tool is not repeatable. Do not run
	// it: its outcome is unknown.
	ClaimTaken ClaimState = "taken"
	// ClaimStale: a later dispatch has claimed the call. Do not run it.
	ClaimStale ClaimState = "stale"
)

// Claim is the result of ClaimCall. Record is set in every state.
type Claim struct {
	State  ClaimState
	Record CallRecord
}

// SettleInput settles or suspends a call.
type SettleInput struct {
	Turn    string
	CallID  string
	Attempt int
	// Result is how the call ended. Each of its media carries its Data; the journal computes hash and size. See
	// cleanResult for the bounds. SuspendCall uses only its Continuation, of at most MaxContinuationBytes: the journal
	// keeps it as opaque bytes and leaves it out of exports, because it is meant only for the server and its callers.
	Result turn.ToolResult
	// Taints means that the tool's server is untrusted. The settlement, even a late one, taints the session if
	// Result.FromServer is set.
	Taints bool
	At     time.Time
}
