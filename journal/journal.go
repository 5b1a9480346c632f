package journal

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"time"

	"github.com/everturn/everturn/workflows/turn"
)

// Errors that callers tell apart. Every other error means that the store is unavailable or broken.
var (
	// ErrNotFound: no such session, turn, call, blob or catalogue.
	ErrNotFound = errors.New("not found in the journal")
	// ErrConflict: the expected head is not the session's head: somebody else has written.
	ErrConflict = errors.New("the session has moved on")
	// ErrClosed: the turn is settled and takes no more work.
	ErrClosed = errors.New("the turn is closed")
	// ErrStale: a newer attempt has taken over; this one's output is not taken.
	ErrStale = errors.New("a newer attempt has taken over")
	// ErrUnapproved: the call needs a person's word for exactly these arguments, and the journal has none.
	ErrUnapproved = errors.New("nobody has approved this call")
	// ErrForkPoint: the session cannot be forked there; the error says where it can.
	ErrForkPoint = errors.New("the session cannot be forked there")
	// ErrExists: there is a session of this name.
	ErrExists = errors.New("the session exists")
	// ErrNewer: the database was written by a newer version of Everturn.
	ErrNewer = errors.New("the journal was written by a newer version")
)

// Journal is the port that the activities write through. Every method is one transaction and idempotent: calling it
// again with the same arguments gives the same answer and changes nothing more.
type Journal interface {
	// Begin opens a turn: dedupes its message, closes the session's unfinished turn if it has one, appends the
	// message, records the pins and emits turn_started. See BeginInput and Begun.
	Begin(ctx context.Context, in BeginInput) (Begun, error)

	// StartInference appends the results that the step before has left (see Results) and the messages that have joined
	// the turn, then opens an attempt of (turn, step). A settled inference comes back with its answer and Settled set; nothing else happens then.
	// A second attempt of a step whose first has emitted text emits attempt_restarted.
	// ErrClosed, ErrConflict.
	StartInference(ctx context.Context, in StartInference) (Inference, error)
	// SettleInference appends the assistant's message, settles the inference and emits the chunks that go with it.
	// If the step is settled already, the settled inference comes back unchanged and the late answer is counted.
	// ErrStale where a newer attempt runs, ErrClosed.
	SettleInference(ctx context.Context, in SettleInference) (Inference, error)
	// FailInference counts a failure of an attempt and returns how many failures the step has had.
	FailInference(ctx context.Context, key StepKey, attempt int, code turn.Code, message string) (failures int, err error)

	// Ask records what the turn waits for, emits approval_requested and question_asked (once a wait), and shows the turn
	// as waiting. It returns the rulings that the waits have already: a turn that is reset is not asked twice. ErrClosed,
	// where a wait is not ruled.
	Ask(ctx context.Context, in AskInput) (ruled []turn.Ruling, err error)
	// Decide records rulings, emits approval_decided and question_answered, keeps the session's new rules, and shows the
	// turn as running where nothing is waited for any more. The first ruling of a wait stands; another one changes
	// nothing. ErrNotFound where a wait was never asked for, ErrClosed where one is not ruled.
	Decide(ctx context.Context, in DecideInput) error
	// Rules returns what people have allowed a session for good, in the order in which they did.
	Rules(ctx context.Context, session string) ([]turn.SessionRule, error)

	// ClaimCall claims a call before it runs and emits tool_call_started (once a call, whatever the attempts).
	// See Claim for what may come back. ErrClosed; ErrUnapproved where ClaimInput.Approved is set and no ruling allows
	// this call with the hash of these arguments.
	ClaimCall(ctx context.Context, in ClaimInput) (Claim, error)
	// SettleCall records how a call ended and emits tool_call_completed. The first settlement of a call wins; a later
	// one is kept in late_results and the settled record comes back with Late set. A settlement after the turn is
	// closed is late too.
	SettleCall(ctx context.Context, in SettleInput) (CallRecord, error)

	// ReleaseCall gives the claim of (turn, call, attempt) back: nothing reached the tool, and the next attempt is granted
	// as if this one had never been. Without such an open claim it changes nothing. Its tool_call_started stays.
	ReleaseCall(ctx context.Context, turnID, callID string, attempt int) error

	// Finish appends results that are still open (see Results) and FinishInput.Messages, settles the turn and emits
	// turn_completed. Calls of the last assistant message that have no result get one: settled ones theirs, claimed ones
	// unknown, the rest cancelled. Waits that are open are ruled cancelled. Where the turn is cancelled in the middle of an
	// inference, the text that its last attempt has shown is the turn's answer, up to SummaryBytes.
	Finish(ctx context.Context, in FinishInput) (TurnRecord, error)

	// AppendChunks numbers chunks and appends them. Only Kind, Text, Data and At are read from each chunk; Step and
	// Attempt come from the key. Kinds that the journal writes itself are refused. It is the one method without an
	// idempotency key: an error means that nothing was appended, and a call that is repeated after success appends again.
	// ErrStale where a newer attempt of the step runs or the step is settled, ErrClosed, ErrNotFound for an attempt that never started.
	AppendChunks(ctx context.Context, key StepKey, attempt int, chunks []turn.Chunk) error

	// Messages returns the transcript's messages with from <= seq <= to, in order, with their whole content.
	Messages(ctx context.Context, session string, from, to int64) ([]turn.Message, error)
	Turn(ctx context.Context, turnID string) (TurnRecord, error)
	// Delivered returns the turn that took this message of the session, the one that it joined included. ErrNotFound.
	Delivered(ctx context.Context, session, messageID string) (TurnRecord, error)
	// StepMessage returns the assistant's message that settled the inference; ErrNotFound where it is not settled.
	StepMessage(ctx context.Context, key StepKey) (turn.Message, error)
	// Call returns the call with its arguments and outcome; ErrNotFound where it was never claimed.
	Call(ctx context.Context, turnID, callID string) (CallRecord, error)

	// PublishCatalogue makes c the current catalogue of its server. Unchanged content changes nothing.
	PublishCatalogue(ctx context.Context, c turn.Catalogue) error
	// Catalogues returns the current catalogue of each server that has published one, ordered by server.
	Catalogues(ctx context.Context) ([]turn.Catalogue, error)

	// PutBlob stores bytes under their SHA-256 (hex) and returns it; GetBlob returns ErrNotFound where there are none.
	PutBlob(ctx context.Context, mediaType string, b []byte) (hash string, err error)
	GetBlob(ctx context.Context, hash string) ([]byte, error)
}

