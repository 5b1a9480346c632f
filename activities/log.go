package activities

import (
	"context"

	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/log"

	"github.com/everturn/everturn/workflows/turn"
)

// work names what an activity works on, for the log. Step is 0 and call empty if it works on the whole turn.
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

// logFailure logs an error with its cause. Only the log has the cause; users see the message.
func logFailure(ctx context.Context, e *turn.Error) {
	warn(ctx, "activity failed", "code", e.Code, "message", e.Message, "cause", e.Cause)
}
