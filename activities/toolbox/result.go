package toolbox

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/everturn/everturn/activities/toolbox/schema"
	"github.com/everturn/everturn/internal/printable"
	"github.com/everturn/everturn/workflows/turn"
)

// render converts the server's response into a result.
func (s *session) render(r *mcp.CallToolResult, tool string) turn.ToolResult {
	note := s.checkOutput(tool, r)
	return renderContent(r, note, limits{shown: s.owner.opts.MaxResultBytes, full: s.owner.opts.MaxFullBytes,
		redact: s.owner.redact})
}

// checkOutput returns a note for the model if a structured result does not match the tool's output schema. The result
// itself is kept unchanged.
func (s *session) checkOutput(tool string, r *mcp.CallToolResult) (note string) {
	s.mu.Lock()
	promised := s.offered.outputs[tool]
	s.mu.Unlock()
	if r.IsError || r.StructuredContent == nil || promised == nil {
		return ""
	}
	err := schema.OfResult(promised).Validate(r.StructuredContent)
	if errors.Is(err, schema.ErrNotChecked) {
		return "[note: this result is too large or too deep to be checked against the tool's output schema]"
	}
	if err != nil {
		return "[note: this result is not what the tool's output schema promises: " + s.owner.clean(err.Error(), 300) + "]"
	}
	return ""
}

// limits are the bounds of a result.
type limits struct {
	shown  int // bytes that the model sees
	full   int // bytes that are kept
	redact redactor
}

// renderContent joins text blocks and structured content with newlines and replaces every other block by a note. The
// model sees at most limits.shown bytes; if that is not everything, at most limits.full bytes are kept beside it.
func renderContent(r *mcp.CallToolResult, note string, l limits) turn.ToolResult {
	out := turn.ToolResult{Outcome: turn.OutcomeOK}
	if r.IsError {
		out.Outcome = turn.OutcomeError
	}
	var blocks []string
	var m media
	for _, c := range r.Content {
		blocks = append(blocks, renderBlock(c, &m, l.redact))
	}
	if text := structured(r, blocks); text != "" {
		blocks = append(blocks, text)
	}
	if note != "" {
		blocks = append(blocks, note)
	}
	text := strings.Join(blocks, "\n")
	whole := l.redact.result(printable.Sanitize(text))
	out.SizeBytes = int64(len(text)) + m.size
	out.Media = m.kept
	var cut bool
	out.Text, cut = printable.Cut(whole, l.shown)
	keep(&out, r, whole, cut, m.binaries, l)
	return out
}

// renderBlock returns a block's text, or a note in its place.
func renderBlock(c mcp.Content, m *media, r redactor) string {
	switch c := c.(type) {
	case *mcp.TextContent:
		return c.Text
	case *mcp.ImageContent:
		return m.add(c.MIMEType, "image", c.Data)
	case *mcp.AudioContent:
		return m.add(c.MIMEType, "audio", c.Data)
	case *mcp.ResourceLink:
		return fmt.Sprintf("[link %s %s %s]", r.resultLine(c.Name, 200), r.resultLine(c.URI, 500),
			r.resultLine(c.MIMEType, 80))
	case *mcp.EmbeddedResource:
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

// structured returns the structured content as JSON, or an empty string if a text block already says the same, as the
// protocol recommends.
func structured(r *mcp.CallToolResult, blocks []string) string {
	if r.StructuredContent == nil {
		return ""
	}
	raw, err := plainJSON(r.StructuredContent)
	if err != nil {
		return ""
	}
	for _, b := range blocks {
		if sameJSON(b, raw) || sameText(b, r.StructuredContent) {
			return ""
		}
	}
	return string(raw)
}

// sameText reports whether the structured content is an object around the text of a block. Servers generate such
// objects for tools that return only text.
func sameText(block string, content any) bool {
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

func sameJSON(text string, raw []byte) bool {
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

// keep sets Full if Text and Media do not hold everything: a lone binary as it is, several blocks with binaries among
// them as MCP content in JSON, text as text. Text over the limit is cut; anything else over the limit is dropped.
func keep(out *turn.ToolResult, r *mcp.CallToolResult, whole string, cut bool, binaries []binary, l limits) {
	switch {
	case len(binaries) == 1 && len(r.Content) == 1:
		out.Full, out.MediaType = binaries[0].data, binaries[0].mime
	case len(binaries) > 0:
		raw, err := json.Marshal(withoutMedia(r.Content))
		if err != nil {
			return
		}
		out.Full, out.MediaType = []byte(l.redact.result(string(raw))), "application/json"
	case cut:
		out.Full, out.MediaType = []byte(printable.Head(whole, l.full)), "text/plain; charset=utf-8"
	}
	if len(out.Full) > l.full {
		out.Full, out.MediaType = nil, ""
		out.Text += fmt.Sprintf("\n[not kept: over %d bytes]", l.full)
	}
}

// withoutMedia returns the content without the blocks that are kept as Media.
func withoutMedia(content []mcp.Content) []mcp.Content {
	out := []mcp.Content{}
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
