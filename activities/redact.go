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

func redactAnswer(r *redact.Redactor, done turn.Completion) turn.Completion {
	found := false
	blank := func(s string, redact func(string) string) string {
		clean := redact(s)
		found = found || clean != s
		return clean
	}
	text := r.String
	if strings.HasPrefix(strings.TrimSpace(done.Text), "{") { // possibly an action in JSON mode
		text = r.JSON
	}
	done.Text = blank(done.Text, text)
	done.Reasoning, done.FinishReason, done.Model = blank(done.Reasoning, r.String), blank(done.FinishReason, r.String),
		blank(done.Model, r.String)
	done.FinishReason = turn.Truncate(done.FinishReason, maxFinishReason)
	done.ToolCalls = slices.Clone(done.ToolCalls)
	for i, c := range done.ToolCalls {
		clean := turn.ToolCall{WireID: blank(c.WireID, r.String), Tool: blank(c.Tool, r.String),
			Arguments: blank(c.Arguments, r.JSON)}
		if clean.WireID != c.WireID {
			clean.WireID = "" // the turn assigns an ID: providers refuse IDs with brackets
		}
		done.ToolCalls[i] = clean
	}
	items := redactItems(r, done.Items)
	found = found || items != done.Items
	done.Items = items
	if raw := r.JSON(string(done.Raw)); done.Raw != nil {
		done.Raw = json.RawMessage(raw)
		if found || !json.Valid(done.Raw) {
			done.Raw = json.RawMessage(rawWithheld)
		}
	}
	return done
}
