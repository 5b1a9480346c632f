package mcp

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
)

// A server's resources and prompts are offered to models as tools of the server, if the operator enables that. A tool
// of the server with the same name takes precedence.

// standIn runs a tool that the server itself does not have.
type standIn func(ctx context.Context, s *session, arguments json.RawMessage, meta sdk.Meta) (*sdk.CallToolResult,
	error)

// offeredTool is a tool for resources or prompts. Its schema is written by hand, because turn configs contain its hash.
type offeredTool struct {
	tool *sdk.Tool
	run  standIn
}

const cursorSchema = `"cursor":{"type":"string","description":"where to go on: what the page before said"}`

func offered(name, description, schema string, run standIn) offeredTool {
	return offeredTool{run: run, tool: &sdk.Tool{
		Name: name, Description: description, InputSchema: json.RawMessage(schema),
		Annotations: &sdk.ToolAnnotations{ReadOnlyHint: true},
	}}
}

var (
	resourceTools = []offeredTool{
		offered("list_resources",
			"List a page of what this server has to read, or of the patterns by which more of it can be named.",
			`{"type":"object","properties":{`+cursorSchema+
				`,"templates":{"type":"boolean","description":"list the patterns"}},"additionalProperties":false}`, listResources),
		offered("read_resource", "Read something that list_resources has named.",
			`{"type":"object","properties":{"uri":{"type":"string"}},"required":["uri"],"additionalProperties":false}`,
			readResource),
	}
	promptTools = []offeredTool{
		offered("list_prompts", "List a page of this server's prompts, which are texts made for a purpose.",
			`{"type":"object","properties":{`+cursorSchema+`},"additionalProperties":false}`, listPrompts),
		offered("get_prompt", "Get the text of a prompt that list_prompts has named.",
			`{"type":"object","properties":{"name":{"type":"string"},"arguments":{"type":"object","additionalProperties":{"type":"string"}}},`+
				`"required":["name"],"additionalProperties":false}`, getPrompt),
	}
)

// standIns returns the tools that are offered for this server's resources and prompts.
func (s *session) standIns() []offeredTool {
	var out []offeredTool
	init := s.mcp.InitializeResult()
	if init == nil || init.Capabilities == nil {
		return nil
	}
	if server := s.owner.describer.server; server.Resources && init.Capabilities.Resources != nil {
		out = append(out, resourceTools...)
	}
	if server := s.owner.describer.server; server.Prompts && init.Capabilities.Prompts != nil {
		out = append(out, promptTools...)
	}
	return out
}

// setListed records which tools the server lists, as opposed to those that the host adds for resources and prompts.
func (o *offer) setListed(tools []*sdk.Tool) {
	o.listed = map[string]bool{}
	for _, t := range tools {
		if t != nil {
			o.listed[t.Name] = true
		}
	}
}

// withStandIns appends the stand-ins to the tools that the server lists.
func (s *session) withStandIns(tools []*sdk.Tool) []*sdk.Tool {
	out := slices.Clip(tools)
	for _, o := range s.standIns() {
		if !slices.ContainsFunc(tools, func(t *sdk.Tool) bool { return t != nil && t.Name == o.tool.Name }) {
			out = append(out, o.tool)
		}
	}
	return out
}

// standIn returns the function that runs the tool of this name, or nil if the server runs it itself.
func (s *session) standIn(name string) standIn {
	s.mu.Lock()
	own := s.offered.listed[name]
	s.mu.Unlock()
	if own {
		return nil
	}
	for _, o := range s.standIns() {
		if o.tool.Name == name {
			return o.run
		}
	}
	return nil
}

func listResources(ctx context.Context, s *session, arguments json.RawMessage,
	meta sdk.Meta) (*sdk.CallToolResult, error) {
	var in struct {
		Cursor    string `json:"cursor"`
		Templates bool   `json:"templates"`
	}
	_ = json.Unmarshal(arguments, &in) // the arguments were validated
	p := page{line: s.owner.redact.resultLine}
	if in.Templates {
		r, err := s.mcp.ListResourceTemplates(ctx, &sdk.ListResourceTemplatesParams{Meta: meta, Cursor: in.Cursor})
		if err != nil {
			return nil, err
		}
		defer forget(r)
		for _, t := range r.ResourceTemplates {
			p.add(t.URITemplate, t.Name, t.MIMEType, t.Description)
		}
		return p.end(r.NextCursor), nil
	}
	r, err := s.mcp.ListResources(ctx, &sdk.ListResourcesParams{Meta: meta, Cursor: in.Cursor})
	if err != nil {
		return nil, err
	}
	defer forget(r)
	for _, t := range r.Resources {
		p.add(t.URI, t.Name, t.MIMEType, t.Description)
	}
	return p.end(r.NextCursor), nil
}

