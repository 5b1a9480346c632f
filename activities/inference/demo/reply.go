package demo

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"strings"

	openai "github.com/sashabaranov/go-openai"
)

// step is the next thing to do: calls with a text beside them, or the answer.
type step struct {
	text  string
	calls []call
	ask   string // a question for the user, instead of text and calls
	json  bool   // use the JSON action protocol
}

// call is a call of an offered tool.
type call struct {
	name      string // as offered
	arguments map[string]any
}

// reply encodes a step in the wire format.
type reply struct {
	request openai.ChatCompletionRequest
	step    step
	prompt  int // bytes of the request
	created int64
}

// content returns the text of the reply.
func (r reply) content() string {
	if !r.step.json {
		return r.step.text
	}
	action := map[string]any{"type": "final", "content": r.step.text}
	if r.step.ask != "" {
		action = map[string]any{"type": "ask_user", "question": r.step.ask}
	} else if len(r.step.calls) > 0 {
		c := r.step.calls[0] // the protocol allows one call at a time
		action = map[string]any{"type": "tool_call", "name": c.name, "arguments": c.arguments}
	}
	b, _ := json.Marshal(action) // maps of strings always marshal
	return string(b)
}

func (r reply) toolCalls() []openai.ToolCall {
	if r.step.json {
		return nil
	}
	calls := r.step.calls
	if r.step.ask != "" {
		calls = []call{{toolAsk, map[string]any{"question": r.step.ask}}}
	}
	out := make([]openai.ToolCall, len(calls))
	for i, c := range calls {
		args, _ := json.Marshal(c.arguments) // maps of strings always marshal
		out[i] = openai.ToolCall{Index: &i, ID: r.callID(i), Type: openai.ToolTypeFunction,
			Function: openai.FunctionCall{Name: c.name, Arguments: string(args)}}
	}
	return out
}

// callID is unique in a conversation and the same for a repeated request.
func (r reply) callID(i int) string {
	b, _ := json.Marshal(r.request.Messages) // they were just unmarshalled, so they marshal
	sum := sha256.Sum256(fmt.Appendf(b, "%d", i))
	return "call_" + hex.EncodeToString(sum[:8])
}

func (r reply) finish() openai.FinishReason {
	if (len(r.step.calls) > 0 || r.step.ask != "") && !r.step.json {
		return openai.FinishReasonToolCalls
	}
	return openai.FinishReasonStop
}

// usage counts four bytes as one token, because the demo has no tokenizer.
func (r reply) usage() openai.Usage {
	out := len(r.content())
	for _, c := range r.toolCalls() {
		out += len(c.Function.Name) + len(c.Function.Arguments)
	}
	in, of := (r.prompt+3)/4, (out+3)/4
	return openai.Usage{PromptTokens: in, CompletionTokens: of, TotalTokens: in + of}
}

func (r reply) response() openai.ChatCompletionResponse {
	return openai.ChatCompletionResponse{
		ID: r.callID(-1), Object: "chat.completion", Created: r.created, Model: Model, Usage: r.usage(),
		Choices: []openai.ChatCompletionChoice{{
			Message: openai.ChatCompletionMessage{
				Role: openai.ChatMessageRoleAssistant, Content: r.content(), ToolCalls: r.toolCalls(),
			},
			FinishReason: r.finish(),
		}},
	}
}

// events streams the reply word by word, then the calls, the finish reason and, if requested, the usage.
func (r reply) events() []openai.ChatCompletionStreamResponse {
	id := r.callID(-1)
	event := func(choices ...openai.ChatCompletionStreamChoice) openai.ChatCompletionStreamResponse {
		return openai.ChatCompletionStreamResponse{
			ID: id, Object: "chat.completion.chunk", Created: r.created, Model: Model, Choices: choices,
		}
	}
	delta := func(d openai.ChatCompletionStreamChoiceDelta) openai.ChatCompletionStreamResponse {
		return event(openai.ChatCompletionStreamChoice{Delta: d})
	}
	var out []openai.ChatCompletionStreamResponse
	for _, word := range strings.SplitAfter(r.content(), " ") {
		out = append(out, delta(openai.ChatCompletionStreamChoiceDelta{
			Role: openai.ChatMessageRoleAssistant, Content: word,
		}))
	}
	for _, c := range r.toolCalls() {
		out = append(out, delta(openai.ChatCompletionStreamChoiceDelta{ToolCalls: []openai.ToolCall{c}}))
	}
	out = append(out, event(openai.ChatCompletionStreamChoice{FinishReason: r.finish()}))
	if o := r.request.StreamOptions; o != nil && o.IncludeUsage {
		last := event()
		last.Choices = []openai.ChatCompletionStreamChoice{}
		usage := r.usage()
		last.Usage = &usage
		out = append(out, last)
	}
	return out
}
