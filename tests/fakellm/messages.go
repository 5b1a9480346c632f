package fakellm

import (
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"strings"
)

type messagesBlock struct {
	Type      string          `json:"type"`
	Text      string          `json:"text"`
	Thinking  string          `json:"thinking"`
	Signature string          `json:"signature"`
	ID        string          `json:"id"`
	Name      string          `json:"name"`
	Input     json.RawMessage `json:"input"`
	ToolUseID string          `json:"tool_use_id"`
	Content   string          `json:"content"`
	Source    struct {
		MediaType string `json:"media_type"`
		Data      string `json:"data"`
	} `json:"source"`
}

// parseMessages reads a request. Like the vendor, it refuses calls whose results do not follow at once, thinking that
// was changed or that another model wrote, and IDs that are repeated or hold other characters.
func parseMessages(body []byte) (Chat, error) {
	var in struct {
		Model, System string
		Stream        bool
		Tools         []struct{ Name string }
		Temperature   *float64
		Thinking      messagesThinking
		ToolChoice    struct{ Type string } `json:"tool_choice"`
		MaxTokens     int                   `json:"max_tokens"`
		Output        json.RawMessage       `json:"output_config"`
		Messages      []struct {
			Role    string
			Content []messagesBlock
		}
	}
	if err := json.Unmarshal(body, &in); err != nil {
		return Chat{}, err
	}
	c := Chat{Model: in.Model, Stream: in.Stream, Temperature: in.Temperature, MaxTokens: in.MaxTokens, Schema: in.Output}
	if in.System != "" {
		c.Messages = append(c.Messages, Message{Role: "system", Content: in.System})
	}
	for _, t := range in.Tools {
		c.offer(t.Name)
	}
	if in.MaxTokens < 1 {
		return c, errors.New("max_tokens: Field required")
	}
	if len(in.Messages) == 0 || in.Messages[0].Role != "user" {
		return c, errors.New("messages: first message must use the user role")
	}
	if err := in.Thinking.check(in.MaxTokens, in.Temperature, in.ToolChoice.Type); err != nil {
		return c, err
	}
	check := messagesCheck{chat: &c, used: map[string]bool{}, thinking: in.Thinking}
	for i, m := range in.Messages {
		if err := check.add(m.Role, m.Content); err != nil {
			return c, fmt.Errorf("messages.%d: %w", i, err)
		}
	}
	return c, check.end()
}

type messagesThinking struct {
	Type    string
	Budget  int `json:"budget_tokens"`
	Binding struct {
		Mismatch string `json:"prefix_mismatch_behavior"`
	} `json:"block_binding"`
}

// check refuses what the vendor refuses of thinking together with other fields.
func (t messagesThinking) check(maxTokens int, temperature *float64, choice string) error {
	switch {
	case t.Type == "enabled" && (t.Budget < 1024 || t.Budget >= maxTokens):
		return errors.New("thinking.budget_tokens: must be at least 1024 and less than max_tokens")
	case (t.Type == "enabled" || t.Type == "adaptive") && temperature != nil && *temperature != 1:
		return errors.New("`temperature` may only be set to 1 when thinking is enabled")
	case t.Type == "enabled" && (choice == "any" || choice == "tool"):
		return errors.New("Thinking may not be enabled when tool_choice forces tool use")
	}
	return nil
}

type messagesCheck struct {
	chat     *Chat
	used     map[string]bool
	pending  map[string]bool // calls of the last message
	thinking messagesThinking
	thought  bool // the last message of the assistant begins with thinking
}

func (c *messagesCheck) end() error {
	if last := c.chat.Messages; c.thinking.Type == "enabled" && !c.thought && len(last) > 0 && last[len(last)-1].Role == "tool" {
		return errors.New("Expected `thinking` or `redacted_thinking`, but found `tool_use`")
	}
	if len(c.pending) > 0 {
		return errors.New("`tool_use` ids were found without `tool_result` blocks immediately after")
	}
	return nil
}

var toolUseID = regexp.MustCompile(`^[a-zA-Z0-9_-]{1,64}$`)

func (c *messagesCheck) add(role string, blocks []messagesBlock) error {
	pending := c.pending
	c.pending = map[string]bool{}
	m := Message{Role: role}
	if role == "assistant" {
		c.thought = len(blocks) > 0 && blocks[0].Type == "thinking"
	}
	for i, b := range blocks {
		if len(pending) > 0 && b.Type != "tool_result" {
			return errors.New("`tool_use` ids were found without `tool_result` blocks immediately after")
		}
		switch b.Type {
		case "text":
			if b.Text == "" {
				return errors.New("text content blocks must be non-empty")
			}
			m.addText(b.Text)
		case "thinking":
			if b.Signature != sealed(c.chat.bound(), b.Thinking) {
				if c.thinking.Binding.Mismatch == "drop_block" && strings.HasPrefix(c.chat.Model, boundModels) {
					continue
				}
				return errors.New("invalid `signature` in `thinking` block")
			}
			if i == len(blocks)-1 {
				return errors.New("the final block in an assistant message cannot be `thinking`")
			}
			m.Reasoning = append(m.Reasoning, b.Thinking)
		case "tool_use":
			if c.used[b.ID] || !toolUseID.MatchString(b.ID) || b.Input[0] != '{' {
				return fmt.Errorf("tool_use.id %q is repeated or malformed, or its input is not an object", b.ID)
			}
			c.used[b.ID], c.pending[b.ID] = true, true
			m.call(b.ID, b.Name, string(b.Input))
		case "tool_result":
			if !pending[b.ToolUseID] {
				return fmt.Errorf("unexpected `tool_use_id` %q", b.ToolUseID)
			}
			delete(pending, b.ToolUseID)
			c.chat.Messages = append(c.chat.Messages, Message{Role: "tool", ToolCallID: b.ToolUseID, Content: b.Content})
		case "image", "document":
			m.Media = append(m.Media, "data:"+b.Source.MediaType+";base64,"+b.Source.Data)
		default:
			return fmt.Errorf("a block of the type %q is not known", b.Type)
		}
	}
	if len(pending) > 0 {
		return errors.New("`tool_use` ids were found without `tool_result` blocks immediately after")
	}
	if m.Content != "" || len(m.ToolCalls)+len(m.Media) > 0 {
		c.chat.Messages = append(c.chat.Messages, m)
	}
	return nil
}

