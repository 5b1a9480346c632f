package responses

import (
	"encoding/json"
	"net/http"

	openai "github.com/sashabaranov/go-openai"

	"github.com/everturn/everturn/activities/inference"
	"github.com/everturn/everturn/workflows/turn"
)

// Wire is the wire API.
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

// minOutputTokens is the least max_output_tokens that OpenAI accepts.
const minOutputTokens = 16

// request is the library's request with the fields that change least in front, so that a longer transcript only extends
// the bytes up to the end of the input.
type request struct {
	Model        string `json:"model"`
	Instructions string `json:"instructions,omitempty"`
	Input        []any  `json:"input"`
	plainRequest
}

// plainRequest has no method MarshalJSON, which would leave out the fields in front.
type plainRequest openai.CreateResponseRequest

// Body implements inference.Wire.
func (Wire) Body(p turn.Prompt, r inference.Rules) (inference.Body, error) {
	input, media := renderInput(p, r)
	store := false
	rest := plainRequest{Store: &store, Stream: true, Tools: tools(p.Tools),
		Include: []openai.ResponseInclude{openai.ResponseIncludeReasoningEncryptedContent}}
	if !r.Quirks.NoCacheKey {
		rest.PromptCacheKey = p.CacheKey
	}
	if p.MaxTokens > 0 {
		rest.MaxOutputTokens = max(p.MaxTokens, minOutputTokens)
	}
	if p.Temperature != nil {
		t := float32(*p.Temperature)
		rest.Temperature = &t
	}
	if len(p.OutputSchema) > 0 && !r.Quirks.NoSchema {
		rest.Text = &openai.ResponseTextConfig{Format: &openai.ResponseTextFormat{Type: "json_schema", Name: "answer",
			Schema: p.OutputSchema, Strict: inference.Strict(p.OutputSchema)}}
	}
	body, err := json.Marshal(request{p.Model, p.System, input, rest})
	return inference.Body{JSON: body, Media: media}, err
}

// input renders the conversation. It reports whether there are images.
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

// item is an output item that goes back without an item of its own to be sent: its ID, and a message's phase. The
// provider accepts a call or a message with its ID only together with the reasoning that preceded it.
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

// assistant renders an assistant message as its items. Reasoning goes back unchanged.
func assistant(e inference.Entry) (out []any) {
	for _, p := range e.Parts() {
		var i item
		if p.Text != "" || p.Call != nil {
			_ = json.Unmarshal(p.Raw, &i) // the reader wrote it
		}
		switch {
		case p.Call != nil:
			out = append(out, item{Type: "function_call", ID: i.ID, CallID: p.Call.WireID, Name: p.Call.Tool,
				Arguments: p.Call.Arguments})
		case p.Text != "" && i.ID != "":
			out = append(out, item{Type: "message", ID: i.ID, Phase: i.Phase, Role: openai.ChatMessageRoleAssistant,
				Status: "completed", Content: []map[string]any{{"type": "output_text", "text": p.Text, "annotations": []any{}}}})
		case p.Text != "":
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

// shown renders a message with images.
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

// tools renders the offered tools in their order. The API takes a tool's schema as strict unless told otherwise, and a
// schema of an MCP server rarely is.
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
