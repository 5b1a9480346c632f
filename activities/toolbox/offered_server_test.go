package toolbox_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"image"
	"image/png"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/stretchr/testify/require"

	"github.com/everturn/everturn/activities/toolbox"
)

// actVariable makes the test binary an MCP server: these tests need tools, over stdio and over HTTP, that the other
// test server does not have.
const actVariable = "ACT_AS_SERVER"

func init() {
	if os.Getenv(actVariable) == "" {
		return
	}
	if err := actor().Run(context.Background(), &mcp.StdioTransport{}); err != nil &&
		!strings.Contains(err.Error(), "EOF") {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	os.Exit(0)
}

// stdioActor is the server as a child process.
func stdioActor(t *testing.T, id string) toolbox.Server {
	t.Helper()
	self, err := os.Executable()
	require.NoError(t, err)
	return toolbox.Server{ID: id, Command: self, Env: map[string]string{actVariable: "yes"},
		ConnectTimeout: 10 * time.Second}
}

// httpActor is the server over HTTP, in the newest protocol.
func httpActor(t *testing.T, id string) toolbox.Server {
	t.Helper()
	handler := mcp.NewStreamableHTTPHandler(func(*http.Request) *mcp.Server { return actor() },
		&mcp.StreamableHTTPOptions{Stateless: true})
	s := httptest.NewServer(handler)
	t.Cleanup(s.Close)
	return toolbox.Server{ID: id, URL: s.URL, ConnectTimeout: 10 * time.Second}
}

// pngImage returns an image of one pixel.
func pngImage() []byte {
	var b bytes.Buffer
	_ = png.Encode(&b, image.NewGray(image.Rect(0, 0, 1, 1)))
	return b.Bytes()
}

// actor is a server whose tools follow their arguments.
func actor() *mcp.Server {
	opts := &mcp.ServerOptions{PageSize: 2}
	if os.Getenv("ACT_OLD") != "" {
		opts.SupportedProtocolVersions = []string{"2025-11-25", "2025-06-18"}
	}
	s := mcp.NewServer(&mcp.Implementation{Name: "actor", Version: "1"}, opts)
	tool := func(name, output string, f mcp.ToolHandler) {
		t := &mcp.Tool{Name: name, InputSchema: json.RawMessage(`{"type":"object"}`)}
		if output != "" {
			t.OutputSchema = json.RawMessage(output)
		}
		s.AddTool(t, f)
	}
	tool("steps", "", steps)
	tool("pictures", "", pictures)
	tool("whoami", "", func(_ context.Context, req *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		meta, err := json.Marshal(req.Params.Meta)
		return words(string(meta)), err
	})
	tool("count", `{"type":"object","properties":{"n":{"type":"integer"}},"required":["n"]}`,
		func(_ context.Context, req *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
			var content map[string]any
			err := json.Unmarshal(req.Params.Arguments, &content)
			return &mcp.CallToolResult{StructuredContent: content, Content: words("counted").Content}, err
		})
	tool("question", "", question)
	tool("interrupt", "", interrupt)
	tool("say", "", func(_ context.Context, req *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		var in struct{ Text, Variable string }
		err := json.Unmarshal(req.Params.Arguments, &in)
		return words(in.Text + os.Getenv(in.Variable)), err
	})
	if own := os.Getenv("ACT_OWN"); own != "" {
		tool(own, "", func(context.Context, *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
			return words("my own"),
				nil
		})
	}
	addReadable(s)
	return s
}

func words(text string) *mcp.CallToolResult {
	return &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: text}}}
}

// steps takes N steps of Each milliseconds, and reports progress after each one.
func steps(ctx context.Context, req *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
	var in struct {
		N, Each int
		Silent  bool
		Message string
	}
	if err := json.Unmarshal(req.Params.Arguments, &in); err != nil {
		return nil, err
	}
	for i := range in.N {
		select {
		case <-time.After(time.Duration(in.Each) * time.Millisecond):
		case <-ctx.Done():
			return nil, ctx.Err()
		}
		if in.Silent {
			continue
		}
		err := req.Session.NotifyProgress(ctx, &mcp.ProgressNotificationParams{
			ProgressToken: req.Params.GetProgressToken(), Progress: float64(i + 1), Total: float64(in.N), Message: in.Message,
		})
		if err != nil {
			return nil, err
		}
	}
	return words(fmt.Sprintf("took %d steps", in.N)), nil
}

