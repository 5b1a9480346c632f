package messages

import (
	"cmp"
	"encoding/json"
	"fmt"
	"net/http"
	"regexp"

	"github.com/everturn/everturn/activities/inference"
	"github.com/everturn/everturn/workflows/turn"
)

// version is the API's version, which each request names.
const version = "2023-06-01"

// defaultMaxTokens is the max_tokens for a prompt that sets none, because the API requires one. If the endpoint refuses
// it as too high, the refusal contains the model's maximum: see inference.Quirks.
const defaultMaxTokens = 32_000

// Wire implements inference.Wire for the Messages API.
type Wire struct{}

// API implements inference.Wire.
func (Wire) API() turn.API { return turn.APIMessages }

// Path implements inference.Wire.
func (Wire) Path() string { return "/messages" }

// Authorize implements inference.Wire.
func (Wire) Authorize(h http.Header, key string) {
	h.Set("Anthropic-Version", version)
	if key != "" {
		h.Set("X-Api-Key", key)
	}
}

// request is the body of a request. The fields before the messages change least, so that a longer transcript only
// extends the bytes up to the end of the messages.
type request struct {
	Model        string        `json:"model"`
	System       string        `json:"system,omitempty"`
	Tools        []tool        `json:"tools,omitempty"`
	Messages     []message     `json:"messages"`
	MaxTokens    int           `json:"max_tokens"`
	Stream       bool          `json:"stream"`
	Temperature  *float64      `json:"temperature,omitempty"`
	TopP         *float64      `json:"top_p,omitempty"`
	Stop         []string      `json:"stop_sequences,omitempty"`
	ServiceTier  string        `json:"service_tier,omitempty"`
	ToolChoice   *toolChoice   `json:"tool_choice,omitempty"`
	Thinking     *thinking     `json:"thinking,omitempty"`
	CacheControl *cacheControl `json:"cache_control,omitempty"`
	OutputConfig *outputConfig `json:"output_config,omitempty"`
}

type cacheControl struct {
	Type string `json:"type"`
}

type outputConfig struct {
	Effort string        `json:"effort,omitempty"`
	Format *outputFormat `json:"format,omitempty"`
}

type outputFormat struct {
	Type   string          `json:"type"`
	Schema json.RawMessage `json:"schema"`
}

type tool struct {
	Name        string          `json:"name"`
	Description string          `json:"description,omitempty"`
	InputSchema json.RawMessage `json:"input_schema"`
}

type message struct {
	Role    string `json:"role"`
	Content []any  `json:"content"`
}

type textBlock struct {
	Type string `json:"type"`
	Text string `json:"text"`
}

type imageBlock struct {
	Type   string `json:"type"`
	Source struct {
		Type      string `json:"type"`
		MediaType string `json:"media_type"`
		Data      []byte `json:"data"`
	} `json:"source"`
}

type toolUse struct {
	Type  string          `json:"type"`
	ID    string          `json:"id"`
	Name  string          `json:"name"`
	Input json.RawMessage `json:"input"`
}

type toolResult struct {
	Type      string `json:"type"`
	ToolUseID string `json:"tool_use_id"`
	Content   string `json:"content"`
	IsError   bool   `json:"is_error,omitempty"`
}

// newTextBlock returns a content block with this text.
func newTextBlock(s string) textBlock { return textBlock{"text", s} }

// Body implements inference.Wire.
func (Wire) Body(p turn.Prompt, r inference.Rules) (inference.Body, error) {
	q := r.Quirks
	c := conversation{ids: map[string]string{}, usedIDs: map[string]bool{}}
	r.Modalities.Audio = false // the API takes none
	for _, e := range inference.Conversation(p, r, turn.APIMessages) {
		c.add(e)
	}
	request := request{Model: p.Model, System: p.System, Messages: c.messages, Stream: true,
		MaxTokens: cmp.Or(p.MaxTokens, defaultMaxTokens)}
	if q.MaxTokens > 0 {
		request.MaxTokens = min(request.MaxTokens, q.MaxTokens)
	}
	if !q.NoCacheKey {
		request.CacheControl = &cacheControl{"ephemeral"}
	}
	for _, t := range p.Tools {
		request.Tools = append(request.Tools, tool{t.Name, t.Description, inference.Schema(t)})
	}
	var output outputConfig
	if len(p.OutputSchema) > 0 && !q.NoSchema && inference.Strict(p.OutputSchema) { // the API takes no other schema
		output.Format = &outputFormat{"json_schema", p.OutputSchema}
	}
	header := request.applySettings(p, r, &output)
	if output != (outputConfig{}) {
		request.OutputConfig = &output
	}
	body, err := json.Marshal(request)
	return inference.Body{JSON: body, Media: c.media, Header: header}, err
}

