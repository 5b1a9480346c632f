package inference

import (
	"encoding/json"
	"fmt"
	"strings"

	openai "github.com/sashabaranov/go-openai"

	"github.com/everturn/everturn/workflows/turn"
)

// request is what one inference sends. The library writes its fields in a fixed order, model and messages first, so the
// bytes up to the end of the messages depend on nothing else: a longer transcript extends them, and the provider's
// prompt cache can reuse the prefix.
type request struct {
	openai.ChatCompletionRequest
	audio audioParts
	media bool // the request contains images or audio
}

// quirks are the parameters that an endpoint has refused.
type quirks struct {
	noStreamOptions  bool
	completionTokens bool // max_completion_tokens instead of max_tokens
	noMedia          bool // neither images nor audio
}

func (c *Chat) request(p turn.Prompt, q quirks) request {
	senses := c.senses(p.Model)
	if q.noMedia {
		senses = blind
	}
	talk := messages(p, senses)
	r := request{audio: talk.audio, media: talk.media, ChatCompletionRequest: openai.ChatCompletionRequest{
		Model: p.Model, Messages: talk.out, Tools: tools(p.Tools), Stream: true,
	}}
	if !q.noStreamOptions {
		r.StreamOptions = &openai.StreamOptions{IncludeUsage: true}
	}
	if p.MaxTokens > 0 {
		if q.completionTokens || wantsCompletionTokens(p.Model) {
			r.MaxCompletionTokens = p.MaxTokens
		} else {
			r.MaxTokens = p.MaxTokens //lint:ignore SA1019 servers other than OpenAI's know only this one
		}
	}
	if p.Temperature != nil {
		r.Temperature = max(float32(*p.Temperature), leastTemperature)
	}
	return r
}

// leastTemperature replaces 0, which the library omits from a request. It is just as deterministic, and servers that
// divide by it get finite numbers, unlike with math.SmallestNonzeroFloat32, which the library recommends.
const leastTemperature = 1e-6

// wantsCompletionTokens is the rule by which the library refuses max_tokens.
func wantsCompletionTokens(model string) bool {
	for _, family := range []string{"o1", "o3", "o4", "gpt-5", "gpt-6"} {
		if strings.HasPrefix(model, family) {
			return true
		}
	}
	return false
}

// messages renders system prompt, transcript and note, in this order.
func messages(p turn.Prompt, senses Modalities) *conversation {
	c := &conversation{senses: senses, wire: map[string]string{}, out: make([]openai.ChatCompletionMessage, 0, len(p.Messages)+2)}
	if p.System != "" {
		role := openai.ChatMessageRoleSystem
		if _, system, _ := Capabilities(p.Model); !system {
			role = openai.ChatMessageRoleUser
		}
		c.out = append(c.out, openai.ChatCompletionMessage{Role: role, Content: p.System})
	}
	for _, m := range p.Messages {
		c.add(m)
	}
	c.show()
	if p.Note != "" {
		c.out = append(c.out, openai.ChatCompletionMessage{Role: openai.ChatMessageRoleUser, Content: notePrefix + p.Note})
	}
	return c
}

// notePrefix tells the model, and tests, that a note does not come from the user. A note has the role user because many
// chat templates refuse a system message that is not the first.
const notePrefix = "(Automatic note, not from the user) "

// message renders one entry of the transcript. It renders a result whose call is not in the prompt as text, because
// providers refuse a tool message without its call.
func message(m turn.Message, wire map[string]string) openai.ChatCompletionMessage {
	switch m.Role {
	case turn.RoleAssistant:
		if len(m.ToolCalls) > 0 {
			clear(wire)
		}
		out := openai.ChatCompletionMessage{Role: openai.ChatMessageRoleAssistant, Content: m.Text}
		for _, call := range m.ToolCalls {
			wire[call.ID] = wireID(call)
			out.ToolCalls = append(out.ToolCalls, toolCall(call))
		}
		if len(out.ToolCalls) == 0 {
			out.Content = orPlaceholder(m.Text)
		}
		return out
	case turn.RoleTool:
		if id, ok := wire[m.CallID]; ok {
			return openai.ChatCompletionMessage{Role: openai.ChatMessageRoleTool, ToolCallID: id, Content: orPlaceholder(m.Text)}
		}
		text := fmt.Sprintf("Result of call %s (%s):\n%s", m.CallID, m.Outcome, m.Text)
		return openai.ChatCompletionMessage{Role: openai.ChatMessageRoleUser, Content: text}
	}
	return openai.ChatCompletionMessage{Role: openai.ChatMessageRoleUser, Content: orPlaceholder(m.Text)}
}

// orPlaceholder replaces empty content, which the library omits and without which providers refuse a message.
func orPlaceholder(text string) string {
	if text == "" {
		return "(no content)"
	}
	return text
}

func toolCall(c turn.ToolCall) openai.ToolCall {
	return openai.ToolCall{
		ID: wireID(c), Type: openai.ToolTypeFunction,
		Function: openai.FunctionCall{Name: turn.WireName(c.Tool), Arguments: arguments(c.Arguments)},
	}
}

func wireID(c turn.ToolCall) string {
	if c.WireID != "" {
		return c.WireID
	}
	return "call_" + strings.ReplaceAll(c.ID, ".", "_")
}

// arguments returns a call's arguments as the model sent them. It wraps arguments that are not a JSON object, because
// some servers parse them and would refuse the whole conversation.
func arguments(raw string) string {
	var object map[string]json.RawMessage
	if json.Unmarshal([]byte(raw), &object) == nil && object != nil {
		return raw
	}
	if strings.TrimSpace(raw) == "" {
		return "{}"
	}
	quoted, _ := json.Marshal(map[string]string{"invalid_arguments": raw}) // strings always marshal
	return string(quoted)
}

// tools renders the offered tools in their order.
func tools(offered []turn.WireTool) []openai.Tool {
	out := make([]openai.Tool, 0, len(offered))
	for _, t := range offered {
		schema := t.Schema
		if len(schema) == 0 {
			schema = json.RawMessage(`{"type":"object","properties":{}}`)
		}
		out = append(out, openai.Tool{Type: openai.ToolTypeFunction, Function: &openai.FunctionDefinition{
			Name: t.Name, Description: t.Description, Parameters: schema,
		}})
	}
	return out
}
