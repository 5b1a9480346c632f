package journal

import (
	"context"
	"time"

	"github.com/everturn/everturn/workflows/turn"
)

// Journal is the port that the activities write through. Every method is one transaction and idempotent: calling it
// again with the same arguments gives the same answer and changes nothing more.
type Journal interface {
	// Begin opens a turn: dedupes its message, closes the session's unfinished turn if it has one, appends the
	// message, records the pins and emits turn_started. See BeginInput and Begun. ErrTaken.
	Begin(ctx context.Context, in BeginInput) (Begun, error)

	// StartInference appends the results that the step before has left (see Results), what has become of calls of this
	// session whose outcome was unknown (see LateNotice; once each, with tool_call_resolved), and the messages that have
	// joined the turn, then opens an attempt of (turn, step). A settled inference comes back with its answer and Settled set; nothing else happens then.
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
	// closed is late too. With SettleInput.Taints any of them marks the session, where it brings the server's words.
	SettleCall(ctx context.Context, in SettleInput) (CallRecord, error)

	// ReleaseCall gives the claim of (turn, call, attempt) back: nothing reached the tool, and the next attempt is granted
	// as if this one had never been. Without such an open claim it changes nothing. Its tool_call_started stays.
	ReleaseCall(ctx context.Context, turnID, callID string, attempt int) error
	// SuspendCall gives a claim back in the middle of its call, whose server waits for a person, and keeps what the call
	// goes on with. The next attempt is granted and finds it in Claim.Record.Continuation; tool_call_started stays the
	// only one. A suspended call that nobody goes on with ends as unknown: its server may have begun.
	// ErrStale where the call is settled or another attempt has it, ErrClosed, ErrNotFound.
	SuspendCall(ctx context.Context, in SuspendInput) error
	// NoteCall appends tool_progress of an open claim. At most MaxNotes a call are kept: a later one changes nothing and is
	// no error. Like AppendChunks it appends again where it is called again.
	// ErrStale where the call is settled or suspended or another attempt has it, ErrClosed, ErrNotFound.
	NoteCall(ctx context.Context, turnID, callID string, attempt int, p turn.ToolProgress, at time.Time) error
	// Tainted returns the first mark of a session (see SettleInput.Taints), nil where it has none or has not begun. A fork
	// of a marked session is marked.
	Tainted(ctx context.Context, session string) (*Mark, error)
	// Artifact returns a blob that a call of this session has left, or of what it was forked from: the whole of a result that
	// was cut, or one of its media. ErrNotFound for everything else that the journal has.
	Artifact(ctx context.Context, session, hash string) (mediaType string, b []byte, err error)

	// Finish appends results that are still open (see Results) and FinishInput.Messages, settles the turn and emits
	// turn_completed. Calls of the last assistant message that have no result get one: settled ones theirs, claimed ones
	// unknown, the rest cancelled. Waits that are open are ruled cancelled. Where the turn is cancelled in the middle of an
	// inference, the text that its last attempt has shown is the turn's answer, up to SummaryBytes.
	Finish(ctx context.Context, in FinishInput) (TurnRecord, error)

	// AppendChunks numbers chunks and appends them. Only Kind, Text, Data and At are read from each chunk; Step and
	// Attempt come from the key. Kinds that the journal writes itself are refused. It and NoteCall have no
	// idempotency key: an error means that nothing was appended, and a call that is repeated after success appends again.
	// With attempt 0, error chunks are appended after the step is settled: its calls have failed.
	// ErrStale where a newer attempt of the step runs or the step is settled, ErrClosed, ErrNotFound for an attempt that never started.
	AppendChunks(ctx context.Context, key StepKey, attempt int, chunks []turn.Chunk) error

	// Messages returns the transcript's messages with from <= seq <= to, in order, with their whole content.
	Messages(ctx context.Context, session string, from, to int64) ([]turn.Message, error)
	Turn(ctx context.Context, turnID string) (TurnRecord, error)
	// TurnPins returns what Begin has recorded of a turn, whatever a workflow says later. ErrNotFound.
	TurnPins(ctx context.Context, turnID string) (TurnPins, error)
	// Delivered returns the turn that took this message of the session, the one that it joined included. ErrNotFound.
	Delivered(ctx context.Context, session, messageID string) (TurnRecord, error)
	// StepMessage returns the assistant's message that settled the inference; ErrNotFound where it is not settled.
	StepMessage(ctx context.Context, key StepKey) (turn.Message, error)
	// Call returns the call with its arguments and outcome; ErrNotFound where it was never claimed.
	Call(ctx context.Context, turnID, callID string) (CallRecord, error)

	// PublishCatalogue makes c the current catalogue of its server. Unchanged content changes nothing. Where the server is
	// published for the first time, all its tools are accepted as they are; later a tool that is new is accepted where the
	// server's Setup is, and one that has changed only where it MayChange. What is accepted stays so: a tool that vanishes
	// and comes back as it was, or that two workers publish in two versions, is not asked about again. c.Held is not read. A
	// catalogue with a Problem keeps the tools of the one before and the Since of the first with a Problem: see Outlast.
	PublishCatalogue(ctx context.Context, c turn.Catalogue) error
	// Catalogues returns the current catalogue of each server that has published one, ordered by server. Tools are those that
	// are accepted as they are, Held the others. Hash stays that of what was published. Nothing of LocalServer is ever held.
	Catalogues(ctx context.Context) ([]turn.Catalogue, error)

	// PutBlob stores bytes under their SHA-256 (hex) and returns it; GetBlob returns ErrNotFound where there are none.
	PutBlob(ctx context.Context, mediaType string, b []byte) (hash string, err error)
	GetBlob(ctx context.Context, hash string) ([]byte, error)
}
