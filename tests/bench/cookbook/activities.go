package cookbook

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"github.com/modelcontextprotocol/go-sdk/mcp"
	openai "github.com/sashabaranov/go-openai"
)

// Activities are the loop's two activities.
type Activities struct {
	model     *openai.Client
	tools     []openai.Tool
	server    *mcp.ClientSession
	workspace string
}

// Infer sends all messages to the model.
func (a *Activities) Infer(ctx context.Context, in InferInput) (openai.ChatCompletionMessage, error) {
	reply := openai.ChatCompletionMessage{Role: openai.ChatMessageRoleAssistant}
	stream, err := a.model.CreateChatCompletionStream(ctx, openai.ChatCompletionRequest{
		Model: in.Model, Messages: in.Messages, Tools: a.tools, Stream: true,
		StreamOptions: &openai.StreamOptions{IncludeUsage: true},
	})
	if err != nil {
		return reply, err
	}
	defer stream.Close()
	for {
		event, err := stream.Recv()
		if errors.Is(err, io.EOF) {
			return reply, nil
		}
		if err != nil {
			return reply, err
		}
		for _, c := range event.Choices {
			reply.Content += c.Delta.Content
			reply.ToolCalls = merge(reply.ToolCalls, c.Delta.ToolCalls)
		}
	}
}

// merge adds an event's pieces to the calls that they belong to.
func merge(calls, pieces []openai.ToolCall) []openai.ToolCall {
	for _, p := range pieces {
		i := *p.Index
		for len(calls) <= i {
			calls = append(calls, openai.ToolCall{Type: openai.ToolTypeFunction})
		}
		if p.ID != "" {
			calls[i].ID = p.ID
		}
		calls[i].Function.Name += p.Function.Name
		calls[i].Function.Arguments += p.Function.Arguments
	}
	return calls
}

// CallTool runs one call: a file tool in this process, every other tool on the MCP server.
func (a *Activities) CallTool(ctx context.Context, in CallInput) (string, error) {
	if in.Name == "local_read_file" {
		return a.readFile(in.Arguments)
	}
	name := in.Name[strings.LastIndexByte(in.Name, '_')+1:] // mcp_<server>_<tool>
	res, err := a.server.CallTool(ctx, &mcp.CallToolParams{Name: name, Arguments: json.RawMessage(in.Arguments)})
	if err != nil {
		return "", err
	}
	var b strings.Builder
	for _, c := range res.Content {
		if text, ok := c.(*mcp.TextContent); ok {
			b.WriteString(text.Text)
		}
	}
	return b.String(), nil
}

func (a *Activities) readFile(arguments string) (string, error) {
	var in struct {
		Path string `json:"path"`
	}
	if err := json.Unmarshal([]byte(arguments), &in); err != nil {
		return "", fmt.Errorf("reading the arguments: %w", err)
	}
	b, err := os.ReadFile(filepath.Join(a.workspace, filepath.Clean("/"+in.Path)))
	return string(b), err
}