func messagesFailure(kind, message string) string {
	return named("error", map[string]any{"error": map[string]any{"type": kind, "message": message}})
}

// messagesStops are the stop reasons of finish reasons.
var messagesStops = map[string]string{"stop": "end_turn", "tool_calls": "tool_use", "length": "max_tokens",
	"content_filter": "refusal"}

func messagesStop(p *player) string {
	if stop := messagesStops[p.reply.finish]; stop != "" {
		return stop
	}
	return p.reply.finish
}

// messagesContent returns the blocks of a reply.
func messagesContent(p *player) (out []map[string]any) {
	if r := p.reply.reasoning; r != "" {
		out = append(out, map[string]any{"type": "thinking", "thinking": r, "signature": sealed(p.entry.Chat.bound(), r)})
	}
	if p.reply.text != "" {
		out = append(out, map[string]any{"type": "text", "text": p.reply.text})
	}
	for _, c := range p.calls() {
		out = append(out, map[string]any{"type": "tool_use", "id": c.ID, "name": c.Name,
			"input": json.RawMessage(c.Arguments)})
	}
	return out
}

func messagesUsage(u *Usage) map[string]any {
	if u == nil {
		return map[string]any{}
	}
	return map[string]any{"input_tokens": u.Prompt - u.Cached - u.CacheWrite, "cache_read_input_tokens": u.Cached,
		"cache_creation_input_tokens": u.CacheWrite, "output_tokens": 1}
}

func messagesWhole(p *player) []byte {
	usage := messagesUsage(p.reply.usage)
	if p.reply.usage != nil {
		usage["output_tokens"] = p.reply.usage.Completion
	}
	return encode(map[string]any{"type": "message", "role": "assistant", "model": p.modelName(), "usage": usage,
		"content": messagesContent(p), "stop_reason": messagesStop(p)})
}

func messagesEvents(p *player) (out []string, finish int) {
	out = append(out, named("message_start", map[string]any{"message": map[string]any{"type": "message",
		"role": "assistant", "model": p.modelName(), "content": []any{}, "usage": messagesUsage(p.reply.usage)}}),
		named("ping", map[string]any{}))
	blocks := messagesContent(p)
	for i, block := range blocks {
		at := func(kind string, more map[string]any) {
			more["index"] = i
			out = append(out, named(kind, more))
		}
		delta := func(kind, key, value string) {
			at("content_block_delta", map[string]any{"delta": map[string]any{"type": kind, key: value}})
		}
		cut := p.reply.finish == "length" && block["type"] == "tool_use" && i == len(blocks)-1
		switch block["type"] {
		case "thinking":
			at("content_block_start", map[string]any{"content_block": map[string]any{"type": "thinking", "thinking": "",
				"signature": ""}})
			for _, part := range halves(p.reply.reasoning) {
				delta("thinking_delta", "thinking", part)
			}
			delta("signature_delta", "signature", block["signature"].(string))
		case "text":
			at("content_block_start", map[string]any{"content_block": map[string]any{"type": "text", "text": ""}})
			for _, piece := range p.pieces() {
				delta("text_delta", "text", piece)
			}
		case "tool_use":
			at("content_block_start", map[string]any{"content_block": map[string]any{"type": "tool_use", "id": block["id"],
				"name": block["name"], "input": map[string]any{}}})
			parts := halves(string(block["input"].(json.RawMessage)))
			if delta("input_json_delta", "partial_json", parts[0]); !cut {
				delta("input_json_delta", "partial_json", parts[1])
			}
		}
		if !cut {
			at("content_block_stop", map[string]any{})
		}
	}
	if p.reply.finish == "-" {
		return out, -1
	}
	end := map[string]any{"delta": map[string]any{"stop_reason": messagesStop(p)}, "usage": map[string]any{}}
	if u := p.reply.usage; u != nil {
		end["usage"] = map[string]any{"output_tokens": u.Completion,
			"output_tokens_details": map[string]any{"thinking_tokens": u.Reasoning}}
	}
	finish = len(out)
	return append(out, named("message_delta", end), named("message_stop", map[string]any{})), finish
}
