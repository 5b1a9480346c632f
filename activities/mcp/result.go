package mcp

import (
	"bytes"
	"encoding/json"
	"fmt"
	"mime"
	"net/http"
	"strings"
	"unicode/utf8"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/everturn/everturn/activities/tools/tool"
	"github.com/everturn/everturn/internal/printable"
	"github.com/everturn/everturn/workflows/turn"
)

// render converts the server's response into a result.
func (s *session) render(r *sdk.CallToolResult) turn.ToolResult {
	limits := tool.Limits{Shown: s.owner.opts.MaxResultBytes, Full: s.owner.opts.MaxFullBytes}
	return renderContent(r, limits, s.owner.redact)
}

// renderContent returns the result of a tool's response. Its text joins the text blocks and the structured content with
// newlines, with a note in place of every other block, and is cut to l.Shown bytes. If text and media are not the whole
// output, the result also has the full output: the text, cut to l.Full bytes, or what keepBinaries keeps, unless that
// is over l.Full bytes.
func renderContent(r *sdk.CallToolResult, l tool.Limits, redact redactor) turn.ToolResult {
	var blocks []string
	var m media
	for _, c := range r.Content {
		blocks = append(blocks, renderBlock(c, &m, redact))
	}
	if text := structuredText(r, blocks); text != "" {
		blocks = append(blocks, text)
	}
	out := tool.Text(strings.Join(blocks, "\n"), l, redact.result)
	if r.IsError {
		out.Outcome = turn.OutcomeError
	}
	out.SizeBytes += m.size
	out.Media = m.kept
	keepBinaries(&out, r, m.binaries, redact)
	if len(out.Full) > l.Full {
		out.Full, out.MediaType = nil, ""
		out.Text += fmt.Sprintf("\n[not kept: over %d bytes]", l.Full)
	}
	return out
}

// renderBlock returns a block's text, or a note in its place.
func renderBlock(c sdk.Content, m *media, r redactor) string {
	switch c := c.(type) {
	case *sdk.TextContent:
		return c.Text
	case *sdk.ImageContent:
		return m.add(c.MIMEType, "image", c.Data)
	case *sdk.AudioContent:
		return m.add(c.MIMEType, "audio", c.Data)
	case *sdk.ResourceLink:
		return fmt.Sprintf("[link %s %s %s]", r.resultLine(c.Name, 200), r.resultLine(c.URI, 500),
			r.resultLine(c.MIMEType, 80))
	case *sdk.EmbeddedResource:
		if c.Resource == nil {
			return "[empty resource]"
		}
		if c.Resource.Blob == nil {
			return c.Resource.Text
		}
		return m.add(c.Resource.MIMEType, "resource", c.Resource.Blob)
	}
	return fmt.Sprintf("[%T, not supported]", c)
}

// structuredText returns the response's structured content as JSON. It returns an empty string if there is none, or if
// a text block has the same content, as the protocol recommends, or the text that it wraps (see wrapsText).
func structuredText(r *sdk.CallToolResult, blocks []string) string {
	if r.StructuredContent == nil {
		return ""
	}
	raw, err := plainJSON(r.StructuredContent)
	if err != nil {
		return ""
	}
	for _, b := range blocks {
		if sameJSON(b, raw) || wrapsText(b, r.StructuredContent) {
			return ""
		}
	}
	return string(raw)
}

// wrapsText reports whether the structured content is an object with one field, whose value is the text of the block.
// Servers generate such objects for tools that return only text.
func wrapsText(block string, content any) bool {
	object, ok := content.(map[string]any)
	if !ok || len(object) != 1 {
		return false
	}
	for _, v := range object {
		text, ok := v.(string)
		return ok && strings.TrimSpace(text) == strings.TrimSpace(block)
	}
	return false
}

// plainJSON marshals v without escaping <, > and &, because models read the text.
func plainJSON(v any) ([]byte, error) {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	err := enc.Encode(v)
	return bytes.TrimSuffix(b.Bytes(), []byte("\n")), err
}

// sameJSON reports whether text is JSON with the same content as raw, which plainJSON has written.
func sameJSON(text string, raw []byte) bool {
	// Most blocks are no JSON at all: comparing the first character avoids parsing them.
	if t := strings.TrimSpace(text); t == "" || t[0] != raw[0] {
		return false
	}
	var v any
	if json.Unmarshal([]byte(text), &v) != nil {
		return false
	}
	again, err := plainJSON(v)
	return err == nil && bytes.Equal(again, raw)
}

