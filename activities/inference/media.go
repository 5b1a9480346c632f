package inference

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"strings"

	openai "github.com/sashabaranov/go-openai"

	"github.com/everturn/everturn/internal/printable"
	"github.com/everturn/everturn/workflows/turn"
)

// A tool message can only hold text (OpenAI, Chat Completions), and no message may come between the results of one
// completion. Images and audio therefore follow the last result in a message with the role user.

// conversation renders messages one after the other.
type conversation struct {
	modalities Modalities
	wireIDs    map[string]string // our call ID → the provider's, of the last assistant message with calls
	messages   []openai.ChatCompletionMessage
	pending    []part         // media of results, which follow the last result
	audio      map[int][]part // the content of the messages that hold audio, by index
	media      bool           // an image or audio was added
}

// part is a part of a message's content: the library's type, and audio, which the library lacks.
type part struct {
	openai.ChatMessagePart
	InputAudio *inputAudio `json:"input_audio,omitempty"`
}

type inputAudio struct {
	Data   []byte `json:"data"`
	Format string `json:"format"`
}

// add appends a message of the transcript.
func (c *conversation) add(m turn.Message) {
	if m.Role != turn.RoleTool {
		c.addMedia()
	}
	for _, media := range m.Media {
		switch {
		case len(media.Data) > 0 && c.modalities.accepts(media.Type):
			c.pending = append(c.pending, parts(m, media)...)
		case media.Hash == "" || !strings.Contains(m.Text, media.Hash): // otherwise the text already describes it
			m.Text = strings.TrimPrefix(m.Text+"\n"+omitted(media), "\n")
		}
	}
	out := message(m, c.wireIDs)
	c.messages = append(c.messages, out)
	if out.Role != openai.ChatMessageRoleTool {
		c.addMedia()
	}
}

// addMedia appends a message with the pending media.
func (c *conversation) addMedia() {
	if len(c.pending) == 0 {
		return
	}
	m := openai.ChatCompletionMessage{Role: openai.ChatMessageRoleUser}
	for _, p := range c.pending {
		m.MultiContent = append(m.MultiContent, p.ChatMessagePart)
		if p.InputAudio != nil {
			c.audio[len(c.messages)] = c.pending
		}
	}
	c.messages = append(c.messages, m)
	c.pending, c.media = nil, true
}

// parts returns an image or audio, after a line that says which message it belongs to.
func parts(m turn.Message, media turn.Media) []part {
	of := "this message"
	if m.CallID != "" {
		of = "the result of call " + m.CallID
	}
	about := part{ChatMessagePart: openai.ChatMessagePart{
		Type: openai.ChatMessagePartTypeText, Text: fmt.Sprintf("%sOf %s: %s", notePrefix, of, media.Type),
	}}
	if format, ok := audioFormats[media.Type]; ok {
		return []part{about, {openai.ChatMessagePart{Type: "input_audio"}, &inputAudio{media.Data, format}}}
	}
	url := "data:" + media.Type + ";base64," + base64.StdEncoding.EncodeToString(media.Data)
	return []part{about, {ChatMessagePart: openai.ChatMessagePart{
		Type: openai.ChatMessagePartTypeImageURL, ImageURL: &openai.ChatMessageImageURL{URL: url},
	}}}
}

// omitted describes media that the model does not accept.
func omitted(m turn.Media) string {
	kept := ""
	if m.Hash != "" {
		kept = ", kept as artifact " + m.Hash
	}
	return fmt.Sprintf("[%s, %s%s; you cannot see it]", turn.Truncate(m.Type, 80), printable.Size(m.Bytes), kept)
}

// withAudio returns the body of a request that holds audio: the library's fields in the library's order, with messages
// that may have parts of type input_audio. It returns nil if the request holds no audio.
func (r request) withAudio() ([]byte, error) {
	if len(r.audio) == 0 {
		return nil, nil
	}
	messages := make([]any, len(r.Messages))
	for i, m := range r.Messages {
		messages[i] = m
		if content := r.audio[i]; content != nil {
			messages[i] = struct {
				Role    string `json:"role"`
				Content []part `json:"content"`
			}{m.Role, content}
		}
	}
	return json.Marshal(struct {
		Model    string `json:"model"`
		Messages []any  `json:"messages"`
		openai.ChatCompletionRequest
	}{r.Model, messages, r.ChatCompletionRequest})
}
