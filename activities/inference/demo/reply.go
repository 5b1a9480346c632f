package demo

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"strings"

	openai "github.com/sashabaranov/go-openai"

	"github.com/everturn/everturn/internal/printable"
)

const introduction = "I am Everturn's built-in demo: a small set of rules, not a language model. " +
	"I quote what the tools return and understand nothing of it."

const modelHint = "For a real answer set OPENAI_API_KEY, ANTHROPIC_API_KEY or another provider's key, or base_url in [llm] of agent.toml, and " +
	"ask again."

// maxQuote bounds how much an answer quotes of all results together, in bytes. minQuote is what it may quote of each
// result even if there are many.
const (
	maxQuote = 3000
	minQuote = 600
)

// answer returns the text of an answer: an introduction, and quotes from the tool results since the question.
func (c conversation) answer() string {
	parts := []string{introduction}
	for _, r := range c.results {
		arguments, _ := json.Marshal(r.call.arguments) // they were just unmarshalled
		parts = append(parts, fmt.Sprintf("%s %s returned:\n%s", r.call.name, arguments,
			quote(r.text, max(minQuote, maxQuote/len(c.results)))))
	}
	switch {
	case len(c.results) > 0:
	case len(c.tools) == 0:
		parts = append(parts, "No tools were offered to me, so there is nothing that I could look up.")
	default:
		parts = append(parts, "Hello. Ask me which files are here and what this project is about, name a file or a tool, "+
			`or ask me to find a "quoted word".`)
	}
	return strings.Join(append(parts, modelHint), "\n\n")
}

// quote returns the first most bytes of a text as a quotation, with "> " before each line.
func quote(text string, most int) string {
	text = strings.TrimSpace(text)
	shown := printable.Head(text, most)
	if shown != text {
		shown += "\n…"
	}
	return "> " + strings.ReplaceAll(shown, "\n", "\n> ")
}

// reply is the response to a request: it encodes a step in the wire format.
type reply struct {
	request openai.ChatCompletionRequest
	step    step
	prompt  int // bytes of the request
	created int64
}

// toolCalls returns the calls of the step in the wire format.
func (r reply) toolCalls() []openai.ToolCall {
	out := make([]openai.ToolCall, len(r.step.calls))
	for i, c := range r.step.calls {
		args, _ := json.Marshal(c.arguments) // made of JSON values
		out[i] = openai.ToolCall{Index: &i, ID: r.id(i), Type: openai.ToolTypeFunction,
			Function: openai.FunctionCall{Name: c.name, Arguments: string(args)}}
	}
	return out
}

// id returns the ID of the i-th call, or of the response if i is -1. It is a hash of the messages, so that it is unique
// in a conversation, and the same if the request is repeated.
func (r reply) id(i int) string {
	b, _ := json.Marshal(r.request.Messages) // they were just unmarshalled
	sum := sha256.Sum256(fmt.Appendf(b, "%d", i))
	return "call_" + hex.EncodeToString(sum[:8])
}

// usage returns the token counts of the reply. It counts four bytes as one token, because the demo has no tokenizer.
func (r reply) usage() *openai.Usage {
	out := len(r.step.text)
	for _, c := range r.toolCalls() {
		out += len(c.Function.Name) + len(c.Function.Arguments)
	}
	input, output := (r.prompt+3)/4, (out+3)/4
	return &openai.Usage{PromptTokens: input, CompletionTokens: output, TotalTokens: input + output}
}

// events returns the events of the stream: the text word by word, the calls, the finish reason and, if the request asks
// for it, the usage.
func (r reply) events() []openai.ChatCompletionStreamResponse {
	id := r.id(-1)
	var out []openai.ChatCompletionStreamResponse
	add := func(choices ...openai.ChatCompletionStreamChoice) {
		out = append(out, openai.ChatCompletionStreamResponse{
			ID: id, Object: "chat.completion.chunk", Created: r.created, Model: Model,
			Choices: append([]openai.ChatCompletionStreamChoice{}, choices...),
		})
	}
	for _, word := range strings.SplitAfter(r.step.text, " ") {
		add(openai.ChatCompletionStreamChoice{Delta: openai.ChatCompletionStreamChoiceDelta{
			Role: openai.ChatMessageRoleAssistant, Content: word,
		}})
	}
	finish := openai.FinishReasonStop
	for _, c := range r.toolCalls() {
		finish = openai.FinishReasonToolCalls
		add(openai.ChatCompletionStreamChoice{
			Delta: openai.ChatCompletionStreamChoiceDelta{ToolCalls: []openai.ToolCall{c}},
		})
	}
	add(openai.ChatCompletionStreamChoice{FinishReason: finish})
	if o := r.request.StreamOptions; o != nil && o.IncludeUsage {
		add() // an event without choices, as OpenAI sends the usage
		out[len(out)-1].Usage = r.usage()
	}
	return out
}