// keepBinaries sets out.Full if the response has binary blocks that are not kept as media: to the data of the binary if
// it is the only block, otherwise to all blocks except the media, as MCP content in JSON. It redacts that JSON, and
// data that is text.
func keepBinaries(out *turn.ToolResult, r *sdk.CallToolResult, binaries []binary, redact redactor) {
	switch {
	case len(binaries) == 1 && len(r.Content) == 1:
		out.Full, out.MediaType = binaries[0].data, binaries[0].mime
		if utf8.Valid(out.Full) {
			out.Full = []byte(redact.result(string(out.Full)))
		}
	case len(binaries) > 0:
		raw, err := json.Marshal(withoutMedia(r.Content))
		if err != nil {
			return
		}
		out.Full, out.MediaType = []byte(redact.result(string(raw))), "application/json"
	}
}

// withoutMedia returns the blocks that renderBlock does not keep as media. It renders them once more to find out.
func withoutMedia(content []sdk.Content) []sdk.Content {
	out := []sdk.Content{}
	var m media
	for _, c := range content {
		before := len(m.kept)
		renderBlock(c, &m, redactor{})
		if len(m.kept) == before {
			out = append(out, c)
		}
	}
	return out
}

// Bounds of the images and audio of one result, by number and by size of each. A block over them is handled like any
// other binary.
const (
	maxMedia      = 8
	maxMediaBytes = 8 << 20
)

// mediaTypes maps detected content types to those of images and audio. Detection is by content (http.DetectContentType,
// the WHATWG MIME sniffing standard). Image types that may contain scripts are left out.
var mediaTypes = map[string]string{
	"image/png": "image/png", "image/jpeg": "image/jpeg", "image/gif": "image/gif", "image/webp": "image/webp",
	"audio/wave": "audio/wav", "audio/mpeg": "audio/mpeg", "application/ogg": "audio/ogg", "audio/aiff": "audio/aiff",
}

// detectMediaType returns the media type of data by its content, or an empty string if it is neither an image nor
// audio. The declared type counts only if the content alone does not decide: for containers of audio or video, and for
// MPEG audio without a tag.
func detectMediaType(data []byte, declared string) string {
	found, _, _ := strings.Cut(http.DetectContentType(data), ";")
	if t, ok := mediaTypes[found]; ok {
		return t
	}
	audio := strings.HasPrefix(declared, "audio/")
	switch {
	case bytes.HasPrefix(data, []byte("fLaC")):
		return "audio/flac"
	case audio && found == "video/mp4":
		return "audio/mp4"
	case audio && found == "video/webm":
		return "audio/webm"
	case audio && len(data) > 1 && data[0] == 0xff &&
		data[1]&0xe6 == 0xe2: // the header of an MPEG audio frame, layer III (MP3), without an ID3 tag before it
		return "audio/mpeg"
	}
	return ""
}

// media collects the images, audio and other binary blocks of a result.
type media struct {
	kept     []turn.Media // images and audio
	binaries []binary     // the other blocks
	size     int64        // bytes of all of them
}

// binary is a block that is neither text nor media.
type binary struct {
	data []byte
	mime string
}

// add collects a block and returns the note that replaces it in the text. declared is the media type that the server
// gives; kind stands for it if it is missing or malformed.
func (m *media) add(declared, kind string, data []byte) (note string) {
	m.size += int64(len(data))
	if declared = parseMediaType(declared); declared == "" {
		declared = kind
	}
	if t := detectMediaType(data, declared); t != "" && len(m.kept) < maxMedia && len(data) <= maxMediaBytes {
		m.kept = append(m.kept, turn.Media{Type: t, Bytes: int64(len(data)), Data: data})
		return fmt.Sprintf("[%s, %s]", t, printable.Size(int64(len(data))))
	}
	m.binaries = append(m.binaries, binary{data: data, mime: declared})
	return fmt.Sprintf("[%s, %s]", declared, printable.Size(int64(len(data))))
}

// parseMediaType returns a declared media type without its parameters, or an empty string if it is malformed.
func parseMediaType(declared string) string {
	t, _, err := mime.ParseMediaType(declared)
	if err != nil || len(t) > 80 || printable.Line(t, 80) != t {
		return ""
	}
	return t
}
