package toolbox

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/everturn/everturn/workflows/turn"
)

// render makes a result of the server's answer.
func (s *session) render(r *mcp.CallToolResult) turn.ToolResult {
	if len(r.InputRequests) > 0 {
		return failed("The tool asks for more input before it acts, which is not supported. Call it with complete arguments.")
	}
	return renderContent(r, s.owner.opts.MaxResultBytes, s.owner.opts.MaxFullBytes)
}

// renderContent puts text blocks and structured content one under the other and names everything else. What the model
// is shown is at most shown bytes; where that is not everything, at most full bytes are kept beside it.
func renderContent(r *mcp.CallToolResult, shown, full int) turn.ToolResult {
	out := turn.ToolResult{Outcome: turn.OutcomeOK}
	if r.IsError {
		out.Outcome = turn.OutcomeError
	}
	var blocks []string
	var binaries []binary
	for _, c := range r.Content {
		text, bin := renderBlock(c)
		blocks = append(blocks, text)
		if bin != nil {
			binaries = append(binaries, *bin)
			out.SizeBytes += int64(len(bin.data))
		}
	}
	if text := structured(r, blocks); text != "" {
		blocks = append(blocks, text)
	}
	whole := strings.Join(blocks, "\n")
	out.SizeBytes += int64(len(whole))
	var cut bool
	out.Text, cut = Cut(Sanitize(whole), shown)
	keep(&out, r, whole, cut, binaries, full)
	return out
}

// binary is a block that is not text.
type binary struct {
	data []byte
	mime string
}

// renderBlock is a block's text, or a note that stands for it.
func renderBlock(c mcp.Content) (string, *binary) {
	switch c := c.(type) {
	case *mcp.TextContent:
		return c.Text, nil
	case *mcp.ImageContent:
		return note(c.MIMEType, "image", c.Data)
	case *mcp.AudioContent:
		return note(c.MIMEType, "audio", c.Data)
	case *mcp.ResourceLink:
		return fmt.Sprintf("[link %s %s %s]", oneLine(c.Name, 200), oneLine(c.URI, 500), oneLine(c.MIMEType, 80)), nil
	case *mcp.EmbeddedResource:
		if c.Resource == nil {
			return "[empty resource]", nil
		}
		if c.Resource.Blob == nil {
			return c.Resource.Text, nil
		}
		return note(c.Resource.MIMEType, "resource", c.Resource.Blob)
	}
	return fmt.Sprintf("[%T, not supported]", c), nil
}

func note(mime, kind string, data []byte) (string, *binary) {
	if mime = oneLine(mime, 80); mime == "" {
		mime = kind
	}
	return fmt.Sprintf("[%s, %d bytes]", mime, len(data)), &binary{data: data, mime: mime}
}

// structured is the structured content as JSON, or nothing where a text block says the same already, as the protocol
// recommends.
func structured(r *mcp.CallToolResult, blocks []string) string {
	if r.StructuredContent == nil {
		return ""
	}
	raw, err := json.Marshal(r.StructuredContent)
	if err != nil {
		return ""
	}
	for _, b := range blocks {
		if sameJSON(b, raw) {
			return ""
		}
	}
	return string(raw)
}

func sameJSON(text string, raw []byte) bool {
	if t := strings.TrimSpace(text); t == "" || t[0] != raw[0] {
		return false
	}
	var v any
	if json.Unmarshal([]byte(text), &v) != nil {
		return false
	}
	again, err := json.Marshal(v)
	return err == nil && bytes.Equal(again, raw)
}

// keep sets Full where Text is not everything: a lone binary as it is, several blocks with binaries among them as
// MCP content in JSON, text as text. What is over the limit is cut (text) or left out.
func keep(out *turn.ToolResult, r *mcp.CallToolResult, whole string, cut bool, binaries []binary, limit int) {
	switch {
	case len(binaries) == 1 && len(r.Content) == 1:
		out.Full, out.MediaType = binaries[0].data, binaries[0].mime
	case len(binaries) > 0:
		raw, err := json.Marshal(r.Content)
		if err != nil {
			return
		}
		out.Full, out.MediaType = raw, "application/json"
	case cut:
		out.Full, out.MediaType = []byte(whole[:runeStart(whole, min(limit, len(whole)))]), "text/plain; charset=utf-8"
	}
	if len(out.Full) > limit {
		out.Full, out.MediaType = nil, ""
		out.Text += fmt.Sprintf("\n[not kept: over %d bytes]", limit)
	}
}