func pictures(_ context.Context, req *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
	var in struct {
		N    int
		Type string
		Text string
		Big  bool
	}
	if err := json.Unmarshal(req.Params.Arguments, &in); err != nil {
		return nil, err
	}
	data := pngImage()
	if in.Big {
		data = append(data, make([]byte, 8<<20)...)
	}
	r := &mcp.CallToolResult{}
	if in.Text != "" {
		r = words(in.Text)
	}
	for range in.N {
		r.Content = append(r.Content, &mcp.ImageContent{MIMEType: in.Type, Data: data})
	}
	return r, nil
}

// question sends the given elicitations until it has received responses the given number of times, and returns the
// responses.
func question(_ context.Context, req *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
	var in struct {
		Rounds int
		Ask    map[string]*mcp.ElicitParams
		State  string
		Model  bool
		Roots  bool
		Wait   int // milliseconds
	}
	if err := json.Unmarshal(req.Params.Arguments, &in); err != nil {
		return nil, err
	}
	<-time.After(time.Duration(in.Wait) * time.Millisecond) // a slow server
	heard := req.Params.RequestState
	if req.Params.InputResponses != nil {
		b, err := json.Marshal(req.Params.InputResponses)
		if err != nil {
			return nil, err
		}
		heard += "|" + string(b)
	} else {
		heard = in.State
	}
	if strings.Count(heard, "|") >= in.Rounds {
		return words("heard " + heard), nil
	}
	asks := mcp.InputRequestMap{}
	for key, p := range in.Ask {
		asks[key] = p
	}
	if in.Model {
		//lint:ignore SA1019 servers still ask for what the protocol deprecates
		asks["model"] = &mcp.CreateMessageParams{MaxTokens: 1, Messages: samplingMessages("hi")}
	}
	if in.Roots {
		//lint:ignore SA1019 the same
		asks["roots"] = &mcp.ListRootsParams{}
	}
	return &mcp.CallToolResult{InputRequests: asks, RequestState: heard}, nil
}

// interrupt sends an elicitation in the middle of the call, as older protocols do.
func interrupt(ctx context.Context, req *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
	r, err := req.Session.Elicit(ctx, &mcp.ElicitParams{
		Message:         "Which colour?",
		RequestedSchema: json.RawMessage(`{"type":"object","properties":{"colour":{"type":"string"}}}`),
	})
	if err != nil {
		return words("cannot ask: " + err.Error()), nil
	}
	return words(fmt.Sprintf("%s %v", r.Action, r.Content["colour"])), nil
}

func addReadable(s *mcp.Server) {
	for i := range 5 {
		uri := fmt.Sprintf("note://%d", i)
		s.AddResource(&mcp.Resource{URI: uri, Name: fmt.Sprintf("note %d", i), MIMEType: "text/plain",
			Description: "A note\x1b[31m."},
			func(_ context.Context, req *mcp.ReadResourceRequest) (*mcp.ReadResourceResult, error) {
				return &mcp.ReadResourceResult{Contents: []*mcp.ResourceContents{
					{URI: req.Params.URI, Text: "the text of " + req.Params.URI}}}, nil
			})
	}
	s.AddResource(&mcp.Resource{URI: "note://picture", Name: "picture", MIMEType: "image/png"},
		func(_ context.Context, req *mcp.ReadResourceRequest) (*mcp.ReadResourceResult, error) {
			return &mcp.ReadResourceResult{Contents: []*mcp.ResourceContents{
				{URI: req.Params.URI, MIMEType: "image/png", Blob: pngImage()}}}, nil
		})
	s.AddResourceTemplate(&mcp.ResourceTemplate{URITemplate: "file:///{path}", Name: "files"},
		func(context.Context, *mcp.ReadResourceRequest) (*mcp.ReadResourceResult, error) {
			return nil, errors.New("no such file")
		})
	s.AddPrompt(&mcp.Prompt{Name: "greet", Description: "Greets.",
		Arguments: []*mcp.PromptArgument{{Name: "who", Required: true}, {Name: "how"}}},
		func(_ context.Context, req *mcp.GetPromptRequest) (*mcp.GetPromptResult, error) {
			return &mcp.GetPromptResult{Messages: []*mcp.PromptMessage{
				{Role: "user", Content: &mcp.TextContent{Text: "Greet " + req.Params.Arguments["who"] + "."}},
				{Role: "assistant", Content: &mcp.TextContent{Text: "Gladly."}},
			}}, nil
		})
}

//lint:ignore SA1019 servers still ask for what the protocol deprecates
func samplingMessages(text string) []*mcp.SamplingMessage {
	//lint:ignore SA1019 the same
	return []*mcp.SamplingMessage{{Role: "user", Content: &mcp.TextContent{Text: text}}}
}