// Store is a Journal with what people and processes need around it.
type Store interface {
	Journal

	// Chunks returns at most limit chunks of a turn with index > after (-1 for all), in order; none of a turn that has not begun.
	Chunks(ctx context.Context, turnID string, after int64, limit int) ([]turn.Chunk, error)
	// Changed returns a channel that is closed when this process, or with a delay of tens of milliseconds another
	// one, may have added chunks. Follow is built on it.
	Changed(ctx context.Context) <-chan struct{}

	// Waits returns a turn's waits in the order in which they were asked for.
	Waits(ctx context.Context, turnID string) ([]WaitRecord, error)
	// Waiting returns the open waits of turns that are not over, the oldest first: those of a session, or of all where
	// session is empty.
	Waiting(ctx context.Context, session string, limit int) ([]WaitRecord, error)

	// Fork makes a session that shares the messages 1..At of another one, by hash: nothing is copied and the other one
	// does not change. ErrNotFound, ErrExists, ErrForkPoint.
	Fork(ctx context.Context, in ForkInput) (SessionRecord, error)
	// PruneChunks removes the chunks of at most limit turns that ended before the time, and returns how many turns. What
	// was said stays in the transcript. A pruned turn keeps its turn_completed, so that a reader finds an end.
	PruneChunks(ctx context.Context, before time.Time, limit int) (turns int, err error)

	Session(ctx context.Context, id string) (SessionRecord, error)
	// Sessions returns the latest limit sessions, the most recently active first.
	Sessions(ctx context.Context, limit int) ([]SessionRecord, error)
	// Turns returns the session's turns in the order in which they began.
	Turns(ctx context.Context, session string) ([]TurnRecord, error)
	// TurnsAfter returns at most limit turns of the session that began after the named one, or from the first where after
	// is empty, in the order in which they began. ErrNotFound, also of a turn that is another session's.
	TurnsAfter(ctx context.Context, session, after string, limit int) ([]TurnRecord, error)
	// HeadAt returns the head right after the message of this seq; ErrNotFound where there is none.
	HeadAt(ctx context.Context, session string, seq int64) (turn.Head, error)
	// Inferences and Calls are the ledgers of one turn, by step and index.
	Inferences(ctx context.Context, turnID string) ([]Inference, error)
	Calls(ctx context.Context, turnID string) ([]CallRecord, error)

	// Export writes a session as JSON lines; Import reads it back, checks its hash chain and refuses what does not
	// fit. Importing what is there already changes nothing. The format is documented at Line.
	Export(ctx context.Context, session string, w io.Writer) error
	Import(ctx context.Context, r io.Reader) (SessionRecord, error)

	Close() error
}

