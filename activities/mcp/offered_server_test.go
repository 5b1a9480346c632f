package mcp_test

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

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/stretchr/testify/require"

	"github.com/everturn/everturn/activities/mcp"
)

// actVariable makes the test binary an MCP server: these tests need tools, over stdio and over HTTP, that the other
// test server does not have.
const actVariable = "ACT_AS_SERVER"

func init() {
	if os.Getenv(actVariable) == "" {
		return
	}
	if err := actor().Run(context.Background(), &sdk.StdioTransport{}); err != nil &&
		!strings.Contains(err.Error(), "EOF") {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	os.Exit(0)
}

// stdioActor is the server as a child process.
func stdioActor(t *testing.T, id string) mcp.Server {
	t.Helper()
	self, err := os.Executable()
	require.NoError(t, err)
	return mcp.Server{ID: id, Command: self, Env: map[string]string{actVariable: "yes"},
		ConnectTimeout: 10 * time.Second}
}

// httpActor is the server over HTTP, in the newest protocol.
func httpActor(t *testing.T, id string) mcp.Server {
	t.Helper()
	handler := sdk.NewStreamableHTTPHandler(func(*http.Request) *sdk.Server { return actor() },
		&sdk.StreamableHTTPOptions{Stateless: true})
	s := httptest.NewServer(handler)
	t.Cleanup(s.Close)
	return mcp.Server{ID: id, URL: s.URL, ConnectTimeout: 10 * time.Second}
}

// pngImage returns an image of one pixel.
func pngImage() []byte {
	var b bytes.Buffer
	_ = png.Encode(&b, image.NewGray(image.Rect(0, 0, 1, 1)))
	return b.Bytes()
}

// actor is a server whose tools follow their arguments.
func actor() *sdk.Server {
	opts := &sdk.ServerOptions{PageSize: 2, SetCacheable: func(_ context.Context, _ sdk.Request, c *sdk.Cacheable) {
		c.TTLMs = 60_000
	}}
	if os.Getenv("ACT_OLD") != "" {
		opts.SupportedProtocolVersions = []string{"2025-11-25", "2025-06-18"}
	}
	s := sdk.NewServer(&sdk.Implementation{Name: "actor", Version: "1"}, opts)
	tool := func(name, output string, f sdk.ToolHandler) {
		t := &sdk.Tool{Name: name, InputSchema: json.RawMessage(`{"type":"object"}`)}
		if output != "" {
			t.OutputSchema = json.RawMessage(output)
		}
		s.AddTool(t, f)
	}
	tool("steps", "", steps)
	tool("pictures", "", pictures)
	tool("whoami", "", func(_ context.Context, req *sdk.CallToolRequest) (*sdk.CallToolResult, error) {
		meta, err := json.Marshal(req.Params.Meta)
		return words(string(meta)), err
	})
	tool("count", `{"type":"object","properties":{"n":{"type":"integer"}},"required":["n"]}`,
		func(_ context.Context, req *sdk.CallToolRequest) (*sdk.CallToolResult, error) {
			var content map[string]any
			err := json.Unmarshal(req.Params.Arguments, &content)
			return &sdk.CallToolResult{StructuredContent: content, Content: words("counted").Content}, err
		})
	tool("question", "", question)
	tool("interrupt", "", interrupt)
	tool("say", "", func(_ context.Context, req *sdk.CallToolRequest) (*sdk.CallToolResult, error) {
		var in struct{ Text, Variable string }
		err := json.Unmarshal(req.Params.Arguments, &in)
		return words(in.Text + os.Getenv(in.Variable)), err
	})
	if own := os.Getenv("ACT_OWN"); own != "" {
		tool(own, "", func(context.Context, *sdk.CallToolRequest) (*sdk.CallToolResult, error) {
			return words("my own"),
				nil
		})
	}
	addReadable(s)
	return s
}

func words(text string) *sdk.CallToolResult {
	return &sdk.CallToolResult{Content: []sdk.Content{&sdk.TextContent{Text: text}}}
}

// steps takes N steps of Each milliseconds, and reports progress after each one.
func steps(ctx context.Context, req *sdk.CallToolRequest) (*sdk.CallToolResult, error) {
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
		err := req.Session.NotifyProgress(ctx, &sdk.ProgressNotificationParams{
			ProgressToken: req.Params.GetProgressToken(), Progress: float64(i + 1), Total: float64(in.N), Message: in.Message,
		})
		if err != nil {
			return nil, err
		}
	}
	return words(fmt.Sprintf("took %d steps", in.N)), nil
}

