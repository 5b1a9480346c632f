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

// eventOf returns an event of this kind. data must marshal to JSON.
func eventOf(kind turn.EventKind, text string, data any) turn.Event {
	raw, _ := json.Marshal(data)
	return turn.Event{Kind: kind, Text: text, Data: raw, At: time.Now()}
}

// maxFailureText bounds the text of an error event, in bytes.
const maxFailureText = 1000

// showFailure appends an error event to the turn's stream. A failed append is only logged, because the turn does not
// depend on its stream. attempt is the attempt of the inference key, or 0 if the step is settled already.
func (a *Activities) showFailure(
	ctx context.Context, key journal.StepKey, attempt int, message string, data turn.ErrorEvent,
) {
	event := eventOf(turn.EventError, turn.Truncate(message, maxFailureText), data)
	if err := a.journal.AppendEvents(ctx, key, attempt, []turn.Event{event}); err != nil {
		logFailure(ctx, asTurnError(err))
	}
}

// showRetry appends an error event if err means that the call will be attempted again. A call that is not attempted
// again has the error in its event tool_call_completed. A call that waits for its server gets one event, not one for
// each attempt of its activity; a call that waits for the journal gets none.
func (a *Activities) showRetry(ctx context.Context, in workflows.CallInput, err error) {
	var app *temporal.ApplicationError
	if !errors.As(err, &app) || ctx.Err() != nil {
		return
	}
	code := turn.Code(app.Type())
	first := activity.IsActivity(ctx) && activity.GetInfo(ctx).Attempt == 1
	beginsToWait := code == turn.CodeToolNotSent && !app.NonRetryable() && first
	isRepeated := code == turn.CodeToolOutcomeUnknown && in.RepeatIfUnknown || // the workflow attempts the call again
		code == turn.CodeToolFailed && in.RetryIfError
	if !beginsToWait && !isRepeated {
		return
	}
	key := journal.StepKey{Turn: in.Turn, Step: in.Step}
	a.showFailure(ctx, key, 0, app.Message(), turn.ErrorEvent{Code: code, CallID: in.Call.ID, Tool: in.Tool.ID})
}