// conversation renders the entries of a prompt, one after the other.
type conversation struct {
	messages  []message
	ids       map[string]string // the wire ID → the ID that is sent, of the last assistant message with calls
	usedIDs   map[string]bool   // the IDs that have been sent
	media     bool
	inResults bool // the last message holds results
}

// add appends an entry as a message. It joins the results of one completion's calls in one message, because the API
// requires that the results follow the message with their calls immediately.
func (c *conversation) add(e inference.Entry) {
	if len(c.messages) == 0 && e.Role != turn.RoleUser { // the first message must be the user's
		c.appendMessage("user", newTextBlock("(The beginning of the conversation is left out.)"))
	}
	switch {
	case e.Role == turn.RoleTool:
		block := toolResult{"tool_result", c.ids[e.CallID], e.Text, e.Failed}
		if c.inResults {
			last := &c.messages[len(c.messages)-1]
			last.Content = append(last.Content, block)
			return
		}
		c.appendMessage("user", block)
		c.inResults = true
	case e.Role == turn.RoleAssistant:
		c.appendMessage("assistant", c.assistant(e)...)
	case len(e.Media) > 0:
		c.appendMessage("user", mediaBlocks(e.Media)...)
		c.media = true
	default:
		c.appendMessage("user", newTextBlock(e.Text))
	}
}

// appendMessage appends a message with these content blocks.
func (c *conversation) appendMessage(role string, blocks ...any) {
	c.messages, c.inResults = append(c.messages, message{role, blocks}), false
}

// assistant renders the content blocks of an assistant message, and records the IDs of its calls for their results.
func (c *conversation) assistant(e inference.Entry) (out []any) {
	if len(e.Calls) > 0 {
		clear(c.ids)
	}
	for _, p := range e.Parts() {
		switch {
		case p.Call != nil:
			id := c.uniqueID(p.Call.WireID)
			c.ids[p.Call.WireID] = id
			out = append(out, toolUse{"tool_use", id, p.Call.Tool, json.RawMessage(p.Call.Arguments)})
		case p.Text != "":
			out = append(out, newTextBlock(p.Text))
		default:
			out = append(out, p.Raw)
		}
	}
	return out
}

// invalidIDChars matches the characters that the API refuses in the ID of a call (^[a-zA-Z0-9_-]{1,64}$).
var invalidIDChars = regexp.MustCompile(`[^a-zA-Z0-9_-]`)

// uniqueID returns an ID that the API accepts for the call with this wire ID: valid, and not used for another call of
// the conversation. Wire IDs may repeat, because some other providers number the calls of each completion from the
// beginning.
func (c *conversation) uniqueID(wireID string) string {
	const maxID = 64
	base := invalidIDChars.ReplaceAllString(wireID, "_")
	id := base[:min(len(base), maxID)]
	for n := 2; c.usedIDs[id]; n++ {
		suffix := fmt.Sprintf("_%d", n)
		id = base[:min(len(base), maxID-len(suffix))] + suffix
	}
	c.usedIDs[id] = true
	return id
}

// mediaBlocks renders images and PDFs, each after the text that says to which message it belongs.
func mediaBlocks(media []inference.Shown) (out []any) {
	for _, m := range media {
		image := imageBlock{Type: "image"}
		if m.Type == inference.PDF {
			image.Type = "document"
		}
		image.Source.Type, image.Source.MediaType, image.Source.Data = "base64", m.Type, m.Data
		out = append(out, newTextBlock(m.About), image)
	}
	return out
}