func pictures(_ context.Context, req *sdk.CallToolRequest) (*sdk.CallToolResult, error) {
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
	r := &sdk.CallToolResult{}
	if in.Text != "" {
		r = words(in.Text)
	}
	for range in.N {
		r.Content = append(r.Content, &sdk.ImageContent{MIMEType: in.Type, Data: data})
	}
	return r, nil
}

// question sends the given elicitations until it has received responses the given number of times, and returns the
// responses.
func question(_ context.Context, req *sdk.CallToolRequest) (*sdk.CallToolResult, error) {
	var in struct {
		Rounds int
		Ask    map[string]*sdk.ElicitParams
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
	asks := sdk.InputRequestMap{}
	for key, p := range in.Ask {
		asks[key] = p
	}
	if in.Model {
		//nolint:staticcheck // servers still ask for what the protocol deprecates
		asks["model"] = &sdk.CreateMessageParams{MaxTokens: 1, Messages: samplingMessages("hi")}
	}
	if in.Roots {
		//nolint:staticcheck // the same
		asks["roots"] = &sdk.ListRootsParams{}
	}
	return &sdk.CallToolResult{InputRequests: asks, RequestState: heard}, nil
}

// interrupt sends an elicitation in the middle of the call, as older protocols do.
func interrupt(ctx context.Context, req *sdk.CallToolRequest) (*sdk.CallToolResult, error) {
	r, err := req.Session.Elicit(ctx, &sdk.ElicitParams{
		Message:         "Which colour?",
		RequestedSchema: json.RawMessage(`{"type":"object","properties":{"colour":{"type":"string"}}}`),
	})
	if err != nil {
		return words("cannot ask: " + err.Error()), nil
	}
	return words(fmt.Sprintf("%s %v", r.Action, r.Content["colour"])), nil
}

func addReadable(s *sdk.Server) {
	for i := range 5 {
		uri := fmt.Sprintf("note://%d", i)
		s.AddResource(&sdk.Resource{URI: uri, Name: fmt.Sprintf("note %d", i), MIMEType: "text/plain",
			Description: "A note\x1b[31m."},
			func(_ context.Context, req *sdk.ReadResourceRequest) (*sdk.ReadResourceResult, error) {
				return &sdk.ReadResourceResult{Contents: []*sdk.ResourceContents{
					{URI: req.Params.URI, Text: "the text of " + req.Params.URI}}}, nil
			})
	}
	s.AddResource(&sdk.Resource{URI: "note://picture", Name: "picture", MIMEType: "image/png"},
		func(_ context.Context, req *sdk.ReadResourceRequest) (*sdk.ReadResourceResult, error) {
			return &sdk.ReadResourceResult{Contents: []*sdk.ResourceContents{
				{URI: req.Params.URI, MIMEType: "image/png", Blob: pngImage()}}}, nil
		})
	s.AddResourceTemplate(&sdk.ResourceTemplate{URITemplate: "file:///{path}", Name: "files"},
		func(context.Context, *sdk.ReadResourceRequest) (*sdk.ReadResourceResult, error) {
			return nil, errors.New("no such file")
		})
	s.AddPrompt(&sdk.Prompt{Name: "greet", Description: "Greets.",
		Arguments: []*sdk.PromptArgument{{Name: "who", Required: true}, {Name: "how"}}},
		func(_ context.Context, req *sdk.GetPromptRequest) (*sdk.GetPromptResult, error) {
			return &sdk.GetPromptResult{Messages: []*sdk.PromptMessage{
				{Role: "user", Content: &sdk.TextContent{Text: "Greet " + req.Params.Arguments["who"] + "."}},
				{Role: "assistant", Content: &sdk.TextContent{Text: "Gladly."}},
			}}, nil
		})
}

//nolint:staticcheck // servers still ask for what the protocol deprecates
func samplingMessages(text string) []*sdk.SamplingMessage {
	//nolint:staticcheck // the same
	return []*sdk.SamplingMessage{{Role: "user", Content: &sdk.TextContent{Text: text}}}
}
