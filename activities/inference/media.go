package inference

import (
	"bytes"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"strings"

	openai "github.com/sashabaranov/go-openai"

	"github.com/everturn/everturn/workflows/turn"
)

// A tool message takes text only (OpenAI, Chat Completions), and nothing may stand between the results of one answer. So
// what a model is to see follows the last of them in a message of the user's role.

// conversation renders messages one after the other.
type conversation struct {
	senses Modalities
	wire   map[string]string // our call ID → the provider's, of the last assistant message with calls
	out    []openai.ChatCompletionMessage
	shown  []openai.ChatMessagePart // media of results, to follow the last of them
	audio  audioParts
	media  bool // something was shown
}

// add appends a message of the transcript.
func (c *conversation) add(m turn.Message) {
	if m.Role != turn.RoleTool {
		c.show()
	}
	for _, media := range m.Media {
		switch {
		case len(media.Data) > 0 && c.senses.takes(media.Type):
			c.shown = append(c.shown, c.part(m, media)...)
		case media.Hash == "" || !strings.Contains(m.Text, media.Hash): // else the text says what it is
			m.Text = strings.TrimPrefix(m.Text+"\n"+unseen(media), "\n")
		}
	}
	out := message(m, c.wire)
	c.out = append(c.out, out)
	if out.Role != openai.ChatMessageRoleTool {
		c.show()
	}
}

// show appends what has come together.
func (c *conversation) show() {
	if len(c.shown) > 0 {
		c.out = append(c.out, openai.ChatCompletionMessage{Role: openai.ChatMessageRoleUser, MultiContent: c.shown})
		c.shown, c.media = nil, true
	}
}

// part is an image or a sound, with a line that says what it belongs to.
func (c *conversation) part(m turn.Message, media turn.Media) []openai.ChatMessagePart {
	of := "this message"
	if m.CallID != "" {
		of = "the result of call " + m.CallID
	}
	about := openai.ChatMessagePart{
		Type: openai.ChatMessagePartTypeText, Text: fmt.Sprintf("%sOf %s: %s", notePrefix, of, media.Type),
	}
	if format, ok := audioFormats[media.Type]; ok {
		return []openai.ChatMessagePart{about, c.audio.add(format, media.Data)}
	}
	url := "data:" + media.Type + ";base64," + base64.StdEncoding.EncodeToString(media.Data)
	return []openai.ChatMessagePart{about, {Type: openai.ChatMessagePartTypeImageURL, ImageURL: &openai.ChatMessageImageURL{URL: url}}}
}

// unseen stands for what the model does not take.
func unseen(m turn.Media) string {
	kept := ""
	if m.Hash != "" {
		kept = ", kept as artifact " + m.Hash
	}
	return fmt.Sprintf("[%s, %s%s; you cannot see it]", turn.Truncate(m.Type, 80), size(m.Bytes), kept)
}

// size writes bytes as people read them.
func size(n int64) string {
	switch {
	case n < 1000:
		return fmt.Sprintf("%d bytes", n)
	case n < 1000_000:
		return fmt.Sprintf("%d KB", (n+500)/1000)
	}
	return fmt.Sprintf("%.1f MB", float64(n)/1e6)
}

// audioParts are parts of a kind that the library does not know. It writes a stand-in, which is replaced in the bytes that
// are sent. Within a string its quotes would be escaped, and a schema that holds it would need to know the sound.
type audioParts map[string][]byte

const inputAudio = "input_audio"

// add returns the stand-in of a part.
func (a *audioParts) add(format string, data []byte) openai.ChatMessagePart {
	sum := sha256.Sum256(data)
	part := openai.ChatMessagePart{Type: inputAudio, Text: hex.EncodeToString(sum[:])}
	standIn, _ := json.Marshal(part) // two plain strings always marshal
	if *a == nil {
		*a = audioParts{}
	}
	(*a)[string(standIn)] = fmt.Appendf(nil, `{"type":%q,"input_audio":{"data":%q,"format":%q}}`,
		inputAudio, base64.StdEncoding.EncodeToString(data), format)
	return part
}

// replace puts the parts in the place of their stand-ins.
func (a audioParts) replace(body []byte) []byte {
	for standIn, part := range a { // none is within another: their order does not matter
		body = bytes.ReplaceAll(body, []byte(standIn), part)
	}
	return body
}
