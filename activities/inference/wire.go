package inference

import (
	"bytes"
	"encoding/json"
	"strings"
)

// event is one object of a stream, or the whole response if it is not streamed: one has deltas, the other messages.
// Providers vary the types of fields, so event uses text, jsonString and argument instead of string.
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
	Thinking  text       `json:"reasoning_content"` // DeepSeek and compatible providers
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

// text decodes a string, or the text of a list of content parts. Any other value decodes to "".
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

// jsonString decodes a string. Any other value decodes to "". Unlike text it does not look into lists, because each
// level of nested lists would be decoded again.
type jsonString string

func (p *jsonString) UnmarshalJSON(b []byte) error {
	*p = ""
	if b[0] != '"' {
		return nil
	}
	return json.Unmarshal(b, (*string)(p))
}

// argument decodes a string. An object in place of a string decodes to its JSON.
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

// maxTokens is the count from which a provider's usage is not believed.
const maxTokens = 1 << 40

// parseUsage decodes a usage object and reports whether it has any counts.
func parseUsage(raw json.RawMessage) (usage, bool) {
	var u usage
	if len(raw) == 0 || json.Unmarshal(raw, &u) != nil {
		return usage{}, false
	}
	plausible := func(f float64) bool { return f >= 0 && f < maxTokens }
	ok := plausible(u.Prompt) && plausible(u.Completion) && plausible(u.Details.Cached) && u.Prompt+u.Completion > 0
	return u, ok
}

// replaceNUL replaces NUL, which stores and terminals do not accept. Package json has already replaced invalid UTF-8.
func replaceNUL[S ~string](s S) string { return strings.ReplaceAll(string(s), "\x00", "\uFFFD") }
