package toolbox

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"runtime/debug"
	"strings"
	"sync"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/everturn/everturn/internal/printable"
	"github.com/everturn/everturn/workflows/turn"
)

// maxLocalBytes bounds a local tool's result before it is passed on: 16 MiB.
const maxLocalBytes = 16 << 20

// localTimeout bounds a call to a local tool if neither the request nor the tool sets a timeout.
const localTimeout = time.Minute

// localTools is what messages call the local tools.
const localTools = "the local tools"

// localHost runs a host's Local tools: it calls their functions directly, in the caller's context.
type localHost struct {
	local     *Local
	describer describer
	opts      Options
	ctx       context.Context // ends when the host closes
	running   *tasks          // the host's goroutines

	mu      sync.Mutex
	offered offer           // what the tools were when they were last described
	changed <-chan struct{} // closed when offered is out of date; nil: nothing was described yet
}

func newLocalHost(ctx context.Context, l *Local, opts Options, running *tasks) *localHost {
	server := Server{ID: localID}
	d := describer{prefix: localID, server: server, redact: newRedactor(server, nil, opts.Secrets)}
	return &localHost{local: l, describer: d, opts: opts, ctx: ctx, running: running}
}

// offer describes the tools, if any were added since the last time.
func (l *localHost) offer() (offer, <-chan struct{}) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.changed != nil {
		select {
		case <-l.changed:
		default:
			return l.offered, l.changed
		}
	}
	tools, settings, changed := l.local.list()
	d := l.describer
	d.settings = settings
	l.offered, _ = d.offer(context.Background(), tools) // the only error is the context's
	l.changed = changed
	return l.offered, l.changed
}

// follow reports the catalogue, and reports it again when tools were added, until ctx or the host ends.
func (l *localHost) follow(ctx context.Context, report func(turn.Catalogue)) {
	for {
		o, changed := l.offer()
		report(o.catalogue)
		select {
		case <-changed:
		case <-ctx.Done():
		case <-l.ctx.Done():
		}
		if !pause(ctx, l.ctx, lookPause) { // more tools may be added together with this one
			return
		}
	}
}

// call runs the tool in a goroutine and waits for it, for the call's timeout at most. A tool that ignores the end of
// its context continues in the background; the host waits for it when it closes.
func (l *localHost) call(ctx context.Context, req turn.ToolRequest) (turn.ToolResult, error) {
	o, _ := l.offer()
	d, err := o.find(req, localTools)
	if err != nil {
		return turn.ToolResult{}, err
	}
	began := time.Now()
	ctx = context.WithValue(ctx, toolRequestKey{}, req)
	ctx, cancel := context.WithTimeout(ctx, firstOf(req.Timeout, d.Timeout, localTimeout))
	defer cancel()
	defer context.AfterFunc(l.ctx, cancel)()
	if ctx.Err() != nil {
		return turn.ToolResult{}, notSentError(localTools, ctx.Err())
	}
	tool, _ := l.local.find(strings.TrimPrefix(req.Tool, localID+"/")) // tools are never removed
	done := make(chan turn.ToolResult, 1)
	if !l.running.start(func() { done <- l.run(ctx, req, tool) }) {
		return turn.ToolResult{}, notCalledError(req.Tool, errHostClosed)
	}
	var r turn.ToolResult
	select {
	case r = <-done:
	case <-ctx.Done():
		select {
		case r = <-done: // both were ready, and a result takes precedence over a deadline
		default:
			r = unansweredResult(ctx, req)
		}
	}
	r.Duration = time.Since(began)
	return r, nil
}

// firstOf returns the first timeout that is set.
func firstOf(timeouts ...time.Duration) time.Duration {
	for _, t := range timeouts {
		if t > 0 {
			return t
		}
	}
	return 0
}

// unansweredResult returns the result of a call whose function had no result when its context ended.
func unansweredResult(ctx context.Context, req turn.ToolRequest) turn.ToolResult {
	e, why := ending{stage: stageSent, by: endedByCancel}, "the call was cancelled before it answered"
	e.repeatable = req.Repeatable
	if timeIsUp(ctx) {
		e.by, why = endedByDeadline, "it did not answer in time"
	}
	class, again := e.class()
	return unknownResult(req.Tool, class, again, why)
}

// run calls the tool's function and renders its result. An error and a panic become error results. A function that
// returns the error of its context gave up, and may have acted before.
func (l *localHost) run(ctx context.Context, req turn.ToolRequest, tool localTool) turn.ToolResult {
	text, err := l.recovered(ctx, req, tool)
	if ctx.Err() != nil && errors.Is(err, ctx.Err()) {
		return unansweredResult(ctx, req)
	}
	size := int64(len(text))
	if err != nil {
		text, size = err.Error(), 0
	}
	content := []mcp.Content{&mcp.TextContent{Text: printable.Head(text, maxLocalBytes)}}
	bounds := limits{shown: l.opts.MaxResultBytes, full: l.opts.MaxFullBytes, redact: l.describer.redact}
	r := renderContent(&mcp.CallToolResult{Content: content, IsError: err != nil}, "", bounds)
	r.SizeBytes = max(r.SizeBytes, size)
	return r
}

// recovered returns the text of the function's result. It logs a panic of the function and turns it into an error.
func (l *localHost) recovered(ctx context.Context, req turn.ToolRequest, tool localTool) (text string, err error) {
	name := tool.declared.Name
	defer func() {
		if p := recover(); p != nil {
			l.opts.Logger.Error("a local tool panicked",
				"tool", req.Tool, "turn", req.Turn, "call", req.CallID, "stack", string(debug.Stack()))
			err = fmt.Errorf("the tool %s has a bug and panicked: %v", name, p)
		}
	}()
	out, err := tool.run(ctx, req.Arguments)
	if err != nil {
		return "", err
	}
	if s, ok := out.(string); ok {
		return s, nil
	}
	b, err := json.Marshal(out)
	if err != nil {
		return "", fmt.Errorf("writing the result of %s as JSON: %w", name, err)
	}
	return string(b), nil
}
