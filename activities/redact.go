package activities

import (
	"context"
	"encoding/json"
	"slices"
	"strings"

	"github.com/everturn/everturn/internal/redact"
	"github.com/everturn/everturn/workflows/turn"
)

func (a *Activities) redact(s string) string { return a.secrets.String(s) }

// redactedModel removes secrets from everything that a model returns, before it is parsed, hashed, stored, shown or
// sent: a provider may echo the key of the request. The adapter redacts its own errors.
type redactedModel struct {
	Model
	redact *redact.Redactor
}

// Infer implements Model.
func (m redactedModel) Infer(ctx context.Context, p turn.Prompt, sink turn.Sink) (turn.Completion, error) {
	s := &redactedSink{sink: sink, text: m.redact.Stream(), reasoning: m.redact.Stream()}
	answer, err := m.Model.Infer(ctx, p, s)
	if err != nil { // the text held back may be the beginning of a secret
		return answer, err
	}
	s.flush()
	return redactAnswer(m.redact, answer), nil
}

// redactedSink removes secrets that span several deltas of a stream.
type redactedSink struct {
	sink            turn.Sink
	text, reasoning *redact.Stream
}

// Text implements turn.Sink.
func (s *redactedSink) Text(delta string) { s.sink.Text(s.text.Write(delta)) }

// Reasoning implements turn.Sink.
func (s *redactedSink) Reasoning(delta string) { s.sink.Reasoning(s.reasoning.Write(delta)) }

func (s *redactedSink) flush() {
	s.sink.Reasoning(s.reasoning.Flush())
	s.sink.Text(s.text.Flush())
}

// rawWithheld replaces the raw events of a completion if they hold a secret in pieces.
const rawWithheld = `[{"everturn_withheld":"the answer held a secret"}]`

// maxFinishReason bounds the provider's finish reason, in bytes.
const maxFinishReason = 300

func redactAnswer(r *redact.Redactor, a turn.Completion) turn.Completion {
	found := false
	blank := func(s string, redact func(string) string) string {
		clean := redact(s)
		found = found || clean != s
		return clean
	}
	text := r.String
	if strings.HasPrefix(strings.TrimSpace(a.Text), "{") { // possibly an action in JSON mode
		text = r.JSON
	}
	a.Text = blank(a.Text, text)
	a.Reasoning, a.FinishReason, a.Model = blank(a.Reasoning, r.String), blank(a.FinishReason, r.String),
		blank(a.Model, r.String)
	a.FinishReason = turn.Truncate(a.FinishReason, maxFinishReason)
	a.ToolCalls = slices.Clone(a.ToolCalls)
	for i, c := range a.ToolCalls {
		clean := turn.ToolCall{WireID: blank(c.WireID, r.String), Tool: blank(c.Tool, r.String),
			Arguments: blank(c.Arguments, r.JSON)}
		if clean.WireID != c.WireID {
			clean.WireID = "" // the turn assigns an ID: providers refuse IDs with brackets
		}
		a.ToolCalls[i] = clean
	}
	if raw := r.JSON(string(a.Raw)); a.Raw != nil {
		a.Raw = json.RawMessage(raw)
		if found || !json.Valid(a.Raw) {
			a.Raw = json.RawMessage(rawWithheld)
		}
	}
	return a
}
