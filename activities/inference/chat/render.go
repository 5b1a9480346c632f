package chat

import (
	"encoding/json"
	"errors"
	"net/http"

	openai "github.com/sashabaranov/go-openai"

	"github.com/everturn/everturn/activities/inference"
	"github.com/everturn/everturn/internal/models"
	"github.com/everturn/everturn/workflows/turn"
)

// Wire implements inference.Wire for Chat Completions.
type Wire struct{}

// API implements inference.Wire.
func (Wire) API() turn.API { return turn.APIChat }

// Path implements inference.Wire.
func (Wire) Path() string { return "/chat/completions" }

// Authorize implements inference.Wire.
func (Wire) Authorize(h http.Header, key string) {
	if key != "" {
		h.Set("Authorization", "Bearer "+key)
	}
}

// Body implements inference.Wire. The JSON begins with the model and the messages, so that the bytes up to the end of
// the messages depend on nothing else: a longer transcript extends them, and the provider's prompt cache can reuse the
// prefix. go-openai writes the other fields in a fixed order.
func (w Wire) Body(p turn.Prompt, r inference.Rules) (inference.Body, error) {
	q := r.Quirks
	messages, media := renderMessages(p, r)
	request := openai.ChatCompletionRequest{Model: p.Model, Tools: tools(p.Tools), Stream: true}
	if !q.NoStreamOptions {
		request.StreamOptions = &openai.StreamOptions{IncludeUsage: true}
	}
	if p.MaxTokens > 0 {
		if q.CompletionTokens || wantsCompletionTokens(p.Model) {
			request.MaxCompletionTokens = p.MaxTokens
		} else {
			request.MaxTokens = p.MaxTokens //nolint:staticcheck // servers other than OpenAI's know only this one
		}
	}
	thinking := applySettings(&request, p)
	if len(p.OutputSchema) > 0 && !q.NoSchema {
		request.ResponseFormat = &openai.ChatCompletionResponseFormat{
			Type: openai.ChatCompletionResponseFormatTypeJSONSchema,
			JSONSchema: &openai.ChatCompletionResponseFormatJSONSchema{
				Name: "answer", Schema: p.OutputSchema, Strict: inference.Strict(p.OutputSchema),
			},
		}
	}
	if err := check(request); err != nil {
		return inference.Body{}, err
	}
	body, err := json.Marshal(struct { // its fields Model and Messages replace those of the embedded request
		Model    string    `json:"model"`
		Messages []message `json:"messages"`
		openai.ChatCompletionRequest
		thinkingFields
	}{p.Model, messages, request, thinking})
	return inference.Body{JSON: body, Media: media}, err
}

// wantsCompletionTokens reports whether a model needs max_completion_tokens instead of max_tokens, as go-openai's
// validator knows it.
func wantsCompletionTokens(model string) bool {
	r := openai.ChatCompletionRequest{Model: model, MaxTokens: 1} //nolint:staticcheck // this asks whether it may be set
	return errors.Is(openai.NewReasoningValidator().Validate(r), openai.ErrReasoningModelMaxTokensDeprecated)
}

// renderMessages renders the system prompt, the transcript and the note, in this order. media reports whether there are
// images, audio or PDFs among them.
func renderMessages(p turn.Prompt, r inference.Rules) (out []message, media bool) {
	if p.System != "" {
		role := openai.ChatMessageRoleSystem
		if !models.TakesSystemRole(p.Model) {
			role = openai.ChatMessageRoleUser
		}
		out = append(out, textMessage(role, p.System))
	}
	for _, e := range inference.Conversation(p, r, turn.APIChat) {
		switch {
		case len(e.Media) > 0:
			out, media = append(out, mediaMessage(e.Media)), true
		case e.Role == turn.RoleAssistant:
			out = append(out, assistant(e, r.Quirks.WantsReasoning || p.Reasoning.WantsContent || models.WantsReasoning(p.Model)))
		case e.Role == turn.RoleTool:
			m := textMessage(openai.ChatMessageRoleTool, e.Text)
			m.ToolCallID = e.CallID
			out = append(out, m)
		default:
			out = append(out, textMessage(openai.ChatMessageRoleUser, e.Text))
		}
	}
	return out, media
}

// textMessage returns a message that contains only text.
func textMessage(role, text string) message {
	return message{ChatCompletionMessage: openai.ChatCompletionMessage{Role: role, Content: text}}
}

// tools renders the tools that the model may call, in their order.
func tools(offered []turn.WireTool) []openai.Tool {
	out := make([]openai.Tool, 0, len(offered))
	for _, t := range offered {
		out = append(out, openai.Tool{Type: openai.ToolTypeFunction, Function: &openai.FunctionDefinition{
			Name: t.Name, Description: t.Description, Parameters: inference.Schema(t),
		}})
	}
	return out
}
