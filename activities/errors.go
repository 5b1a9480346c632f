package activities

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/log"
	"go.temporal.io/sdk/temporal"

	"github.com/everturn/everturn/journal"
	"github.com/everturn/everturn/workflows"
	"github.com/everturn/everturn/workflows/turn"
)

// asTurnError gives every error a turn.Code. It is the only place that translates the journal's errors for users.
func asTurnError(err error) *turn.Error {
	var e *turn.Error
	var large *journal.TooLargeError
	switch {
	case errors.As(err, &e):
		return e
	case errors.Is(err, journal.ErrConflict):
		return turn.Errorf(turn.CodeSessionBusy, err,
			"another turn has written to this session; what was done is kept: ask again")
	case errors.Is(err, journal.ErrClosed):
		return turn.Errorf(turn.CodeSessionBusy, err,
			"this turn was closed by a later one of its session; what was done is kept")
	case errors.Is(err, journal.ErrStale):
		return turn.Errorf(turn.CodeWorkerUnavailable, err, "a newer attempt is running")
	case errors.Is(err, journal.ErrBehind):
		return turn.Errorf(turn.CodeStoreUnavailable, err,
			"the journal lacks what this turn recorded before: it was restored to an earlier moment, or is another one; "+
				"restore a later copy and the turn continues, or stop the turn")
	case errors.Is(err, journal.ErrNotFound):
		return turn.Errorf(turn.CodeInternal, err,
			"the journal does not have the data that the turn refers to; check that this worker uses the right journal")
	case errors.Is(err, journal.ErrUnapproved):
		return turn.Errorf(turn.CodePolicyDenied, err, "the call was not approved with these arguments; it was not run")
	case errors.As(err, &large):
		return turn.Errorf(turn.CodeLLMRejected, err, tooLarge(large))
	case errors.Is(err, journal.ErrReplaced):
		return turn.Errorf(turn.CodeStoreUnavailable, err,
			"the journal was deleted or replaced while the worker ran: restore it and start the worker again")
	case errors.Is(err, journal.ErrNewer):
		return turn.Errorf(turn.CodeConfigInvalid, err, "the journal was written by a newer version; update this worker")
	}
	return turn.Errorf(turn.CodeStoreUnavailable, err, "the journal is not available: check its disk or its server")
}

// behind returns journal.ErrBehind in place of ErrNotFound, for what the turn has recorded before.
func behind(err error) error {
	if errors.Is(err, journal.ErrNotFound) {
		return fmt.Errorf("%w: %w", journal.ErrBehind, err)
	}
	return err
}

// tooLarge tells the user what to do about a message or prompt over the limit.
func tooLarge(e *journal.TooLargeError) string {
	if e.Seq == 0 {
		return fmt.Sprintf("the message is over %d MiB: send a shorter one", e.Max>>20)
	}
	return fmt.Sprintf(
		"the prompt is over %d MiB, which no model accepts: fork the session before message %d, or start another one",
		e.Max>>20, e.Seq)
}

// work names what an activity works on. Step is 0 and call empty if it works on the whole turn.
type work struct {
	turn string
	step int
	call string
}

type workKey struct{}

// withWork returns ctx for an activity whose log lines name its turn, step and call.
func withWork(ctx context.Context, turnID string, step int, call string) context.Context {
	return context.WithValue(ctx, workKey{}, work{turnID, step, call})
}

// warn logs a warning with the turn, step and call of ctx. Outside an activity it does nothing.
func warn(ctx context.Context, message string, keyvals ...any) {
	if !activity.IsActivity(ctx) {
		return
	}
	w, _ := ctx.Value(workKey{}).(work)
	names := []any{"turn", w.turn}
	if w.step > 0 {
		names = append(names, "step", w.step)
	}
	if w.call != "" {
		names = append(names, "call", w.call)
	}
	log.With(activity.GetLogger(ctx), names...).Warn(message, keyvals...)
}

// logFailure logs an error with its cause, which operators see and users do not.
func logFailure(ctx context.Context, e *turn.Error) {
	warn(ctx, "activity failed", "code", e.Code, "message", e.Message, "cause", e.Cause)
}

// chunkOf returns a chunk with these data, which must marshal to JSON.
func chunkOf(kind turn.ChunkKind, text string, data any) turn.Chunk {
	raw, _ := json.Marshal(data)
	return turn.Chunk{Kind: kind, Text: text, Data: raw, At: time.Now()}
}

// maxFailureText bounds the text of an error chunk, in bytes.
const maxFailureText = 1000

// showFailure appends an error chunk to the turn's stream. The stream is for readers: a failed append is logged and
// changes nothing. attempt is the inference's, or 0 for a call of a settled step.
func (a *Activities) showFailure(
	ctx context.Context, key journal.StepKey, attempt int, message string, data turn.ErrorChunk,
) {
	chunk := chunkOf(turn.ChunkError, turn.Truncate(message, maxFailureText), data)
	if err := a.journal.AppendChunks(ctx, key, attempt, []turn.Chunk{chunk}); err != nil {
		logFailure(ctx, asTurnError(err))
	}
}

// showRetry shows why a dispatch failed if the call is retried; otherwise tool_call_completed shows it. A call that
// waits for its server is shown once, not with every attempt of its activity.
func (a *Activities) showRetry(ctx context.Context, in workflows.CallInput, err error) {
	var app *temporal.ApplicationError
	if !errors.As(err, &app) || ctx.Err() != nil {
		return
	}
	code := turn.Code(app.Type())
	first := activity.IsActivity(ctx) && activity.GetInfo(ctx).Attempt == 1
	waits := code == turn.CodeToolNotSent && !app.NonRetryable() && first
	if !waits && (code != turn.CodeToolOutcomeUnknown || !in.RepeatIfUnknown) {
		return
	}
	key := journal.StepKey{Turn: in.Turn, Step: in.Step}
	a.showFailure(ctx, key, 0, app.Message(), turn.ErrorChunk{Code: code, CallID: in.Call.ID, Tool: in.Tool.ID})
}