func listPrompts(ctx context.Context, s *session, arguments json.RawMessage,
	meta sdk.Meta) (*sdk.CallToolResult, error) {
	var in struct {
		Cursor string `json:"cursor"`
	}
	_ = json.Unmarshal(arguments, &in) // the arguments were validated
	r, err := s.mcp.ListPrompts(ctx, &sdk.ListPromptsParams{Meta: meta, Cursor: in.Cursor})
	if err != nil {
		return nil, err
	}
	defer forget(r)
	p := page{line: s.owner.redact.resultLine}
	for _, t := range r.Prompts {
		var takes []string
		for _, a := range t.Arguments {
			need := ""
			if a.Required {
				need = " (required)"
			}
			takes = append(takes, p.line(a.Name, 80)+need)
		}
		p.add(t.Name, t.Title, strings.Join(takes, ", "), t.Description)
	}
	return p.end(r.NextCursor), nil
}

// forget empties a result. The SDK keeps each cacheable result until the connection ends.
func forget[T any](r *T) { *r = *new(T) }

// page is a list for models: one entry per line, its name first.
type page struct {
	line  func(s string, limit int) string // redacts and cuts
	lines []string
	bytes int
}

// maxPage bounds how much of one page of a server is shown, in bytes.
const maxPage = 256 << 10

func (p *page) add(name string, about ...string) {
	line := p.line(name, 500)
	for _, a := range about {
		if a = p.line(a, 300); a != "" {
			line += " | " + a
		}
	}
	if p.bytes += len(line) + 1; p.bytes <= maxPage {
		p.lines = append(p.lines, line)
	}
}

func (p *page) end(cursor string) *sdk.CallToolResult {
	lines := p.lines
	if len(lines) == 0 {
		lines = append(lines, "(nothing)")
	}
	if p.bytes > maxPage {
		lines = append(lines, "[the rest of this page is left out]")
	}
	if cursor != "" {
		quoted, _ := json.Marshal(cursor) // strings always marshal
		lines = append(lines, "[there is more: call again with the cursor "+string(quoted)+"]")
	}
	return &sdk.CallToolResult{Content: []sdk.Content{&sdk.TextContent{Text: strings.Join(lines, "\n")}}}
}

func readResource(ctx context.Context, s *session, arguments json.RawMessage,
	meta sdk.Meta) (*sdk.CallToolResult, error) {
	var in struct {
		URI string `json:"uri"`
	}
	_ = json.Unmarshal(arguments, &in) // the arguments were validated
	r, err := s.mcp.ReadResource(ctx, &sdk.ReadResourceParams{Meta: meta, URI: in.URI})
	if err != nil {
		return nil, err
	}
	defer forget(r)
	if len(r.InputRequests) > 0 || r.NeedsInput() {
		return inputRefusedResult(), nil
	}
	out := &sdk.CallToolResult{}
	for _, c := range r.Contents {
		out.Content = append(out.Content, &sdk.EmbeddedResource{Resource: c})
	}
	return out, nil
}

func getPrompt(ctx context.Context, s *session, arguments json.RawMessage, meta sdk.Meta) (*sdk.CallToolResult, error) {
	var in struct {
		Name      string            `json:"name"`
		Arguments map[string]string `json:"arguments"`
	}
	_ = json.Unmarshal(arguments, &in) // the arguments were validated
	r, err := s.mcp.GetPrompt(ctx, &sdk.GetPromptParams{Meta: meta, Name: in.Name, Arguments: in.Arguments})
	if err != nil {
		return nil, err
	}
	if len(r.InputRequests) > 0 || r.NeedsInput() {
		return inputRefusedResult(), nil
	}
	out := &sdk.CallToolResult{}
	for _, m := range r.Messages {
		if m == nil || m.Content == nil {
			continue
		}
		out.Content = append(out.Content,
			&sdk.TextContent{Text: fmt.Sprintf("%s:", s.owner.redact.resultLine(string(m.Role), 40))}, m.Content)
	}
	return out, nil
}

// inputRefusedResult returns the error result for a server that elicits something outside a tool call: a turn can wait
// only with tool calls.
func inputRefusedResult() *sdk.CallToolResult {
	return &sdk.CallToolResult{IsError: true, Content: []sdk.Content{&sdk.TextContent{
		Text: "The server requires input for this. Users are asked only for calls of its own tools.",
	}}}
}
