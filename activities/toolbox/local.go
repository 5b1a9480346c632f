package toolbox

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"runtime/debug"
	"strconv"
	"sync"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/everturn/everturn/internal/plain"
	"github.com/everturn/everturn/workflows/turn"
)

// maxLocalBytes bounds a local tool's result before it is passed on: 16 MiB.
const maxLocalBytes = 16 << 20

// metaCall is the metadata key by which the local server finds the call that a request belongs to.
const metaCall = "everturn/call"

// Local holds the tools that this program implements itself: typed Go functions behind an in-memory MCP server. Add
// tools with AddTool, then pass it to New. It is safe for concurrent use.
type Local struct {
	server *mcp.Server

	mu    sync.Mutex
	tools map[string]ToolSettings
	calls map[string]*localCall
	next  int64
}

// localCall is a call in flight to a local tool.
type localCall struct {
	ctx  context.Context // the caller's
	req  turn.ToolRequest
	size int64  // of the result before it was bounded, in bytes
	bug  string // stack of a panic
}

// NewLocal returns a Local without tools.
func NewLocal() *Local {
	impl := &mcp.Implementation{Name: "everturn-local", Version: "1"}
	return &Local{
		server: mcp.NewServer(impl, &mcp.ServerOptions{
			Capabilities: &mcp.ServerCapabilities{Tools: &mcp.ToolCapabilities{ListChanged: true}},
		}),
		tools: map[string]ToolSettings{}, calls: map[string]*localCall{},
	}
}

// ToolOption declares a property of a local tool that its types do not show.
type ToolOption func(*ToolSettings)

// Repeatable declares that running the tool again does no harm.
func Repeatable() ToolOption { return func(s *ToolSettings) { s.Repeatable = true } }

// LocalActivity declares that the tool is repeatable and answers within turn.LocalActivityCap: its calls run as local
// activities.
func LocalActivity() ToolOption {
	return func(s *ToolSettings) { s.Repeatable, s.LocalActivity = true, true }
}

// Risk declares how much harm the tool can do. The default is medium, or high if its name or the names of its arguments
// suggest so (see harmWords).
func Risk(r turn.Risk) ToolOption { return func(s *ToolSettings) { s.Risk = r } }

// Timeout bounds one call.
func Timeout(d time.Duration) ToolOption { return func(s *ToolSettings) { s.Timeout = d } }

var localName = regexp.MustCompile(`^[a-zA-Z0-9_.-]{1,128}$`)

// AddTool adds the tool local/<name>. Its schema is derived from In, a struct whose jsonschema tags describe the
// properties (as in the MCP SDK's AddTool); arguments are validated before fn sees them. The model sees a string result
// as it is, and any other result as JSON. An error from fn, or a panic, becomes an error result with its text. Names
// consist of letters, digits, underscores, dots and dashes, and are unique.
func AddTool[In, Out any](l *Local, name, description string, fn func(ctx context.Context, in In) (Out, error), opts ...ToolOption) error {
	var settings ToolSettings
	for _, opt := range opts {
		opt(&settings)
	}
	if err := l.reserve(name, settings); err != nil {
		return err
	}
	handler := func(ctx context.Context, req *mcp.CallToolRequest, in In) (*mcp.CallToolResult, any, error) {
		return l.run(ctx, req, name, func(ctx context.Context) (any, error) { return fn(ctx, in) })
	}
	err := guarded(func() { mcp.AddTool(l.server, &mcp.Tool{Name: name, Description: description}, handler) })
	if err != nil {
		l.mu.Lock()
		delete(l.tools, name)
		l.mu.Unlock()
		return fmt.Errorf("adding tool %s: %w", name, err)
	}
	return nil
}

// guarded turns a panic of the SDK's registration into an error.
func guarded(f func()) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("%v", p)
		}
	}()
	f()
	return nil
}

func (l *Local) reserve(name string, s ToolSettings) error {
	if !localName.MatchString(name) {
		return fmt.Errorf("adding tool %q: a name is up to 128 letters, digits, underscores, dots and dashes", name)
	}
	switch s.Risk {
	case "", turn.RiskLow, turn.RiskMedium, turn.RiskHigh:
	default:
		return fmt.Errorf("adding tool %s: risk %q is not known", name, s.Risk)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if _, ok := l.tools[name]; ok {
		return fmt.Errorf("adding tool %s: there is one of that name already", name)
	}
	l.tools[name] = s
	return nil
}

// settings returns the settings that the tools were added with.
func (l *Local) settings() map[string]ToolSettings {
	l.mu.Lock()
	defer l.mu.Unlock()
	out := make(map[string]ToolSettings, len(l.tools))
	for name, s := range l.tools {
		out[name] = s
	}
	return out
}

// open registers a call, adds its token to the metadata, and returns the call and a function that unregisters it.
func (l *Local) open(ctx context.Context, req turn.ToolRequest, meta mcp.Meta) (*localCall, func()) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.next++
	token := strconv.FormatInt(l.next, 10)
	call := &localCall{ctx: ctx, req: req}
	l.calls[token] = call
	meta[metaCall] = token
	return call, func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		delete(l.calls, token)
	}
}

func (l *Local) find(req *mcp.CallToolRequest) *localCall {
	token, _ := req.Params.Meta[metaCall].(string)
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.calls[token]
}

type toolRequestKey struct{}

// CallInfo returns the request that a local tool runs for, from the tool's context.
func CallInfo(ctx context.Context) (turn.ToolRequest, bool) {
	req, ok := ctx.Value(toolRequestKey{}).(turn.ToolRequest)
	return req, ok
}

// errAbandoned is the error of a call that ended before its tool began.
var errAbandoned = errors.New("the call was given up before the tool began")

// run calls the tool's function in the caller's context, with its deadline, values and cancellation. The server's own
// context only adds the end of the session.
func (l *Local) run(served context.Context, req *mcp.CallToolRequest, name string, fn func(context.Context) (any, error)) (*mcp.CallToolResult, any, error) {
	call := l.find(req)
	if call == nil || call.ctx.Err() != nil {
		return nil, nil, errAbandoned
	}
	ctx, cancel := context.WithCancel(context.WithValue(call.ctx, toolRequestKey{}, call.req))
	defer cancel()
	defer context.AfterFunc(served, cancel)()
	out, err := l.shielded(ctx, call, name, fn)
	if err != nil {
		return nil, nil, err
	}
	text, err := resultText(out)
	if err != nil {
		return nil, nil, fmt.Errorf("writing the result of %s as JSON: %w", name, err)
	}
	l.mu.Lock()
	call.size = int64(len(text))
	l.mu.Unlock()
	text = plain.Head(text, maxLocalBytes)
	return &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: text}}}, nil, nil
}

// shielded turns a panic of the tool into an error and keeps the stack for the log.
func (l *Local) shielded(ctx context.Context, call *localCall, name string, fn func(context.Context) (any, error)) (out any, err error) {
	defer func() {
		if p := recover(); p != nil {
			l.mu.Lock()
			call.bug = string(debug.Stack())
			l.mu.Unlock()
			err = fmt.Errorf("the tool %s has a bug and panicked: %v", name, p)
		}
	}()
	return fn(ctx)
}

// after returns the size and the panic stack of a call that has ended.
func (l *Local) after(call *localCall) (size int64, bug string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return call.size, call.bug
}

func resultText(out any) (string, error) {
	if s, ok := out.(string); ok {
		return s, nil
	}
	b, err := json.Marshal(out)
	return string(b), err
}
