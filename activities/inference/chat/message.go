package chat

import (
	"encoding/json"

	openai "github.com/sashabaranov/go-openai"

	"github.com/everturn/everturn/activities/inference"
	"github.com/everturn/everturn/workflows/turn"
)

// message is go-openai's message with additional fields, which that type lacks.
type message struct {
	openai.ChatCompletionMessage
	parts []part     // if set, written instead of the embedded Content
	calls []toolCall // if set, written instead of the embedded ToolCalls
	own   ownFields
}

// ownFields are the fields of an assistant message that only some providers send, and that they need back.
type ownFields struct {
	ReasoningContent json.RawMessage `json:"reasoning_content,omitempty"`
	ReasoningDetails json.RawMessage `json:"reasoning_details,omitempty"`
	Reasoning        json.RawMessage `json:"reasoning,omitempty"`
}

// toolCall is go-openai's call with a field of Gemini, which contains the call's thought signature.
type toolCall struct {
	openai.ToolCall
	ExtraContent json.RawMessage `json:"extra_content,omitempty"`
}

// part is a part of a message's content: go-openai's type with audio and files, which that type lacks.
type part struct {
	openai.ChatMessagePart
	InputAudio *inputAudio `json:"input_audio,omitempty"`
	File       *inputFile  `json:"file,omitempty"`
}

type inputFile struct {
	Name string `json:"filename"`
	Data string `json:"file_data"`
}

type inputAudio struct {
	Data   []byte `json:"data"`
	Format string `json:"format"`
}

// MarshalJSON implements json.Marshaler. It writes the embedded message, unless the message has additional fields.
func (m message) MarshalJSON() ([]byte, error) {
	switch {
	case m.parts != nil:
		return json.Marshal(struct {
			Role    string `json:"role"`
			Content []part `json:"content"`
		}{m.Role, m.parts})
	case m.calls != nil:
		return json.Marshal(struct {
			Role      string     `json:"role"`
			Content   string     `json:"content,omitempty"`
			ToolCalls []toolCall `json:"tool_calls"`
			ownFields
		}{m.Role, m.Content, m.calls, m.own})
	}
	return json.Marshal(m.ChatCompletionMessage)
}

// assistant renders an assistant message, with the provider's own fields if it has tool calls. reasoning means that the
// provider refuses calls without reasoning_content, even calls of another model, which have none: they get an empty
// one.
func assistant(e inference.Entry, reasoning bool) message {
	out := textMessage(openai.ChatMessageRoleAssistant, e.Text)
	for _, p := range e.Parts() {
		switch {
		case p.Call != nil:
			out.ToolCalls = append(out.ToolCalls, openai.ToolCall{ID: p.Call.WireID, Type: openai.ToolTypeFunction,
				Function: openai.FunctionCall{Name: p.Call.Tool, Arguments: p.Call.Arguments}})
			out.calls = append(out.calls, toolCall{out.ToolCalls[len(out.ToolCalls)-1], p.Raw})
		case p.Text == "": // an item of the provider, which ownFields.record wrote
			_ = json.Unmarshal(p.Raw, &out.own)
		}
	}
	if reasoning && out.own.ReasoningContent == nil {
		out.own.ReasoningContent = json.RawMessage(`""`)
	}
	if len(e.Items) == 0 && !reasoning {
		out.calls = nil // no additional fields: the embedded ToolCalls are enough
	}
	return out
}

// mediaMessage renders a user message with media, each after the text that says to which message it belongs.
func mediaMessage(media []inference.Shown) message {
	out := message{ChatCompletionMessage: openai.ChatCompletionMessage{Role: openai.ChatMessageRoleUser}}
	for _, m := range media {
		out.parts = append(out.parts, part{ChatMessagePart: openai.ChatMessagePart{
			Type: openai.ChatMessagePartTypeText, Text: m.About}})
		if format := inference.AudioFormat(m.Type); format != "" {
			out.parts = append(out.parts, part{ChatMessagePart: openai.ChatMessagePart{Type: "input_audio"},
				InputAudio: &inputAudio{m.Data, format}})
			continue
		}
		if m.Type == inference.PDF {
			out.parts = append(out.parts, part{ChatMessagePart: openai.ChatMessagePart{Type: "file"},
				File: &inputFile{inference.PDFName, inference.DataURL(m.Media)}})
			continue
		}
		out.parts = append(out.parts, part{ChatMessagePart: openai.ChatMessagePart{
			Type: openai.ChatMessagePartTypeImageURL, ImageURL: &openai.ChatMessageImageURL{URL: inference.DataURL(m.Media)}}})
	}
	return out
}

// record adds the provider's own fields of a response to the Collector as items to send back: first those of the
// message, then one item for each call. calls holds the extra_content of each call, which may be empty. It adds nothing
// if the response has no such fields.
func (o *ownFields) record(c *inference.Collector, calls []json.RawMessage) error {
	if o.ReasoningContent == nil && o.ReasoningDetails == nil && o.Reasoning == nil && !anyNonEmpty(calls) {
		return nil
	}
	raw, err := json.Marshal(o)
	if err != nil {
		return err
	}
	if err := c.Item("", raw); err != nil {
		return err
	}
	for _, extra := range calls {
		if err := c.Item(turn.PartCall, extra); err != nil {
			return err
		}
	}
	return nil
}

// anyNonEmpty reports whether the list has an element that is not empty.
func anyNonEmpty(list []json.RawMessage) bool {
	for _, raw := range list {
		if len(raw) > 0 {
			return true
		}
	}
	return false
}
