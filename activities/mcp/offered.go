package mcp

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
)

// If the operator enables it, the host offers a server's resources and prompts to models, through tools that the server
// itself does not have: the stand-ins. A tool of the server with the same name takes precedence.

// standIn runs a call of a tool that the server itself does not have, with other requests of MCP. meta is the metadata
// for these requests.
type standIn func(ctx context.Context, s *session, arguments json.RawMessage, meta sdk.Meta) (*sdk.CallToolResult,
	error)

// offeredTool is a tool for resources or prompts. Its schema is written by hand, because turn configs contain its hash.
type offeredTool struct {
	tool *sdk.Tool
	run  standIn
}

const cursorSchema = `"cursor":{"type":"string","description":"where to go on: what the page before said"}`

// newOfferedTool returns a read-only tool. schema is the JSON schema of its arguments.
func newOfferedTool(name, description, schema string, run standIn) offeredTool {
	return offeredTool{run: run, tool: &sdk.Tool{
		Name: name, Description: description, InputSchema: json.RawMessage(schema),
		Annotations: &sdk.ToolAnnotations{ReadOnlyHint: true},
	}}
}

var (
	resourceTools = []offeredTool{
		newOfferedTool("list_resources",
			"List a page of what this server has to read, or of the patterns by which more of it can be named.",
			`{"type":"object","properties":{`+cursorSchema+
				`,"templates":{"type":"boolean","description":"list the patterns"}},"additionalProperties":false}`, listResources),
		newOfferedTool("read_resource", "Read something that list_resources has named.",
			`{"type":"object","properties":{"uri":{"type":"string"}},"required":["uri"],"additionalProperties":false}`,
			readResource),
	}
	promptTools = []offeredTool{
		newOfferedTool("list_prompts", "List a page of this server's prompts, which are texts made for a purpose.",
			`{"type":"object","properties":{`+cursorSchema+`},"additionalProperties":false}`, listPrompts),
		newOfferedTool("get_prompt", "Get the text of a prompt that list_prompts has named.",
			`{"type":"object","properties":{"name":{"type":"string"},"arguments":{"type":"object","additionalProperties":{"type":"string"}}},`+
				`"required":["name"],"additionalProperties":false}`, getPrompt),
	}
)

// standIns returns the tools that the host offers for the server's resources and prompts: those that the operator has
// enabled and whose capability the server has declared.
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

// setListed records which tools the server itself lists, so that standIn can tell them from the host's stand-ins.
func (o *offer) setListed(tools []*sdk.Tool) {
	o.listed = map[string]bool{}
	for _, t := range tools {
		if t != nil {
			o.listed[t.Name] = true
		}
	}
}

// withStandIns returns the tools that the server lists, followed by the stand-ins whose names the server does not use.
func (s *session) withStandIns(tools []*sdk.Tool) []*sdk.Tool {
	out := slices.Clip(tools) // so that append does not write into the caller's array
	for _, o := range s.standIns() {
		if !slices.ContainsFunc(tools, func(t *sdk.Tool) bool { return t != nil && t.Name == o.tool.Name }) {
			out = append(out, o.tool)
		}
	}
	return out
}

// standIn returns the function that runs the tool with this name, or nil if the server runs the tool itself.
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

// listResources runs list_resources: it returns a page of the server's resources or, with templates set, of its
// resource templates.
func listResources(ctx context.Context, s *session, arguments json.RawMessage,
	meta sdk.Meta) (*sdk.CallToolResult, error) {
	var in struct {
		Cursor    string `json:"cursor"`
		Templates bool   `json:"templates"`
	}
	_ = json.Unmarshal(arguments, &in) // the arguments were validated
	p := page{line: s.owner.redact.resultLine}
	if in.Templates {
		r, err := sendUncached(ctx, s.mcp.ListResourceTemplates, &sdk.ListResourceTemplatesParams{Meta: meta, Cursor: in.Cursor})
		if err != nil {
			return nil, err
		}
		for _, t := range r.ResourceTemplates {
			p.addEntry(t.URITemplate, t.Name, t.MIMEType, t.Description)
		}
		return p.result(r.NextCursor), nil
	}
	r, err := sendUncached(ctx, s.mcp.ListResources, &sdk.ListResourcesParams{Meta: meta, Cursor: in.Cursor})
	if err != nil {
		return nil, err
	}
	for _, t := range r.Resources {
		p.addEntry(t.URI, t.Name, t.MIMEType, t.Description)
	}
	return p.result(r.NextCursor), nil
}

