package responses

import (
	"encoding/json"
	"net/http"

	openai "github.com/sashabaranov/go-openai"

	"github.com/everturn/everturn/activities/inference"
	"github.com/everturn/everturn/workflows/turn"
)

// Wire implements inference.Wire for the Responses API.
type Wire struct{}

// API implements inference.Wire.
func (Wire) API() turn.API { return turn.APIResponses }

// Path implements inference.Wire.
func (Wire) Path() string { return "/responses" }

// Authorize implements inference.Wire.
func (Wire) Authorize(h http.Header, key string) {
	if key != "" {
		h.Set("Authorization", "Bearer "+key)
	}
}

// minOutputTokens is the smallest max_output_tokens that OpenAI accepts.
const minOutputTokens = 16

// request is go-openai's request with other fields in front: those that change least and the input, so that a longer
// transcript only extends the bytes up to the end of the input.
type request struct {
	Model        string `json:"model"`
	Instructions string `json:"instructions,omitempty"`
	Input        []any  `json:"input"`
	plainRequest
}

// plainRequest is go-openai's request without its method MarshalJSON. If request embedded that method, it would write
// only the embedded fields.
type plainRequest openai.CreateResponseRequest

// Body implements inference.Wire.
func (Wire) Body(p turn.Prompt, r inference.Rules) (inference.Body, error) {
	input, media := renderInput(p, r)
	store := false // an explicit false, because the API's default is true
	rest := plainRequest{Store: &store, Stream: true, Tools: tools(p.Tools)}
	if p.Reasoning.Reasons() && !r.Quirks.NoInclude {
		rest.Include = []openai.ResponseInclude{openai.ResponseIncludeReasoningEncryptedContent}
	}
	applySettings(&rest, p)
	if !r.Quirks.NoCacheKey {
		rest.PromptCacheKey = p.CacheKey
	}
	if p.MaxTokens > 0 {
		rest.MaxOutputTokens = max(p.MaxTokens, minOutputTokens)
	}
	if len(p.OutputSchema) > 0 && !r.Quirks.NoSchema {
		if rest.Text == nil {
			rest.Text = &openai.ResponseTextConfig{}
		}
		rest.Text.Format = &openai.ResponseTextFormat{Type: "json_schema", Name: "answer", Schema: p.OutputSchema,
			Strict: inference.Strict(p.OutputSchema)}
	}
	body, err := json.Marshal(request{p.Model, p.System, input, rest})
	return inference.Body{JSON: body, Media: media}, err
}

// renderInput renders the conversation as input items. media reports whether there are images or PDFs among them.
func renderInput(p turn.Prompt, r inference.Rules) (out []any, media bool) {
	r.Modalities.Audio = false // the API takes none
	out = []any{}
	for _, e := range inference.Conversation(p, r, turn.APIResponses) {
		switch {
		case len(e.Media) > 0:
			out, media = append(out, mediaMessage(e.Media)), true
		case e.Role == turn.RoleAssistant:
			out = append(out, assistant(e)...)
		case e.Role == turn.RoleTool:
			out = append(out, openai.ResponseFunctionCallOutput{Type: "function_call_output", CallID: e.CallID,
				Output: e.Text})
		default:
			out = append(out, openai.ResponseInputMessage{Role: openai.ChatMessageRoleUser, Content: e.Text})
		}
	}
	return out, media
}

// item is a call or a message of the model, as it is sent back to the provider. As the content of a turn.ProviderItem
// it has only Type, ID and Phase, which the transcript lacks. The provider accepts a call or a message with its ID only
// together with the reasoning item that preceded it.
type item struct {
	Type      string           `json:"type"`
	ID        string           `json:"id,omitempty"`
	Phase     string           `json:"phase,omitempty"`
	Role      string           `json:"role,omitempty"`
	Status    string           `json:"status,omitempty"`
	Content   []map[string]any `json:"content,omitempty"`
	CallID    string           `json:"call_id,omitempty"`
	Name      string           `json:"name,omitempty"`
	Arguments string           `json:"arguments,omitempty"`
}

// assistant renders an assistant message as items: its text, its calls, and the provider's own items, such as
// reasoning, unchanged.
func assistant(e inference.Entry) (out []any) {
	for _, p := range e.Parts() {
		var reference item // its ID and phase, if the provider has sent them
		if p.Text != "" || p.Call != nil {
			_ = json.Unmarshal(p.Raw, &reference) // itemReference wrote it; it may be empty
		}
		switch {
		case p.Call != nil:
			out = append(out, item{Type: "function_call", ID: reference.ID, CallID: p.Call.WireID, Name: p.Call.Tool,
				Arguments: p.Call.Arguments})
		case p.Text != "" && reference.ID != "": // a message of this provider, with its ID
			out = append(out, item{Type: "message", ID: reference.ID, Phase: reference.Phase,
				Role: openai.ChatMessageRoleAssistant, Status: "completed",
				Content: []map[string]any{{"type": "output_text", "text": p.Text, "annotations": []any{}}}})
		case p.Text != "": // a message of another provider, or without an ID
			out = append(out, openai.ResponseInputMessage{Role: openai.ChatMessageRoleAssistant, Content: p.Text})
		default:
			out = append(out, p.Raw)
		}
	}
	return out
}

type inputFile struct {
	Type string `json:"type"`
	Name string `json:"filename"`
	Data string `json:"file_data"`
}

// mediaMessage renders a user message with images and PDFs, each after the text that says to which message it belongs.
func mediaMessage(media []inference.Shown) openai.ResponseInputMessage {
	var parts []any
	for _, m := range media {
		parts = append(parts, openai.ResponseInputText{Type: "input_text", Text: m.About})
		if m.Type == inference.PDF {
			parts = append(parts, inputFile{"input_file", inference.PDFName, inference.DataURL(m.Media)})
			continue
		}
		parts = append(parts, openai.ResponseInputImage{Type: "input_image", Detail: "auto",
			ImageURL: inference.DataURL(m.Media)})
	}
	return openai.ResponseInputMessage{Role: openai.ChatMessageRoleUser, Content: parts}
}

// tools renders the tools that the model may call, in their order. It turns strict mode off, which is the API's
// default, because the schemas of MCP servers rarely fit that mode.
func tools(offered []turn.WireTool) []openai.ResponseTool {
	out := make([]openai.ResponseTool, 0, len(offered))
	for _, t := range offered {
		tool := openai.NewResponseFunctionTool(openai.FunctionDefinition{Name: t.Name, Description: t.Description,
			Parameters: inference.Schema(t)})
		tool.Parameters["strict"] = false
		out = append(out, tool)
	}
	return out
}
