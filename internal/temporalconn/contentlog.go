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

// contentFreeLog is a log handler for workers that encrypt payloads. It leaves out the texts of activities' errors,
// because they may quote content: a provider may repeat the prompt that it refuses. The journal and the history have
// these texts, encrypted.
type contentFreeLog struct{ slog.Handler }

// ContentFree wraps the log handler of a worker that encrypts payloads, so that the log does not contain texts that
// may quote content.
func ContentFree(h slog.Handler) slog.Handler {
	if _, is := h.(contentFreeLog); is {
		return h
	}
	return contentFreeLog{h}
}

// The messages of the SDK's records about activities' errors, the attributes with texts in these records, and those in
// Everturn's own records.
var (
	failureRecords = []string{activityError, "Activity panic.", "LocalActivity panic.", "Activity complete after timeout."}
	failureTexts   = []string{"Error", "PanicError"}
	ownTexts       = []string{"message", "cause", "it said", "server_text", "problem", "why", "reason", "dropped"}
)

// Handle implements slog.Handler. It replaces the attributes whose texts may quote content.
func (c contentFreeLog) Handle(ctx context.Context, r slog.Record) error {
	failure := slices.Contains(failureRecords, r.Message)
	free := slog.NewRecord(r.Time, r.Level, r.Message, r.PC)
	r.Attrs(func(a slog.Attr) bool {
		if failure && slices.Contains(failureTexts, a.Key) || slices.Contains(ownTexts, a.Key) {
			a.Value = slog.StringValue(withoutText(a.Value.Any()))
		}
		free.AddAttrs(a)
		return true
	})
	return c.Handler.Handle(ctx, free)
}

// withoutText returns a description of a log attribute's value without its text, such as an error's type. Errors of
// the encryption keep their text, which quotes no content.
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