// listPrompts runs list_prompts: it returns a page of the server's prompts with their arguments.
func listPrompts(ctx context.Context, s *session, arguments json.RawMessage,
	meta sdk.Meta) (*sdk.CallToolResult, error) {
	var in struct {
		Cursor string `json:"cursor"`
	}
	_ = json.Unmarshal(arguments, &in) // the arguments were validated
	r, err := sendUncached(ctx, s.mcp.ListPrompts, &sdk.ListPromptsParams{Meta: meta, Cursor: in.Cursor})
	if err != nil {
		return nil, err
	}
	p := page{line: s.owner.redact.resultLine}
	for _, t := range r.Prompts {
		var parameters []string
		for _, a := range t.Arguments {
			required := ""
			if a.Required {
				required = " (required)"
			}
			parameters = append(parameters, p.line(a.Name, 80)+required)
		}
		p.addEntry(t.Name, t.Title, strings.Join(parameters, ", "), t.Description)
	}
	return p.result(r.NextCursor), nil
}

// sendUncached calls send and returns its result. The SDK, which would keep the result until the connection ends and
// pass it to other callers too, gets an empty one (see trimResults).
func sendUncached[P any, R sdk.Result](ctx context.Context, send func(context.Context, P) (R, error),
	params P) (r R, err error) {
	var taken sdk.Result
	if _, err = send(context.WithValue(ctx, takenKey{}, &taken), params); err != nil {
		return r, err
	}
	return taken.(R), nil
}

// takenKey is the key of the context value through which trimResults returns a result to sendUncached: a *sdk.Result.
type takenKey struct{}

// page is a list for models with one entry per line.
type page struct {
	line  func(s string, limit int) string // redacts a text and cuts it to limit bytes
	lines []string
	bytes int // of all entries, including those over maxPage, which are left out
}

// maxPage bounds how much of a server's page the model sees, in bytes.
const maxPage = 256 << 10

// addEntry adds an entry: a name, followed by those parts of about that are not empty.
func (p *page) addEntry(name string, about ...string) {
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

// result returns the page as a tool's result. cursor is the server's cursor of the next page; empty if this is the
// last.
func (p *page) result(cursor string) *sdk.CallToolResult {
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

// readResource runs read_resource: it returns the contents of the resource with a URI.
func readResource(ctx context.Context, s *session, arguments json.RawMessage,
	meta sdk.Meta) (*sdk.CallToolResult, error) {
	var in struct {
		URI string `json:"uri"`
	}
	_ = json.Unmarshal(arguments, &in) // the arguments were validated
	r, err := sendUncached(ctx, s.mcp.ReadResource, &sdk.ReadResourceParams{Meta: meta, URI: in.URI})
	if err != nil {
		return nil, err
	}
	if len(r.InputRequests) > 0 || r.NeedsInput() {
		return inputRefusedResult(), nil
	}
	out := &sdk.CallToolResult{}
	for _, c := range r.Contents {
		out.Content = append(out.Content, &sdk.EmbeddedResource{Resource: c})
	}
	return out, nil
}

// getPrompt runs get_prompt: it returns the messages of a prompt, each after a line with its role.
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

// inputRefusedResult returns the error result for a server that requests input before it answers a stand-in's request.
// Only calls of the server's own tools can wait for a user's response.
func inputRefusedResult() *sdk.CallToolResult {
	return &sdk.CallToolResult{IsError: true, Content: []sdk.Content{&sdk.TextContent{
		Text: "The server requires input for this. Users are asked only for calls of its own tools.",
	}}}
}
