package cluster

import (
	"context"
	"log/slog"

	"go.temporal.io/sdk/temporal"
)

// calm logs an activity that ended because it was cancelled for what it is: somebody has stopped a turn. The SDK logs
// every error that an activity returns at the level of an error, and an operator would look for a cause.
type calm struct{ slog.Handler }

// activityError is how the SDK begins what it logs of an activity's error.
const activityError = "Activity error."

func (c calm) Handle(ctx context.Context, r slog.Record) error {
	if r.Level == slog.LevelError && r.Message == activityError && cancelled(r) {
		r.Level = slog.LevelInfo
		if !c.Enabled(ctx, r.Level) {
			return nil
		}
	}
	return c.Handler.Handle(ctx, r)
}

func (c calm) WithAttrs(attrs []slog.Attr) slog.Handler { return calm{c.Handler.WithAttrs(attrs)} }
func (c calm) WithGroup(name string) slog.Handler       { return calm{c.Handler.WithGroup(name)} }

// cancelled reports whether a cancellation is among what a record tells.
func cancelled(r slog.Record) (found bool) {
	r.Attrs(func(a slog.Attr) bool {
		err, is := a.Value.Any().(error)
		found = is && temporal.IsCanceledError(err)
		return !found
	})
	return found
}
