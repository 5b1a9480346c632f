package completion

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/everturn/everturn/internal/redact"
	"github.com/everturn/everturn/workflows/turn"
)

const providerKey = "canary-5e1f09c2"

// echo is a model that returns a given answer, streamed in pieces of a given number of bytes.
type echo struct {
	Model
	answer turn.Completion
	piece  int
}

func (e echo) Infer(_ context.Context, _ turn.Prompt, sink turn.Sink) (turn.Completion, error) {
	for _, part := range []struct {
		text string
		to   func(string)
	}{{e.answer.Reasoning, sink.Reasoning}, {e.answer.Text, sink.Text}} {
		for rest := part.text; rest != ""; rest = rest[min(e.piece, len(rest)):] {
			part.to(rest[:min(e.piece, len(rest))])
		}
	}
	return e.answer, nil
}

// heard keeps the streamed text.
type heard struct{ text, reasoning strings.Builder }

func (h *heard) Text(s string)      { h.text.WriteString(s) }
func (h *heard) Reasoning(s string) { h.reasoning.WriteString(s) }

// TestACutLeavesNoBeginningOfASecret checks that a secret is redacted before its text is cut, and that the beginning of
// a secret that the provider cut off is not flushed.
func TestACutLeavesNoBeginningOfASecret(t *testing.T) {
	r := redact.New()
	r.Add(providerKey)
	output := turn.Completion{FinishReason: strings.Repeat("f", 300-len(providerKey)-2) + providerKey + "ggggg"}
	assert.NotContains(t, redactAnswer(r, output).FinishReason, "canary")
	var h heard
	_, err := redactedModel{broken{echo{answer: turn.Completion{Text: "it is canary-5e1f09c"}, piece: 3}},
		r}.Infer(t.Context(), turn.Prompt{}, &h)
	require.Error(t, err)
	assert.Equal(t, "it is ", h.text.String())
}

// broken is an echo whose stream ends early.
type broken struct{ echo }

func (b broken) Infer(ctx context.Context, p turn.Prompt, sink turn.Sink) (turn.Completion, error) {
	_, _ = b.echo.Infer(ctx, p, sink)
	return turn.Completion{}, errors.New("the connection was lost")
}

func TestAnAnswerHoldsNoSecret(t *testing.T) {
	r := redact.New()
	r.Add(providerKey)
	answer := turn.Completion{
		Text: "It is " + providerKey + ".", Reasoning: providerKey, FinishReason: "stop " + providerKey, Model: providerKey,
		ToolCalls: []turn.ToolCall{{WireID: "id-" + providerKey, Tool: providerKey,
			Arguments: `{"a":"\u0063anary-5e1f09c2"}`}},
		Raw: json.RawMessage(`[{"delta":"canary-"},{"delta":"5e1f09c2"}]`),
	}
	for piece := 1; piece <= len(answer.Text); piece++ {
		var h heard
		clean, err := redactedModel{echo{answer: answer, piece: piece}, r}.Infer(t.Context(), turn.Prompt{}, &h)
		require.NoError(t, err)
		assert.Equal(t, clean.Text, h.text.String())
		assert.Equal(t, "It is [redacted].", clean.Text)
		assert.Equal(t, "[redacted]", h.reasoning.String())
		assert.Equal(t, []turn.ToolCall{{Tool: "[redacted]", Arguments: `{"a":"[redacted]"}`}}, clean.ToolCalls)
		b, err := json.Marshal(clean)
		require.NoError(t, err)
		assert.NotContains(t, string(b), "5e1f09c2", "not in the pieces of the raw answer either")
	}
	assert.Equal(t, "id-"+providerKey, answer.ToolCalls[0].WireID, "the model's own answer does not change")

	action := redactAnswer(r,
		turn.Completion{Text: `{"type":"tool_call","name":"x","arguments":{"a":"\u0063anary-5e1f09c2"}}`})
	assert.JSONEq(t, `{"type":"tool_call","name":"x","arguments":{"a":"[redacted]"}}`, action.Text)

	whole := turn.Completion{Text: "a canary",
		Raw: json.RawMessage(`[{"fingerprint":"` + providerKey + `","text":"a canary"}]`)}
	assert.JSONEq(t, `[{"fingerprint":"[redacted]","text":"a canary"}]`, string(redactAnswer(r, whole).Raw))
	assert.Equal(t, turn.Completion{Text: "a canary"}, redactAnswer(r, turn.Completion{Text: "a canary"}))
}

// TestItemsThatHoldASecretAreDropped puts a secret into each field of the items that providers send.
func TestItemsThatHoldASecretAreDropped(t *testing.T) {
	r := redact.New()
	r.Add(providerKey)
	call := turn.ProviderItem{Part: turn.PartCall}
	for name, raw := range map[string][]string{
		"thinking":       {`{"type":"thinking","thinking":"KEY","signature":"s"}`},
		"signature":      {`{"type":"thinking","thinking":"t","signature":"xxKEY"}`},
		"data":           {`{"type":"redacted_thinking","data":"KEYxx"}`},
		"id":             {`{"type":"reasoning","id":"rs_KEY","summary":[],"encrypted_content":"e"}`},
		"summary":        {`{"type":"reasoning","id":"rs","summary":[{"type":"summary_text","text":"a KEY"}]}`},
		"encrypted":      {`{"type":"reasoning","id":"rs","encrypted_content":"KEY"}`},
		"reasoning":      {`{"reasoning_content":"it is KEY"}`},
		"details":        {`{"reasoning_details":[{"type":"reasoning.text","text":"KEY","signature":"s"}]}`},
		"extra content":  {`{"google":{"thought_signature":"KEY"}}`},
		"escaped":        {`{"signature":"\u0063anary-5e1f09c2"}`},
		"two parts":      {`{"id":"a","summary":[{"text":"canary-"},{"id":"b","text":"5e1f09c2"}]}`},
		"two items":      {`{"id":"a","data":"canary-"}`, `{"data":"5e1f09c2","id":"b"}`},
		"known elements": {`{"data":["canary-","5e1f09c2"]}`},
	} {
		t.Run(name, func(t *testing.T) {
			items := &turn.ProviderItems{}
			for _, one := range raw {
				one = strings.ReplaceAll(one, "KEY", providerKey)
				items.Items = append(items.Items, turn.ProviderItem{Raw: json.RawMessage(one)})
			}
			items.Items = append(items.Items, call)
			clean := redactAnswer(r, turn.Completion{Items: items, Raw: json.RawMessage(`["canary-","5e1f09c2"]`)})
			assert.Nil(t, clean.Items)
			assert.NotContains(t, string(clean.Raw), "5e1f09c2", "the raw answer may have it in pieces")
		})
	}
	kept := &turn.ProviderItems{Items: []turn.ProviderItem{{Raw: json.RawMessage(`{"signature":"canary"}`)}, call}}
	assert.Same(t, kept, redactAnswer(r, turn.Completion{Items: kept}).Items)
}
