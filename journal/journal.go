package journal

import (
	"context"
	"time"

	"github.com/everturn/everturn/workflows/turn"
)

// Journal is the interface that the activities need. Every method is one transaction and, except for AppendChunks and
// NoteCall, idempotent: a second call with the same arguments returns the same result and changes nothing.
//
// Begin names a tenant and a session. The other methods name a turn that Begin has returned, of any tenant: they act on
// that turn and its session.
type Journal interface {
	// Tenant returns the journal of one tenant: see Store.
	Tenant(tenant string) Store

	// Begin opens a turn: it checks whether the message was taken before, closes the session's unfinished turn, appends
	// the message, records the turn config and emits turn_started. See BeginInput and BeginResult.
	Begin(ctx context.Context, in BeginInput) (BeginResult, error)

	// StartInference appends the results of the step before (see Result), late results of the session's calls whose
	// outcome was unknown (see lateNotice; once each, with tool_call_late_result), and the messages that were merged into
	// the turn. Then it opens an attempt of (turn, step). If the inference is settled, StartInference returns its
	// completion with Settled set and changes nothing. A second attempt emits attempt_restarted if the first one has
	// emitted text. ErrClosed, ErrConflict.
	StartInference(ctx context.Context, in StartInference) (Inference, error)
	// SettleInference appends the assistant's message, settles the inference and emits its last chunks. If the step is
	// settled already, SettleInference returns the settled inference unchanged and counts the late completion. ErrStale
	// if a newer attempt runs, ErrClosed.
	SettleInference(ctx context.Context, in SettleInference) (Inference, error)
	// FailInference counts a failure of an attempt and returns the number of the step's failures.
	FailInference(ctx context.Context, key StepKey, attempt int, code turn.Code, message string) (failures int, err error)

	// Ask records what the turn waits for, emits approval_requested and question_asked once for each request, and shows
	// the turn as waiting. It returns the decisions that the requests have already, so that a reset turn does not ask
	// twice. ErrClosed if the turn is settled and a request has no decision.
	Ask(ctx context.Context, in AskInput) (ruled []turn.Decision, err error)
	// Decide records decisions, emits approval_decided and question_answered, keeps new grants, and shows the turn as
	// running when it has no open request left. The first decision of a request stands; another one changes nothing.
	// ErrNotFound if a request does not exist, ErrClosed if the turn is settled and a request has no decision.
	Decide(ctx context.Context, in DecideInput) error
	// Grants returns the grants of the turn's session in the order in which they were given. ErrNotFound.
	Grants(ctx context.Context, turnID string) ([]turn.Grant, error)

	// ClaimCall claims a call before it runs and emits tool_call_started, once for each call. See ClaimState for the
	// results. ErrClosed; ErrUnapproved if ClaimInput.Approved is set and no decision allows this call with these
	// arguments.
	ClaimCall(ctx context.Context, in ClaimInput) (Claim, error)
	// SettleCall records how a call ended and emits tool_call_completed. The first settlement stands. A later one, even
	// after the turn is closed, is kept in late_results, and SettleCall returns the settled record with Late set. With
	// SettleInput.Taints, both kinds taint the session if the result is from the server.
	SettleCall(ctx context.Context, in SettleInput) (CallRecord, error)
	// ReleaseCall withdraws the claim of (turn, call, attempt): nothing reached the tool, and the next attempt is
	// granted as if this one had never existed. If that claim is not open, ReleaseCall changes nothing. Its
	// tool_call_started stays.
	ReleaseCall(ctx context.Context, turnID, callID string, attempt int) error
	// SuspendCall withdraws a claim in the middle of its call, because the server needs a response first, and keeps the
	// continuation. The next attempt is granted and finds it in Claim.Record.Continuation; there is no second
	// tool_call_started. A suspended call that is never continued ends as unknown: its server may have begun. ErrStale
	// if the call is settled or another attempt has claimed it, ErrClosed, ErrNotFound.
	SuspendCall(ctx context.Context, in SettleInput) error
	// NoteCall appends tool_progress of an open claim. The journal keeps at most MaxNotes for each call: a later one
	// changes nothing and is not an error. NoteCall is not idempotent: like AppendChunks, it appends again if it is
	// called again. ErrStale if the call is settled or suspended or another attempt has claimed it, ErrClosed,
	// ErrNotFound.
	NoteCall(ctx context.Context, turnID, callID string, attempt int, p turn.ToolProgress, at time.Time) error
	// Taint returns the first taint source of the turn's session (see SettleInput.Taints), nil if it has none. A fork
	// inherits it. ErrNotFound.
	Taint(ctx context.Context, turnID string) (*TaintSource, error)
	// Artifact returns a blob that a call of the turn's session, or of its shared past, has left: the whole of a
	// truncated result, or one of its media. ErrNotFound for every other blob.
	Artifact(ctx context.Context, turnID, hash string) (mediaType string, b []byte, err error)

	// Finish appends results that are still open (see Result) and FinishInput.Messages, settles the turn and emits
	// turn_completed. Calls of the last assistant message that have no result get one: a settled call its own outcome,
	// a claimed call unknown, any other call cancelled. Open requests are cancelled. If the turn is cancelled in the
	// middle of an inference, the turn's answer is the text that the last attempt has emitted, up to SummaryBytes.
	Finish(ctx context.Context, in FinishInput) (TurnRecord, error)

	// AppendChunks numbers chunks and appends them. Only Kind, Text, Data and At are read from each chunk; Step and
	// Attempt come from the key. Kinds that the journal writes itself are refused. AppendChunks and NoteCall have no
	// idempotency key: an error means that nothing was appended, and a call that is repeated after success appends
	// again. With attempt 0, AppendChunks accepts error chunks after the step is settled, for calls that failed.
	// ErrStale if a newer attempt of the step runs or the step is settled, ErrClosed, ErrNotFound if the attempt never
	// started.
	AppendChunks(ctx context.Context, key StepKey, attempt int, chunks []turn.Chunk) error

	// Window returns the messages of the turn's session with from <= seq <= to, in order. It loads no more than maxBytes
	// of texts and calls: *TooLargeError. ErrNotFound.
	Window(ctx context.Context, turnID string, from, to, maxBytes int64) ([]turn.Message, error)
	// TurnConfig returns the turn config that Begin recorded, whatever a workflow says later. ErrNotFound.
	TurnConfig(ctx context.Context, turnID string) (TurnConfig, error)
	// StepMessage returns the assistant's message that settled the inference; ErrNotFound if it is not settled.
	StepMessage(ctx context.Context, key StepKey) (turn.Message, error)

	// PublishCatalogue makes c the current catalogue of its server. Unchanged content changes nothing. All tools of a
	// server that is published for the first time are approved. Later, a new tool is approved if the server's
	// configuration (Setup) is new, and a changed tool only if AllowToolChanges is set. An approval stays: a tool that
	// disappears and returns unchanged, or that two workers publish in two versions, needs no second approval. c.Held
	// is ignored. A catalogue with a Problem keeps the tools of the one before and the Since of the first one with a
	// Problem: see outlast.
	PublishCatalogue(ctx context.Context, c turn.Catalogue) error
	// Catalogues returns the current catalogue of each server that has published one, ordered by server. Tools are the
	// approved tools, Held the quarantined ones. Hash covers both. No tool of LocalServer is ever quarantined.
	Catalogues(ctx context.Context) ([]turn.Catalogue, error)

	// PutBlob stores bytes under their SHA-256 (hex) and returns it; GetBlob returns ErrNotFound if the journal has no
	// such blob.
	PutBlob(ctx context.Context, mediaType string, b []byte) (hash string, err error)
	GetBlob(ctx context.Context, hash string) ([]byte, error)
}
