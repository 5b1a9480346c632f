package fakellm

import (
	"fmt"
	"net/http"
	"strings"
	"time"
)

// player sends one reply.
type player struct {
	server  *Server
	w       http.ResponseWriter
	r       *http.Request
	reply   Reply
	entry   *Request
	outcome Outcome
	dialect dialect
}

// play sends the reply as far as its script goes and sets the outcome.
func (p *player) play() {
	p.outcome = Aborted
	for name, values := range p.reply.header {
		p.w.Header()[name] = values
	}
	if !p.wait(p.reply.first) || p.ends(-1) {
		return
	}
	switch {
	case p.reply.body != nil:
		if gate := p.reply.holds[0]; gate != nil && !p.hold(gate) {
			return
		}
		p.reply.body(p.w)
	case p.reply.noStream || !p.entry.Chat.Stream && p.reply.raw == nil:
		p.w.Header().Set("Content-Type", "application/json")
		_, _ = p.w.Write(p.dialect.whole(p)) // the client may be gone
	default:
		if !p.stream() {
			return
		}
	}
	if p.r.Context().Err() == nil {
		p.outcome = Sent
	}
}

// stream sends the events and reports whether all went out.
func (p *player) stream() bool {
	p.w.Header().Set("Content-Type", "text/event-stream")
	p.w.WriteHeader(http.StatusOK)
	if http.NewResponseController(p.w).Flush() != nil {
		return false
	}
	for range p.reply.comment {
		if !p.wait(p.reply.delay) || !p.write(": keep-alive\n\n") {
			return false
		}
	}
	events, finish := p.reply.raw, -1
	if events == nil {
		events, finish = p.dialect.events(p)
	}
	for i, event := range events {
		if p.ends(i) || !p.wait(p.reply.delay) {
			return false
		}
		if gate := p.reply.holds[i]; gate != nil && !p.hold(gate) {
			return false
		}
		if !p.write(event) {
			return false
		}
		p.server.update(func() {
			p.entry.Events++
			p.entry.Finished = p.entry.Finished || i == finish
		})
	}
	return !p.ends(len(events))
}

func (p *player) write(s string) bool {
	if _, err := p.w.Write([]byte(s)); err != nil {
		return false
	}
	return http.NewResponseController(p.w).Flush() == nil
}

// ends carries out the reply's ending if it comes at this event.
func (p *player) ends(at int) bool {
	if p.reply.ending == endWhole || p.reply.after != at {
		return false
	}
	p.outcome = Cut
	if p.reply.ending == endFail {
		_ = p.write(p.dialect.failure(p.reply.failure[0], p.reply.failure[1])) // the client may be gone
	}
	if p.reply.ending == endStall {
		select {
		case <-p.r.Context().Done():
		case <-p.server.quit:
		}
	}
	return true
}

func (p *player) hold(g *Gate) bool { return g.pass(p.r.Context(), p.server.quit) }

func (p *player) wait(d time.Duration) bool {
	if d <= 0 {
		return p.r.Context().Err() == nil
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-p.r.Context().Done():
	case <-p.server.quit:
	}
	return false
}

// chatEvents returns the reply's server-sent events, each with its blank line.
func (p *player) chatEvents() (out []string, finish int) {
	finish = -1
	out = append(out, p.delta(map[string]any{"role": "assistant", "content": ""}, nil))
	if p.reply.reasoning != "" {
		out = append(out, p.delta(map[string]any{"reasoning_content": p.reply.reasoning}, nil))
	}
	output := "content"
	if p.reply.finish == "refusal" {
		output = "refusal"
	}
	for _, piece := range p.pieces() {
		out = append(out, p.delta(map[string]any{output: piece}, nil))
	}
	out = append(out, p.callEvents()...)
	if p.reply.finish != "-" {
		finish = len(out)
		out = append(out, p.delta(map[string]any{}, p.reply.finish))
	}
	if asked := p.entry.Chat.StreamOptions; p.reply.usage != nil && asked != nil && asked.IncludeUsage {
		out = append(out, p.data(map[string]any{"choices": []any{}, "usage": p.usage()}))
	}
	return append(out, "data: [DONE]\n\n"), finish
}

func chatFailure(kind, message string) string {
	return fmt.Sprintf("data: %s\n\n", encode(map[string]any{"error": map[string]any{"type": kind, "message": message}}))
}

// callEvents streams each call in three parts, as OpenAI does: the head, and the arguments in two halves.
func (p *player) callEvents() []string {
	var out []string
	for i, call := range p.calls() {
		args := call.Arguments
		head := map[string]any{"index": i, "id": call.ID, "type": "function",
			"function": map[string]any{"name": call.Name, "arguments": ""}}
		out = append(out, p.delta(map[string]any{"tool_calls": []any{head}}, nil))
		for _, part := range halves(args) {
			tail := map[string]any{"index": i, "function": map[string]any{"arguments": part}}
			out = append(out, p.delta(map[string]any{"tool_calls": []any{tail}}, nil))
		}
	}
	return out
}

func (p *player) pieces() []string {
	if p.reply.text == "" {
		return nil
	}
	return strings.SplitAfter(p.reply.text, " ")
}

func (p *player) calls() []ToolCall {
	calls := make([]ToolCall, len(p.reply.calls))
	copy(calls, p.reply.calls)
	for i := range calls {
		if calls[i].ID == "" {
			calls[i].ID = fmt.Sprintf("call_s%d_%d", p.entry.Step, i)
		}
	}
	return calls
}

func (p *player) delta(delta map[string]any, finish any) string {
	return p.data(map[string]any{"choices": []any{map[string]any{"index": 0, "delta": delta, "finish_reason": finish}}})
}

func (p *player) data(fields map[string]any) string {
	fields["object"] = "chat.completion.chunk"
	return "data: " + string(p.envelope(fields)) + "\n\n"
}

// chatWhole returns the reply as one object.
func (p *player) chatWhole() []byte {
	message := map[string]any{"role": "assistant", "content": p.reply.text}
	if p.reply.reasoning != "" {
		message["reasoning_content"] = p.reply.reasoning
	}
	var calls []any
	for _, c := range p.calls() {
		calls = append(calls, map[string]any{"id": c.ID, "type": "function",
			"function": map[string]any{"name": c.Name, "arguments": c.Arguments}})
	}
	if calls != nil {
		message["tool_calls"] = calls
	}
	choice := map[string]any{"index": 0, "message": message}
	if p.reply.finish != "-" {
		choice["finish_reason"] = p.reply.finish
	}
	fields := map[string]any{"object": "chat.completion", "choices": []any{choice}}
	if p.reply.usage != nil {
		fields["usage"] = p.usage()
	}
	return p.envelope(fields)
}

func (p *player) envelope(fields map[string]any) []byte {
	fields["id"] = fmt.Sprintf("chatcmpl-%d", p.entry.Index)
	fields["created"] = p.entry.At.Unix()
	fields["model"] = p.modelName()
	return encode(fields)
}

func (p *player) usage() map[string]any {
	u := p.reply.usage
	return map[string]any{
		"prompt_tokens": u.Prompt, "completion_tokens": u.Completion, "total_tokens": u.Prompt + u.Completion,
		"prompt_tokens_details":     map[string]any{"cached_tokens": u.Cached, "cache_write_tokens": u.CacheWrite},
		"completion_tokens_details": map[string]any{"reasoning_tokens": u.Reasoning},
	}
}
