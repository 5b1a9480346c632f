package attempt

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

// WithWork returns ctx for an activity whose log lines name its turn, step and call.
func WithWork(ctx context.Context, turnID string, step int, call string) context.Context {
	return context.WithValue(ctx, workKey{}, work{turnID, step, call})
}

// Warn logs a warning with the turn, step and call of ctx. Outside an activity it does nothing.
func Warn(ctx context.Context, message string, keyvals ...any) {
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

// LogFailure logs an error with its cause. Only the log has the cause; users see the message.
func LogFailure(ctx context.Context, e *turn.Error) {
	Warn(ctx, "activity failed", "code", e.Code, "message", e.Message, "cause", e.Cause)
}