// StepKey names an inference.
type StepKey struct {
	Turn string `json:"turn"`
	Step int    `json:"step"` // from 1
}

// BeginInput opens a turn.
type BeginInput struct {
	Session    string
	Turn       string // the first run ID of the workflow chain
	WorkflowID string
	RunID      string // the run that asks; a later run of the chain replaces it
	Agent      string
	Message    turn.Message // ID and Text; Role is user. An empty ID gets one derived from the turn.
	// MessageBlob names the text where it was too large to travel; Message.Text is empty then.
	MessageBlob string
	// Pins is what the turn's configuration was when it began, kept as it is for the resuming run.
	Pins json.RawMessage
	At   time.Time
}

// Begun answers Begin.
type Begun struct {
	Turn TurnRecord
	// Head is the transcript's head right after this turn's message: what a resuming run starts from.
	Head turn.Head
	// Pins are the pins of the turn's first Begin, whatever a later call says.
	Pins json.RawMessage
	// Resumed: the turn had begun before, by this chain.
	Resumed bool
	// DuplicateOf is the turn that had the message first, where that is another one. Nothing was written then.
	DuplicateOf *TurnRecord
	// Closed names the unfinished turn that was closed, if any.
	Closed string
}

// Result is the result of one call, as the next append writes it into the transcript. Where Text is empty and
// Outcome is zero, the ledger's settled outcome is written. Otherwise the call never ran: it is settled here with
// this outcome (denied, cancelled, error) and emits its chunks.
type Result struct {
	Call    turn.ToolCall
	Outcome turn.Outcome
	Text    string
}

// StartInference opens an attempt.
type StartInference struct {
	Session string
	Key     StepKey
	// Expect is the head before Results are appended. Where the results were appended by an earlier attempt of the
	// same step the head is ahead by exactly those, and that is no conflict.
	Expect  turn.Head
	Results []Result
	// Messages are appended after Results, each with message_joined; one whose ID the session has had is left out.
	Messages []Said
	Model    string
	At       time.Time
}

// Said is a message of a user: ID and Text, or the blob that has the text.
type Said struct {
	ID   string
	Text string
	Blob string
}

// AskInput opens waits.
type AskInput struct {
	Session string
	Turn    string
	// Waits: of an approval the journal fills Arguments in from the transcript, whose hash must be ArgumentsHash.
	Waits []turn.Wait
	At    time.Time
}

// DecideInput closes waits.
type DecideInput struct {
	Session string
	Turn    string
	Rulings []turn.Ruling
	At      time.Time
}

// WaitRecord is a wait with what came of it.
type WaitRecord struct {
	Session string `json:"session"`
	Turn    string `json:"turn"`
	turn.Wait
	AskedAt time.Time    `json:"asked_at,omitzero"`
	Ruling  *turn.Ruling `json:"ruling,omitempty"` // nil while it is open
}

