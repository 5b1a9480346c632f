package completion

import (
	"context"
	"encoding/json"
	"slices"
	"strings"

	"github.com/everturn/everturn/internal/redact"
	"github.com/everturn/everturn/workflows/turn"
)

// Redacted returns a Model that removes secrets from everything that m returns, because a provider may echo the API key
// of the request. It does so before the completion is parsed, hashed, stored, shown or sent. It does not change errors:
// the adapter redacts its own.
func Redacted(m Model, r *redact.Redactor) Model { return redactedModel{m, r} }

// redactedModel is the Model that Redacted returns.
type redactedModel struct {
	Model
	redact *redact.Redactor
}

// Infer implements Model.
func (m redactedModel) Infer(ctx context.Context, p turn.Prompt, sink turn.Sink) (turn.Completion, error) {
	s := &redactedSink{sink: sink, text: m.redact.Stream(), reasoning: m.redact.Stream()}
	answer, err := m.Model.Infer(ctx, p, s)
	if err != nil { // without a flush, because the text held back may be part of a secret; answer has only the usage
		return answer, err
	}
	sink.Reasoning(s.reasoning.Flush()) // what was held back
	sink.Text(s.text.Flush())
	return redactAnswer(m.redact, answer), nil
}

// redactedSink is a turn.Sink that removes secrets from a stream, even if they span several deltas. It therefore holds
// back text that may be the beginning of a secret.
type redactedSink struct {
	sink            turn.Sink
	text, reasoning *redact.Stream
}

// Text implements turn.Sink.
func (s *redactedSink) Text(delta string) { s.sink.Text(s.text.Write(delta)) }

// Reasoning implements turn.Sink.
func (s *redactedSink) Reasoning(delta string) { s.sink.Reasoning(s.reasoning.Write(delta)) }

// rawWithheld replaces the raw events of a completion that contained a secret, because a secret may be split over
// several events.
const rawWithheld = `[{"everturn_withheld":"the answer held a secret"}]`

// maxFinishReason bounds the provider's finish reason, in bytes.
const maxFinishReason = 300

// redactAnswer returns a completion without secrets, and with a bounded finish reason.
func redactAnswer(r *redact.Redactor, done turn.Completion) turn.Completion {
	found := false // a secret
	clean := func(s string, redact func(string) string) string {
		redacted := redact(s)
		found = found || redacted != s
		return redacted
	}
	redactText := r.String
	if strings.HasPrefix(strings.TrimSpace(done.Text), "{") { // possibly an action in JSON mode
		redactText = r.JSON
	}
	done.Text = clean(done.Text, redactText)
	done.Reasoning, done.FinishReason, done.Model = clean(done.Reasoning, r.String), clean(done.FinishReason, r.String),
		clean(done.Model, r.String)
	done.FinishReason = turn.Truncate(done.FinishReason, maxFinishReason)
	done.ToolCalls = slices.Clone(done.ToolCalls)
	for i, c := range done.ToolCalls {
		redacted := turn.ToolCall{WireID: clean(c.WireID, r.String), Tool: clean(c.Tool, r.String),
			Arguments: clean(c.Arguments, r.JSON)}
		if redacted.WireID != c.WireID {
			redacted.WireID = "" // the turn assigns another ID, because providers refuse the brackets of a redacted one
		}
		done.ToolCalls[i] = redacted
	}
	if done.Items != nil {
		items := redactItems(r, done.Items)
		found = found || items == nil
		done.Items = items
	}
	if raw := r.JSON(string(done.Raw)); done.Raw != nil {
		done.Raw = json.RawMessage(raw)
		if found || !json.Valid(done.Raw) { // redacting text in JSON may break it
			done.Raw = json.RawMessage(rawWithheld)
		}
	}
	return done
}
