package temporalconn

import (
	"context"
	"log/slog"

	"go.temporal.io/sdk/temporal"
)

// cancellationLog is a log handler that logs an activity that was cancelled because its turn was stopped at the info
// level. The SDK logs it as an error, and an operator would look for a cause.
type cancellationLog struct{ slog.Handler }

// activityError is the SDK's log message for an activity that returned an error.
const activityError = "Activity error."

// Handle implements slog.Handler. It lowers the level of a record about a cancelled activity.
func (c cancellationLog) Handle(ctx context.Context, r slog.Record) error {
	if r.Level == slog.LevelError && r.Message == activityError && hasCancellation(r) {
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

// hasCancellation reports whether one of the record's attributes is the error of a cancellation.
func hasCancellation(r slog.Record) (found bool) {
	r.Attrs(func(a slog.Attr) bool {
		err, is := a.Value.Any().(error)
		found = is && temporal.IsCanceledError(err)
		return !found
	})
	return found
}