// ForkInput names a point of a session and what begins there.
type ForkInput struct {
	Session string // that is forked
	// At is the seq of the last message that is shared, at least 1. Calls are not parted from their results: where the
	// message at At asks for calls, or the one after it is a result, the point is refused with ErrForkPoint.
	At    int64
	ID    string // of the new session
	Agent string // empty: that of the forked one
	Time  time.Time
}

// Inference is the ledger's record of (turn, step).
type Inference struct {
	Key      StepKey `json:"key"`
	Attempt  int     `json:"attempt"`            // of this attempt, from 1: counts every start, crashes included
	Failures int     `json:"failures,omitempty"` // attempts that ended in a provider's failure
	Model    string  `json:"model,omitempty"`
	// Base is the head after the results were appended: what the prompt is rendered from.
	Base turn.Head `json:"base,omitzero"`
	// Settled and what follows are set once the answer is complete.
	Settled   bool         `json:"settled,omitempty"`
	Head      turn.Head    `json:"head"` // after the assistant's message
	Answer    turn.Answer  `json:"answer,omitzero"`
	Message   turn.Message `json:"message,omitzero"` // as appended
	StartedAt time.Time    `json:"started_at,omitzero"`
	SettledAt time.Time    `json:"settled_at,omitzero"`
	Late      int          `json:"late,omitempty"` // answers that came after settlement
	// Untaken are the IDs of StartInference.Messages that the session has never had, where the step was settled already
	// and took none (a run that was reset): they are for a later step.
	Untaken []string `json:"-"`
}

// SettleInference settles one.
type SettleInference struct {
	Session string
	Key     StepKey
	Attempt int
	Answer  turn.Answer
	// Message is what is appended: role assistant, text, tool calls with their IDs.
	Message turn.Message
	// Chunks are the last deltas that were not appended yet; they go in with the same transaction.
	Chunks []turn.Chunk
	At     time.Time
}

// ClaimInput claims a call.
type ClaimInput struct {
	Turn string
	Step int
	Call turn.ToolCall
	// Attempt is the dispatch, from 1: a claim is refused where a higher one exists.
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
	Result  turn.ToolResult
	At      time.Time
}

// CallRecord is the ledger's record of a call.
type CallRecord struct {
	Turn    string        `json:"turn"`
	Step    int           `json:"step"`
	Call    turn.ToolCall `json:"call"`
	Attempt int           `json:"attempt"` // the highest that claimed
	// Runs counts the claims that were granted: above 1 only for repeatable tools.
	Runs       int          `json:"runs,omitempty"`
	Worker     string       `json:"worker,omitempty"`
	ClaimedAt  time.Time    `json:"claimed_at,omitzero"`
	Outcome    turn.Outcome `json:"outcome,omitempty"`   // zero while open
	Text       string       `json:"text,omitempty"`      // what the model is shown
	FullBlob   string       `json:"full_blob,omitempty"` // the whole output, where Text is a cut of it
	SizeBytes  int64        `json:"size_bytes,omitempty"`
	SettledAt  time.Time    `json:"settled_at,omitzero"`
	DurationMS int64        `json:"duration_ms,omitempty"`
	Late       bool         `json:"late,omitempty"` // of a SettleCall: this settlement was kept as late
	LateCount  int          `json:"late_count,omitempty"`
}

// FinishInput settles a turn.
type FinishInput struct {
	Session string
	Turn    string
	Results []Result
	// Messages were accepted and came too late for an answer.
	Messages []Said
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
	Agent     string     `json:"agent,omitempty"`
	Head      turn.Head  `json:"head"`
	Turns     int        `json:"turns,omitempty"`
	LastTurn  TurnRecord `json:"last_turn,omitzero"`
	CreatedAt time.Time  `json:"created_at,omitzero"`
	UpdatedAt time.Time  `json:"updated_at,omitzero"`
	FirstText string     `json:"first_text,omitempty"` // of the first message, a preview of at most 120 bytes
	// Parent and ForkSeq are set where the session began in another one: its messages up to ForkSeq are Parent's.
	Parent  string `json:"parent,omitempty"`
	ForkSeq int64  `json:"fork_seq,omitempty"`
	// Waiting is how many waits are open.
	Waiting int `json:"waiting,omitempty"`
}
