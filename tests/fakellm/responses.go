package fakellm

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
)

// sealed returns the opaque form of a model's reasoning: that of another model or another text differs.
func sealed(model, text string) string {
	sum := sha256.Sum256([]byte(model + "\n" + text))
	return hex.EncodeToString(sum[:])
}

// boundModels begins the names of models whose reasoning is bound to the messages before it, as with the vendor's
// "preserved thinking".
const boundModels = "claude-sonnet-5-5"

// bound returns the name of the request's model. For a model of boundModels, it also has a hash of the messages so far.
func (c Chat) bound() string {
	if !strings.HasPrefix(c.Model, boundModels) {
		return c.Model
	}
	sum := sha256.Sum256(fmt.Append(nil, c.Tools, c.Messages))
	return c.Model + hex.EncodeToString(sum[:])
}

type responsesItem struct {
	Type      string          `json:"type"`
	ID        string          `json:"id"`
	Role      string          `json:"role"`
	Content   json.RawMessage `json:"content"`
	CallID    string          `json:"call_id"`
	Name      string          `json:"name"`
	Arguments string          `json:"arguments"`
	Output    string          `json:"output"`
	Encrypted string          `json:"encrypted_content"`
	Summary   []struct {
		Text string `json:"text"`
	} `json:"summary"`
}

// parseResponses reads a request. Like the vendor, it refuses reasoning that was changed, that another model wrote or
// that nothing follows, and results without a call.
func parseResponses(body []byte) (Chat, error) {
	var in struct {
		Model, Instructions string
		Input               []responsesItem
		Stream, Store       bool
		Include             []string
		Tools               []struct{ Name string }
		Temperature         *float64
		MaxOutputTokens     int             `json:"max_output_tokens"`
		CacheKey            string          `json:"prompt_cache_key"`
		Text                json.RawMessage `json:"text"`
	}
	if err := json.Unmarshal(body, &in); err != nil {
		return Chat{}, err
	}
	c := Chat{Model: in.Model, Stream: in.Stream, Temperature: in.Temperature, MaxTokens: in.MaxOutputTokens,
		CacheKey: in.CacheKey, Schema: in.Text}
	if in.Instructions != "" {
		c.Messages = append(c.Messages, Message{Role: "system", Content: in.Instructions})
	}
	for _, t := range in.Tools {
		c.offer(t.Name)
	}
	if in.Store {
		return c, errors.New("these tests want store to be false")
	}
	if in.MaxOutputTokens != 0 && in.MaxOutputTokens < 16 {
		return c, errors.New("max_output_tokens must be at least 16")
	}
	g := responsesGroup{chat: &c, calls: map[string]bool{}}
	for i, item := range in.Input {
		if err := g.add(item); err != nil {
			return c, fmt.Errorf("input[%d]: %w", i, err)
		}
	}
	return c, g.end()
}

// responsesGroup joins the items of one assistant message.
type responsesGroup struct {
	chat      *Chat
	calls     map[string]bool
	assistant bool // the last message is one of the assistant, and still grows
	reasoning bool // the last item is reasoning
}

func (g *responsesGroup) end() error {
	if g.reasoning {
		return errors.New("item of type 'reasoning' was provided without its required following item")
	}
	return nil
}

func (g *responsesGroup) message() *Message {
	if !g.assistant {
		g.chat.Messages, g.assistant = append(g.chat.Messages, Message{Role: "assistant"}), true
	}
	return &g.chat.Messages[len(g.chat.Messages)-1]
}

func (g *responsesGroup) add(item responsesItem) error {
	model := item.Type == "reasoning" || item.Type == "function_call" || item.Role == "assistant"
	if !model {
		if err := g.end(); err != nil {
			return err
		}
		g.assistant = false
	}
	g.reasoning = item.Type == "reasoning"
	switch {
	case item.Type == "reasoning":
		text := ""
		for _, s := range item.Summary {
			text += s.Text
		}
		if item.Encrypted != sealed(g.chat.Model, text) {
			return errors.New("the encrypted content could not be verified")
		}
		m := g.message()
		m.Reasoning = append(m.Reasoning, text)
	case item.Type == "function_call":
		g.calls[item.CallID] = true
		g.message().call(item.CallID, item.Name, item.Arguments)
	case item.Type == "function_call_output":
		if !g.calls[item.CallID] {
			return fmt.Errorf("no tool call found for function call output with call_id %s", item.CallID)
		}
		g.chat.Messages = append(g.chat.Messages, Message{Role: "tool", ToolCallID: item.CallID, Content: item.Output})
	case item.Role == "assistant":
		m := g.message()
		return m.addParts(item.Content)
	case item.Role == "user":
		m := Message{Role: "user"}
		err := m.addParts(item.Content)
		g.chat.Messages = append(g.chat.Messages, m)
		return err
	default:
		return fmt.Errorf("an item of the type %q is not known", item.Type)
	}
	return nil
}

func responsesFailure(kind, message string) string {
	return named("response.failed", map[string]any{"response": map[string]any{"status": "failed",
		"error": map[string]any{"code": kind, "message": message}}})
}

