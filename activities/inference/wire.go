package inference

import (
	"bytes"
	"encoding/json"
	"strings"
)

// event is one object of a stream, or the whole of an answer that was not streamed: one has deltas, the other messages.
// Providers take liberties with the types of fields, hence text and arguments.
type event struct {
	Model   text            `json:"model"`
	Choices []choice        `json:"choices"`
	Usage   json.RawMessage `json:"usage"`
	Error   json.RawMessage `json:"error"`
}

type choice struct {
	Index        int    `json:"index"`
	Delta        *piece `json:"delta"`
	Message      *piece `json:"message"`
	FinishReason text   `json:"finish_reason"`
}

type piece struct {
	Content   text       `json:"content"`
	Refusal   text       `json:"refusal"`
	Thinking  text       `json:"reasoning_content"` // DeepSeek and those who follow it
	Reasoning text       `json:"reasoning"`         // OpenRouter, newer vLLM
	ToolCalls []callPart `json:"tool_calls"`
}

type callPart struct {
	Index    *int `json:"index"`
	ID       text `json:"id"`
	Function struct {
		Name      text     `json:"name"`
		Arguments argument `json:"arguments"`
	} `json:"function"`
}

// text is a string; of a list of content parts, their text; of anything else, nothing.
type text string

func (t *text) UnmarshalJSON(b []byte) error {
	*t = ""
	switch b[0] {
	case '"':
		return json.Unmarshal(b, (*string)(t))
	case '[':
		var parts []struct {
			Text jsonString `json:"text"`
		}
		if json.Unmarshal(b, &parts) == nil {
			var all strings.Builder
			for _, p := range parts {
				all.WriteString(string(p.Text))
			}
			*t = text(all.String())
		}
	}
	return nil
}

// jsonString is a string; of anything else, nothing. Unlike text it looks into no list: each level of lists in lists would be
// decoded again.
type jsonString string

func (p *jsonString) UnmarshalJSON(b []byte) error {
	*p = ""
	if b[0] != '"' {
		return nil
	}
	return json.Unmarshal(b, (*string)(p))
}

// argument is a string; an object that should have been one is taken as its JSON.
type argument string

func (a *argument) UnmarshalJSON(b []byte) error {
	switch {
	case b[0] == '"':
		return json.Unmarshal(b, (*string)(a))
	case bytes.Equal(b, []byte("null")):
		*a = ""
	default:
		*a = argument(b)
	}
	return nil
}

// usage is a provider's count of tokens.
type usage struct {
	Prompt     float64 `json:"prompt_tokens"`
	Completion float64 `json:"completion_tokens"`
	Details    struct {
		Cached float64 `json:"cached_tokens"`
	} `json:"prompt_tokens_details"`
}

// maxTokens is where a count stops being believed.
const maxTokens = 1 << 40

// parseUsage reads a usage object and reports whether it says anything.
func parseUsage(raw json.RawMessage) (usage, bool) {
	var u usage
	if len(raw) == 0 || json.Unmarshal(raw, &u) != nil {
		return usage{}, false
	}
	plausible := func(f float64) bool { return f >= 0 && f < maxTokens }
	ok := plausible(u.Prompt) && plausible(u.Completion) && plausible(u.Details.Cached) && u.Prompt+u.Completion > 0
	return u, ok
}

// clean replaces what no store and no terminal takes. json has replaced bad UTF-8 already.
func clean[S ~string](s S) string { return strings.ReplaceAll(string(s), "\x00", "\uFFFD") }
