package activities

import (
	"context"
	"encoding/json"
	"errors"
	"time"

	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/temporal"

	"github.com/everturn/everturn/journal"
	"github.com/everturn/everturn/workflows"
	"github.com/everturn/everturn/workflows/turn"
)

// eventOf returns an event with these data, which must marshal to JSON.
func eventOf(kind turn.EventKind, text string, data any) turn.Event {
	raw, _ := json.Marshal(data)
	return turn.Event{Kind: kind, Text: text, Data: raw, At: time.Now()}
}

// maxFailureText bounds the text of an error event, in bytes.
const maxFailureText = 1000

// showFailure appends an error event to the turn's stream. The stream is for readers: a failed append is logged and
// changes nothing. attempt is the inference's, or 0 for a call of a settled step.
func (a *Activities) showFailure(
	ctx context.Context, key journal.StepKey, attempt int, message string, data turn.ErrorEvent,
) {
	event := eventOf(turn.EventError, turn.Truncate(message, maxFailureText), data)
	if err := a.journal.AppendEvents(ctx, key, attempt, []turn.Event{event}); err != nil {
		logFailure(ctx, asTurnError(err))
	}
}

// showRetry shows why an attempt failed if the call is retried; otherwise tool_call_completed shows it. A call that
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
	a.showFailure(ctx, key, 0, app.Message(), turn.ErrorEvent{Code: code, CallID: in.Call.ID, Tool: in.Tool.ID})
}