// responsesOutput returns the items of a reply.
func responsesOutput(p *player) (out []map[string]any) {
	r := p.reply
	if r.reasoning != "" {
		out = append(out, map[string]any{"type": "reasoning", "id": fmt.Sprintf("rs_%d", p.entry.Index),
			"summary":           []any{map[string]any{"type": "summary_text", "text": r.reasoning}},
			"encrypted_content": sealed(p.entry.Chat.Model, r.reasoning)})
	}
	if r.text != "" || len(r.calls) == 0 {
		part := map[string]any{"type": "output_text", "text": r.text, "annotations": []any{}}
		if r.finish == "refusal" {
			part = map[string]any{"type": "refusal", "refusal": r.text}
		}
		out = append(out, map[string]any{"type": "message", "id": fmt.Sprintf("msg_%d", p.entry.Index),
			"role": "assistant", "status": "completed", "phase": "final_answer", "content": []any{part}})
	}
	for i, c := range p.calls() {
		out = append(out, map[string]any{"type": "function_call", "id": fmt.Sprintf("fc_%d_%d", p.entry.Index, i),
			"call_id": c.ID, "name": c.Name, "arguments": c.Arguments, "status": "completed"})
	}
	return out
}

// responsesObject returns the response object with this output.
func responsesObject(p *player, output []map[string]any) map[string]any {
	status, details := "completed", any(nil)
	switch p.reply.finish {
	case "length":
		status, details = "incomplete", map[string]any{"reason": "max_output_tokens"}
	case "content_filter", "max_tool_calls":
		status, details = "incomplete", map[string]any{"reason": p.reply.finish}
	}
	object := map[string]any{"object": "response", "id": fmt.Sprintf("resp_%d", p.entry.Index), "status": status,
		"model": p.modelName(), "output": output, "incomplete_details": details, "error": nil, "usage": nil}
	if u := p.reply.usage; u != nil {
		object["usage"] = map[string]any{"input_tokens": u.Prompt, "output_tokens": u.Completion,
			"input_tokens_details":  map[string]any{"cached_tokens": u.Cached, "cache_write_tokens": u.CacheWrite},
			"output_tokens_details": map[string]any{"reasoning_tokens": u.Reasoning}}
	}
	return object
}

func responsesWhole(p *player) []byte { return encode(responsesObject(p, responsesOutput(p))) }

func responsesEvents(p *player) (out []string, finish int) {
	output := responsesOutput(p)
	cut := p.reply.finish == "length" && len(p.reply.calls) > 0 // the last call is incomplete
	start := map[string]any{"object": "response", "status": "in_progress", "model": p.modelName(), "output": []any{}}
	out = append(out, named("response.created", map[string]any{"response": start}),
		named("response.in_progress", map[string]any{"response": start}))
	var tails [][]string // the parts of parallel calls interleave
	for i, item := range output {
		at := func(kind string, more map[string]any) string {
			more["output_index"] = i
			return named(kind, more)
		}
		events := responsesItemEvents(p, item, at)
		if item["type"] != "function_call" {
			out = append(out, events...)
			continue
		}
		if out = append(out, events[0]); cut && i == len(output)-1 {
			events = events[:2]
		}
		tails = append(tails, events[1:])
	}
	for n := range 4 {
		for _, tail := range tails {
			if n < len(tail) {
				out = append(out, tail[n])
			}
		}
	}
	if p.reply.finish == "-" {
		return out, -1
	}
	if cut {
		output = output[:len(output)-1]
	}
	object := responsesObject(p, output)
	return append(out, named("response."+object["status"].(string), map[string]any{"response": object})), len(out)
}

// responsesItemEvents returns the events of one output item.
func responsesItemEvents(p *player, item map[string]any, at func(string, map[string]any) string) (out []string) {
	head := map[string]any{"type": item["type"], "id": item["id"]}
	done := at("response.output_item.done", map[string]any{"item": item})
	switch item["type"] {
	case "reasoning":
		out = append(out, at("response.output_item.added", map[string]any{"item": head}))
		for _, part := range halves(p.reply.reasoning) {
			out = append(out, at("response.reasoning_summary_text.delta", map[string]any{"delta": part}))
		}
	case "message":
		kind := "response.output_text"
		if p.reply.finish == "refusal" {
			kind = "response.refusal"
		}
		out = append(out, at("response.output_item.added", map[string]any{"item": head}))
		for _, piece := range p.pieces() {
			out = append(out, at(kind+".delta", map[string]any{"delta": piece}))
		}
	case "function_call":
		head["call_id"], head["name"], head["arguments"] = item["call_id"], item["name"], ""
		out = append(out, at("response.output_item.added", map[string]any{"item": head}))
		args := item["arguments"].(string)
		for _, part := range halves(args) {
			out = append(out, at("response.function_call_arguments.delta", map[string]any{"delta": part}))
		}
		out = append(out, at("response.function_call_arguments.done", map[string]any{"arguments": args}))
	}
	return append(out, done)
}
