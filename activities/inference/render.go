package inference

import (
	"encoding/json"
	"errors"
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
	audio map[int][]part // see conversation.audio
	media bool           // the request contains images or audio
}

// quirks are the parameters that an endpoint has refused.
type quirks struct {
	noStreamOptions  bool
	completionTokens bool // max_completion_tokens instead of max_tokens
	noMedia          bool // neither images nor audio
}

func (c *Chat) buildRequest(p turn.Prompt, q quirks) request {
	modalities := c.modalities(p.Model)
	if q.noMedia {
		modalities = Modalities{}
	}
	rendered := render(p, modalities)
	r := request{audio: rendered.audio, media: rendered.media, ChatCompletionRequest: openai.ChatCompletionRequest{
		Model: p.Model, Messages: rendered.messages, Tools: tools(p.Tools), Stream: true,
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

// wantsCompletionTokens reports whether the library refuses max_tokens for a model.
func wantsCompletionTokens(model string) bool {
	r := openai.ChatCompletionRequest{Model: model, MaxTokens: 1} //lint:ignore SA1019 this asks whether it may be set
	return errors.Is(openai.NewReasoningValidator().Validate(r), openai.ErrReasoningModelMaxTokensDeprecated)
}

// render renders system prompt, transcript and note, in this order.
func render(p turn.Prompt, modalities Modalities) *conversation {
	c := &conversation{
		modalities: modalities, wireIDs: map[string]string{}, audio: map[int][]part{},
		messages: make([]openai.ChatCompletionMessage, 0, len(p.Messages)+2),
	}
	if p.System != "" {
		role := openai.ChatMessageRoleSystem
		if !CapabilitiesOf(p.Model).SystemRole {
			role = openai.ChatMessageRoleUser
		}
		c.messages = append(c.messages, openai.ChatCompletionMessage{Role: role, Content: p.System})
	}
	for _, m := range p.Messages {
		c.add(m)
	}
	c.addMedia()
	if p.Note != "" {
		note := openai.ChatCompletionMessage{Role: openai.ChatMessageRoleUser, Content: notePrefix + p.Note}
		c.messages = append(c.messages, note)
	}
	return c
}

// notePrefix tells the model, and tests, that a note does not come from the user. A note has the role user because many
// chat templates refuse a system message that is not the first.
const notePrefix = "(Automatic note, not from the user) "

// message renders one entry of the transcript. It renders a result whose call is not in the prompt as text, because
// providers refuse a tool message without its call.
func message(m turn.Message, wireIDs map[string]string) openai.ChatCompletionMessage {
	switch m.Role {
	case turn.RoleAssistant:
		if len(m.ToolCalls) > 0 {
			clear(wireIDs)
		}
		out := openai.ChatCompletionMessage{Role: openai.ChatMessageRoleAssistant, Content: m.Text}
		for _, call := range m.ToolCalls {
			wireIDs[call.ID] = wireID(call)
			out.ToolCalls = append(out.ToolCalls, toolCall(call))
		}
		if len(out.ToolCalls) == 0 {
			out.Content = orPlaceholder(m.Text)
		}
		return out
	case turn.RoleTool:
		if id, ok := wireIDs[m.CallID]; ok {
			return openai.ChatCompletionMessage{
				Role: openai.ChatMessageRoleTool, ToolCallID: id, Content: orPlaceholder(m.Text),
			}
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
