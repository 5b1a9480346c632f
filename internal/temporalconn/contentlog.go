package temporalconn

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"

	"go.temporal.io/sdk/temporal"

	"github.com/everturn/everturn/codec"
)

// contentFreeLog leaves the texts of activities' errors out of the log, because they may quote content: a provider may
// repeat the prompt that it refuses. The journal and the history have them, encrypted. It is for workers that encrypt.
type contentFreeLog struct{ slog.Handler }

// Messages of records about activities' errors, of the SDK and of package activities, and their attributes with texts.
var (
	failureRecords = []string{activityError, "Activity panic.", "activity failed"}
	failureTexts   = []string{"Error", "PanicError", "message", "cause"}
)

func (c contentFreeLog) Handle(ctx context.Context, r slog.Record) error {
	if !slices.Contains(failureRecords, r.Message) {
		return c.Handler.Handle(ctx, r)
	}
	free := slog.NewRecord(r.Time, r.Level, r.Message, r.PC)
	r.Attrs(func(a slog.Attr) bool {
		if slices.Contains(failureTexts, a.Key) {
			a.Value = slog.StringValue(withoutText(a.Value.Any()))
		}
		free.AddAttrs(a)
		return true
	})
	return c.Handler.Handle(ctx, free)
}

// withoutText returns the type of an error, and the text of an error of the encryption itself.
func withoutText(v any) string {
	err, _ := v.(error)
	var app *temporal.ApplicationError
	switch {
	case codec.IsError(err):
		return err.Error()
	case errors.As(err, &app):
		return app.Type() + " (the text is encrypted in the history)"
	case v == nil:
		return ""
	}
	return fmt.Sprintf("%T (the text is not logged)", v)
}

func (c contentFreeLog) WithAttrs(attrs []slog.Attr) slog.Handler {
	return contentFreeLog{c.Handler.WithAttrs(attrs)}
}

func (c contentFreeLog) WithGroup(name string) slog.Handler {
	return contentFreeLog{c.Handler.WithGroup(name)}
}
