package redact

import (
	"context"
	"fmt"
	"log/slog"
)

// Handler returns a log handler that redacts messages and attributes and passes the records on to h.
func (r *Redactor) Handler(h slog.Handler) slog.Handler { return handler{h, r} }

type handler struct {
	slog.Handler
	redact *Redactor
}

// Handle implements slog.Handler. It passes on a redacted copy of the record.
func (h handler) Handle(ctx context.Context, record slog.Record) error {
	clean := slog.NewRecord(record.Time, record.Level, h.redact.String(record.Message), record.PC)
	record.Attrs(func(a slog.Attr) bool {
		clean.AddAttrs(h.attr(a))
		return true
	})
	return h.Handler.Handle(ctx, clean)
}

// WithAttrs implements slog.Handler.
func (h handler) WithAttrs(attrs []slog.Attr) slog.Handler {
	return handler{h.Handler.WithAttrs(h.attrs(attrs)), h.redact}
}

// WithGroup implements slog.Handler.
func (h handler) WithGroup(name string) slog.Handler {
	return handler{h.Handler.WithGroup(name), h.redact}
}

// attrs redacts a list of attributes.
func (h handler) attrs(attrs []slog.Attr) []slog.Attr {
	clean := make([]slog.Attr, len(attrs))
	for i, a := range attrs {
		clean[i] = h.attr(a)
	}
	return clean
}

// attr redacts one attribute. A value that is not a string becomes one only if its text contains a secret.
func (h handler) attr(a slog.Attr) slog.Attr {
	v := a.Value.Resolve()
	switch v.Kind() {
	case slog.KindGroup:
		return slog.Attr{Key: a.Key, Value: slog.GroupValue(h.attrs(v.Group())...)}
	case slog.KindString:
		return slog.String(a.Key, h.redact.String(v.String()))
	case slog.KindAny:
		text := fmt.Sprintf("%+v", v.Any())
		if clean := h.redact.String(text); clean != text {
			return slog.String(a.Key, clean)
		}
	}
	return slog.Attr{Key: a.Key, Value: v}
}
