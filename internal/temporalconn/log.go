package temporalconn

import (
	"context"
	"log/slog"

	"go.temporal.io/sdk/temporal"
)

// cancellationLog logs an activity that was cancelled, because its turn was stopped, at the info level. The SDK logs
// every error that an activity returns as an error, and an operator would look for a cause.
type cancellationLog struct{ slog.Handler }

// activityError is the beginning of the SDK's log message for an activity's error.
const activityError = "Activity error."

func (c cancellationLog) Handle(ctx context.Context, r slog.Record) error {
	if r.Level == slog.LevelError && r.Message == activityError && cancelled(r) {
		r.Level = slog.LevelInfo
		if !c.Enabled(ctx, r.Level) {
			return nil
		}
	}
	return c.Handler.Handle(ctx, r)
}

func (c cancellationLog) WithAttrs(attrs []slog.Attr) slog.Handler {
	return cancellationLog{c.Handler.WithAttrs(attrs)}
}
func (c cancellationLog) WithGroup(name string) slog.Handler {
	return cancellationLog{c.Handler.WithGroup(name)}
}

// cancelled reports whether a record has a cancellation among its attributes.
func cancelled(r slog.Record) (found bool) {
	r.Attrs(func(a slog.Attr) bool {
		err, is := a.Value.Any().(error)
		found = is && temporal.IsCanceledError(err)
		return !found
	})
	return found
}
