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

// A tool message can only hold text (OpenAI, Chat Completions), and no message may come between the results of one
// completion. Images and audio therefore follow the last result in a message with the role user.

// conversation renders messages one after the other.
type conversation struct {
	senses Modalities
	wire   map[string]string // our call ID → the provider's, of the last assistant message with calls
	out    []openai.ChatCompletionMessage
	shown  []openai.ChatMessagePart // media of results, which follow the last result
	audio  audioParts
	media  bool // an image or audio was added
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
		case media.Hash == "" || !strings.Contains(m.Text, media.Hash): // otherwise the text already describes it
			m.Text = strings.TrimPrefix(m.Text+"\n"+unseen(media), "\n")
		}
	}
	out := message(m, c.wire)
	c.out = append(c.out, out)
	if out.Role != openai.ChatMessageRoleTool {
		c.show()
	}
}

// show appends the collected media.
func (c *conversation) show() {
	if len(c.shown) > 0 {
		c.out = append(c.out, openai.ChatCompletionMessage{Role: openai.ChatMessageRoleUser, MultiContent: c.shown})
		c.shown, c.media = nil, true
	}
}

// part returns an image or audio, with a line that says what it belongs to.
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

// unseen describes media that the model does not accept.
func unseen(m turn.Media) string {
	kept := ""
	if m.Hash != "" {
		kept = ", kept as artifact " + m.Hash
	}
	return fmt.Sprintf("[%s, %s%s; you cannot see it]", turn.Truncate(m.Type, 80), size(m.Bytes), kept)
}

// size formats a number of bytes for reading.
func size(n int64) string {
	switch {
	case n < 1000:
		return fmt.Sprintf("%d bytes", n)
	case n < 1000_000:
		return fmt.Sprintf("%d KB", (n+500)/1000)
	}
	return fmt.Sprintf("%.1f MB", float64(n)/1e6)
}

// audioParts are parts of a type that the library does not support. The library writes a stand-in, which is replaced in
// the bytes that are sent. A stand-in cannot occur by accident: within a string its quotes would be escaped, and a
// schema that contains it would need to know the hash of the audio.
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

// replace substitutes the parts for their stand-ins.
func (a audioParts) replace(body []byte) []byte {
	for standIn, part := range a { // no stand-in contains another, so their order does not matter
		body = bytes.ReplaceAll(body, []byte(standIn), part)
	}
	return body
}
