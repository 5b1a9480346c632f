package journal

import (
	"encoding/json"
	"time"

	"github.com/everturn/everturn/workflows/turn"
)

// BeginInput opens a turn.
type BeginInput struct {
	Session string
	// Tenant is whose session it is, empty for the default tenant. A new session is written with it; one that is another's
	// is refused with ErrTaken.
	Tenant     string
	Turn       string // the first run ID of the workflow chain
	WorkflowID string
	RunID      string // the run that asks; a later run of the chain replaces it
	Agent      string
	Message    turn.Message // ID and Text; Role is user. An empty ID gets one derived from the turn.
	// MessageBlob names the text if it was too large to travel; Message.Text is empty then.
	MessageBlob string
	// Config is what the turn's configuration was when it began, kept as it is for the resuming run.
	Config json.RawMessage
	At     time.Time
}

// BeginResult answers Begin.
type BeginResult struct {
	Turn TurnRecord
	// Head is the transcript's head right after this turn's message: what a resuming run starts from.
	Head turn.Head
	// Config are the pins of the turn's first Begin, whatever a later call says.
	Config json.RawMessage
	// Resumed: the turn had begun before, by this chain.
	Resumed bool
	// DuplicateOf is the turn that had the message first, if that is another one. Nothing was written then.
	DuplicateOf *TurnRecord
	// Closed names the unfinished turn that was closed, if any.
	Closed string
}

// Result is the result of one call, as the next append writes it into the transcript. If Text is empty and
// Outcome is zero, the ledger's settled outcome is written. Otherwise the call never ran: it is settled here with
// this outcome (denied, cancelled, error) and emits its chunks.
type Result struct {
	Call    turn.ToolCall
	Outcome turn.Outcome
	Code    turn.Code // see turn.ToolResult
	Text    string
}

// StartInference opens an attempt.
type StartInference struct {
	Session string
	Key     StepKey
	// Expect is the head before Results are appended. If the results were appended by an earlier attempt of the
	// same step the head is ahead by exactly those, and that is no conflict.
	Expect  turn.Head
	Results []Result
	// Messages are appended after Results, each with message_joined; one whose ID the session has had is left out.
	Messages []UserMessage
	// Chunks are emitted by the first attempt, after those of Results and Messages.
	Chunks []turn.Chunk
	Model  string
	At     time.Time
}

// UserMessage is a message of a user: ID and Text, or the blob that has the text.
type UserMessage struct {
	ID   string
	Text string
	Blob string
}

// AskInput opens waits.
type AskInput struct {
	Session string
	Turn    string
	// Waits: of an approval the journal fills Arguments in from the transcript, whose hash must be ArgumentsHash.
	Requests []turn.Request
	At       time.Time
}

// DecideInput closes waits.
type DecideInput struct {
	Session   string
	Turn      string
	Decisions []turn.Decision
	At        time.Time
}

// ForkInput names a point of a session and what begins there.
type ForkInput struct {
	Session string // that is forked
	// At is the seq of the last message that is shared, at least 1. Calls are not parted from their results: if the
	// message at At asks for calls, or the one after it is a result, the point is refused with ErrForkPoint.
	At    int64
	ID    string // of the new session
	Agent string // empty: that of the forked one
	Time  time.Time
}

// SettleInference settles one.
type SettleInference struct {
	Session string
	Key     StepKey
	Attempt int
	Answer  turn.Completion
	// Message is what is appended: role assistant, text, tool calls with their IDs.
	Message turn.Message
	// Chunks are the last deltas that were not appended yet; they go in with the same transaction.
	Chunks []turn.Chunk
	At     time.Time
}

// FinishInput settles a turn.
type FinishInput struct {
	Session string
	Turn    string
	Results []Result
	// Messages were accepted and came too late for an answer.
	Messages []UserMessage
	State    turn.State
	Reason   turn.FinishReason
	Code     turn.Code // of a failed turn
	Message  string    // for people, of a turn that did not answer
	Answer   string    // preview of the final answer; the transcript holds the whole
	Usage    turn.Usage
	Steps    int
	Calls    int
	At       time.Time
}

// ClaimInput claims a call.
type ClaimInput struct {
	Turn string
	Step int
	Call turn.ToolCall
	// Attempt is the dispatch, from 1: a claim is refused if a higher one exists.
	Attempt    int
	Repeatable bool
	Approved   bool // the journal must have a person's word for it
	Worker     string
	At         time.Time
}

// ClaimState is what a claim found.
type ClaimState string

// What a claim may find.
const (
	// ClaimGranted: nobody has run the call, or it is repeatable and has no outcome yet. Run it.
	ClaimGranted ClaimState = "granted"
	// ClaimSettled: the outcome is known. Do not run it.
	ClaimSettled ClaimState = "settled"
	// ClaimTaken: an earlier attempt claimed it, left no outcome, and the tool is not repeatable. Do not run it: its
	// outcome is unknown.
	ClaimTaken ClaimState = "taken"
	// ClaimStale: a later attempt has claimed it. Do not run it.
	ClaimStale ClaimState = "stale"
)

// Claim answers ClaimCall. Record is set in every state.
type Claim struct {
	State  ClaimState
	Record CallRecord
}

// SettleInput settles a call.
type SettleInput struct {
	Turn    string
	CallID  string
	Attempt int
	// Result: of its media each brings its Data; hash and size are the journal's to say. See cleanResult for its bounds.
	Result turn.ToolResult
	// Taints: the words of this result may be anybody's. The settlement, also a late one, marks the session if it brings
	// such words: text or media of a call that came to an end, or media of one whose outcome is unknown.
	Taints bool
	At     time.Time
}

// SuspendInput gives the claim of (turn, call, attempt) back in the middle of the call.
type SuspendInput struct {
	Turn    string
	CallID  string
	Attempt int
	// Continuation is what the tool's server wants to be handed back: at most MaxContinuationBytes. The journal keeps it
	// as bytes that mean nothing to it, and leaves it out of exports: it is between the server and whoever calls it.
	Continuation []byte
	At           time.Time
}
