package chat

import (
	"bytes"
	"encoding/json"
	"strings"

	"github.com/everturn/everturn/activities/inference"
	"github.com/everturn/everturn/workflows/turn"
)

// event is one object of a stream, whose choices have deltas, or a whole response that is not streamed, whose choices
// have messages. Providers vary the types of fields, so event uses text, jsonString and argument instead of string.
type event struct {
	Model   text            `json:"model"`
	Choices []choice        `json:"choices"`
	Usage   json.RawMessage `json:"usage"`
	Error   json.RawMessage `json:"error"`
}

// choice is a part of one of the completions that a response offers. The requests ask for one, with index 0.
type choice struct {
	Index        int    `json:"index"`
	Delta        *piece `json:"delta"`
	Message      *piece `json:"message"`
	FinishReason text   `json:"finish_reason"`
}

// piece is the next part of a message, or a whole message.
type piece struct {
	Content   text       `json:"content"`
	Refusal   text       `json:"refusal"`
	Thinking  text       `json:"reasoning_content"` // DeepSeek and compatible providers
	Reasoning text       `json:"reasoning"`         // OpenRouter, newer vLLM
	Details   list       `json:"reasoning_details"` // OpenRouter
	ToolCalls []callPart `json:"tool_calls"`
}

// callPart is a part of a tool call, or a whole one.
type callPart struct {
	Index    *int `json:"index"`
	ID       text `json:"id"`
	Function struct {
		Name      text     `json:"name"`
		Arguments argument `json:"arguments"`
	} `json:"function"`
	Extra json.RawMessage `json:"extra_content"` // Gemini
}

// list decodes a JSON array. Any other value decodes to an empty list.
type list []json.RawMessage

// UnmarshalJSON implements json.Unmarshaler: see list. b is never empty, because package json passes a whole value.
func (l *list) UnmarshalJSON(b []byte) error {
	*l = nil
	if b[0] == '[' {
		return json.Unmarshal(b, (*[]json.RawMessage)(l))
	}
	return nil
}

// text decodes a JSON string, or an array of content parts to their joined text. Any other value decodes to "".
type text string

// UnmarshalJSON implements json.Unmarshaler: see text.
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

// jsonString decodes a JSON string. Any other value decodes to "". Unlike text it does not decode arrays, because
// nested arrays would be scanned again at each level.
type jsonString string

// UnmarshalJSON implements json.Unmarshaler: see jsonString.
func (p *jsonString) UnmarshalJSON(b []byte) error {
	*p = ""
	if b[0] != '"' {
		return nil
	}
	return json.Unmarshal(b, (*string)(p))
}

// argument decodes a JSON string. Some providers send the arguments as an object: any value other than a string or null
// decodes to its JSON.
type argument string

// UnmarshalJSON implements json.Unmarshaler: see argument.
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

// usage is a provider's count of tokens. The cached tokens are in prompt_tokens_details, or beside them (DeepSeek).
type usage struct {
	Prompt     inference.Tokens `json:"prompt_tokens"`
	Completion inference.Tokens `json:"completion_tokens"`
	CacheHit   inference.Tokens `json:"prompt_cache_hit_tokens"`
	Details    struct {
		Cached inference.Tokens `json:"cached_tokens"`
		Write  inference.Tokens `json:"cache_write_tokens"`
	} `json:"prompt_tokens_details"`
	Output struct {
		Reasoning inference.Tokens `json:"reasoning_tokens"`
	} `json:"completion_tokens_details"`
}

// parseUsage decodes a usage object. It returns false if there is none, or if it is malformed. For null it returns no
// tokens and true, which Collector.Usage ignores.
func parseUsage(raw json.RawMessage) (turn.Usage, bool) {
	var u usage
	if len(raw) == 0 || json.Unmarshal(raw, &u) != nil {
		return turn.Usage{}, false
	}
	return turn.Usage{
		InputTokens: int64(u.Prompt), OutputTokens: int64(u.Completion), ReasoningTokens: int64(u.Output.Reasoning),
		CachedTokens: int64(max(u.Details.Cached, u.CacheHit)), CacheWriteTokens: int64(u.Details.Write),
	}, true
}
