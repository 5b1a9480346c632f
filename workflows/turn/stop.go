package turn

import (
	"encoding/json"
	"strings"
)

// StopCause is the reason why a completion ended early. The zero value means that it is complete, according to the
// provider.
type StopCause string

// The stop causes. Each is the finish reason of a turn that ends with such a completion.
const (
	StopLength        StopCause = "length"         // the limit on output tokens, or the end of the context window
	StopContentFilter StopCause = "content_filter" // the provider's filter
	StopRefusal       StopCause = "refusal"        // the model declined; the text contains the refusal
)

// stopCauses maps the finish reasons of providers, in lower case, to stop causes. They are the finish reasons of
// OpenAI's Chat Completions, and those that OpenAI-compatible endpoints pass on from Anthropic, Gemini and Mistral.
// Any other finish reason, even an unknown one, means that the completion is complete, because endpoints have many
// names for that.
var stopCauses = map[string]StopCause{
	"length": StopLength, "max_tokens": StopLength, "max_output_tokens": StopLength, "model_length": StopLength,
	"model_context_window_exceeded": StopLength,
	"content_filter":                StopContentFilter, "safety": StopContentFilter, "image_safety": StopContentFilter,
	"recitation": StopContentFilter, "blocklist": StopContentFilter, "prohibited_content": StopContentFilter,
	"spii": StopContentFilter, "function_call_filter": StopContentFilter,
	"pause_turn": StopLength, // of Anthropic, for tools that it runs itself, which are not requested
	"refusal":    StopRefusal,
}

// Stop returns the reason why the completion ended early, or "" if it is complete.
func (c Completion) Stop() StopCause {
	if c.Refused {
		return StopRefusal
	}
	reason, _, _ := strings.Cut(strings.ToLower(c.FinishReason), ":") // "content_filter: PROHIBITED_CONTENT"
	return stopCauses[reason]
}

// Partial is the usable part of a completion that ended early.
type Partial struct {
	Text  string     // the text to display
	Calls []ToolCall // must not run: arguments or further calls may be missing
	// Action means that the completion ended within a tool call or another action of the protocol.
	Action bool
}

// ParsePartial returns the usable part of a completion that ended early. See Parse for the parameters.
func ParsePartial(mode Mode, step int, c Completion, tools []Tool) Partial {
	action, err := Parse(mode, step, c, tools)
	switch act := action.(type) {
	case Final:
		return Partial{Text: act.Text}
	case AskUser:
		return Partial{Text: act.Question}
	case CallTools:
		p := Partial{Calls: act.Calls, Action: true}
		if mode != ModeJSON {
			p.Text = c.Text
		}
		return p
	}
	// There is no valid action. In JSON mode, the text may be the beginning of one.
	if mode != ModeJSON || err == nil || !strings.HasPrefix(strings.TrimSpace(c.Text), "{") {
		return Partial{Text: c.Text, Action: len(c.ToolCalls) > 0}
	}
	text, ok := partialFinal(c.Text)
	return Partial{Text: text, Action: !ok}
}

// maxEscape is the size of the longest escape in a JSON string, in bytes: \u0041.
const maxEscape = 6

// partialFinal returns the content of a JSON action "final" that is cut off within the content. It drops the end of
// the text if that is an incomplete escape. ok is false if text is not the beginning of such an action.
func partialFinal(text string) (content string, ok bool) {
	text = strings.TrimSpace(text)
	// Complete the text to a JSON object, without its last bytes if they are the beginning of an escape.
	for cut := 0; cut <= min(maxEscape, len(text)); cut++ {
		var fields map[string]json.RawMessage
		if json.Unmarshal([]byte(text[:len(text)-cut]+`"}`), &fields) != nil {
			continue
		}
		kind, _ := stringField(fields, "type")
		if content, err := stringField(fields, "content"); err == nil && kind == string(ProposeFinal) {
			return content, true
		}
		return "", false
	}
	return "", false
}
