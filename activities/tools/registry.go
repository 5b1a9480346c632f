package tools

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/everturn/everturn/activities/mcp"
	"github.com/everturn/everturn/activities/tools/schema"
	"github.com/everturn/everturn/activities/tools/tool"
	"github.com/everturn/everturn/internal/redact"
	"github.com/everturn/everturn/workflows/turn"
)

// Local is the prefix of the functions' tool IDs, and the ID of their catalogue.
const Local = mcp.LocalID

// Options configures a Registry. Zero values mean the defaults.
type Options struct {
	MaxResultBytes int              // bounds a function's result as the model sees it; the default is 64 KiB
	Secrets        *redact.Redactor // removes secrets from what functions return; nil removes nothing
	Logger         *slog.Logger
}

// Registry holds the tools. Create one with New, add functions with Add, and close it after use. It is safe for
// concurrent use.
type Registry struct {
	opts    Options
	host    *mcp.Host // nil without MCP servers
	schemas schema.Cache
	ctx     context.Context // ends when the registry closes
	end     context.CancelFunc
	once    sync.Once // for Close

	mu        sync.Mutex // guards the fields below; no function is added to running after ctx has ended
	functions map[string]function
	dropped   []string      // see Drop
	changed   chan struct{} // closed when the functions change, and then replaced
	running   sync.WaitGroup
}

// New returns a registry with the tools of the host's servers. Closing the registry closes the host. host may be nil.
func New(opts Options, host *mcp.Host) *Registry {
	if opts.MaxResultBytes <= 0 {
		opts.MaxResultBytes = mcp.DefaultResultBytes
	}
	if opts.Secrets == nil {
		opts.Secrets = redact.New()
	}
	if opts.Logger == nil {
		opts.Logger = slog.New(slog.DiscardHandler)
	}
	r := &Registry{opts: opts, host: host, functions: map[string]function{}, changed: make(chan struct{})}
	r.ctx, r.end = context.WithCancel(context.Background())
	return r
}

// Secrets returns the redactor of the results of functions. A function that returns a part of a text must mask the text
// before it cuts it: a result can have a part of a secret that the redactor does not recognize.
func (r *Registry) Secrets() *redact.Redactor { return r.opts.Secrets }

// Catalogues returns the catalogues of the functions and then of the servers: see mcp.Host.Catalogues.
func (r *Registry) Catalogues(ctx context.Context) []turn.Catalogue {
	return r.CataloguesSoon(ctx, func(string) bool { return false })
}

// CataloguesSoon is like Catalogues, but waits only a short time for the servers that brief selects: see
// mcp.Host.CataloguesSoon.
func (r *Registry) CataloguesSoon(ctx context.Context, brief func(server string) bool) []turn.Catalogue {
	functions, _ := r.catalogue()
	out := []turn.Catalogue{functions}
	if r.host != nil {
		out = append(out, r.host.CataloguesSoon(ctx, brief)...)
	}
	return out
}

// Watch reports each catalogue, and reports it again whenever it changes, until ctx ends or the registry is closed: see
// mcp.Host.Watch. It calls changed from one goroutine at a time.
func (r *Registry) Watch(ctx context.Context, changed func(turn.Catalogue)) {
	var mu sync.Mutex
	report := func(c turn.Catalogue) {
		mu.Lock()
		defer mu.Unlock()
		changed(c)
	}
	var wg sync.WaitGroup
	defer wg.Wait()
	if r.host != nil {
		wg.Go(func() { r.host.Watch(ctx, report) })
	}
	for {
		c, next := r.catalogue()
		report(c)
		select {
		case <-next:
		case <-ctx.Done():
			return
		case <-r.ctx.Done():
			return
		}
	}
}

// catalogue returns the catalogue of the functions, and a channel that is closed when they change.
func (r *Registry) catalogue() (turn.Catalogue, <-chan struct{}) {
	r.mu.Lock()
	defer r.mu.Unlock()
	// Functions are part of this program, so no operator has to approve a change of them.
	c := turn.Catalogue{Server: Local, AllowToolChanges: true, Grace: mcp.DefaultGrace}
	for _, f := range r.functions {
		if !f.removed {
			c.Tools = append(c.Tools, f.descriptor)
		}
	}
	c.Dropped = slices.Clone(r.dropped)
	slices.SortFunc(c.Tools, func(a, b turn.Descriptor) int { return strings.Compare(a.ID, b.ID) })
	c.Hash = tool.Hash(c.Tools)
	return c, r.changed
}

// Drop records that a function is not offered, with the reason and what to do, for operators: see
// turn.Catalogue.Dropped.
func (r *Registry) Drop(reason string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.dropped = append(r.dropped, reason)
}

// Health returns the health of each MCP server.
func (r *Registry) Health() []turn.ServerHealth {
	if r.host == nil {
		return nil
	}
	return r.host.Health()
}

// Check validates arguments against the descriptor's schema. The error's text is meant for the model.
func (r *Registry) Check(d turn.Descriptor, arguments json.RawMessage) error {
	compiled, err := r.schemas.Get(d)
	if err != nil {
		return err
	}
	return compiled.CheckArguments(d.ID, arguments)
}

// Call runs the tool once. A *turn.Error with code tool_not_sent means that nothing reached the tool and the call may
// be attempted again; tool_drift means that the tool no longer matches the turn config. Every other ending is a
// result, whose outcome is unknown if the tool may or may not have run. Cancelling ctx cancels the call.
func (r *Registry) Call(ctx context.Context, req turn.ToolRequest) (turn.ToolResult, error) {
	if _, err := schema.Object(req.Arguments); err != nil {
		return tool.Denied("arguments of " + req.Tool + ": " + err.Error()), nil
	}
	switch name, ok := strings.CutPrefix(req.Tool, Local+"/"); {
	case ok && !strings.Contains(name, "/"): // a function's name has no slash
		return r.callFunction(ctx, req, name)
	case strings.HasPrefix(req.Tool, turn.ClientTools):
		return r.callClient(req)
	case r.host != nil:
		return r.host.Call(ctx, req)
	}
	return turn.ToolResult{}, turn.ToolAbsent(req.Tool)
}

// Go runs f in a goroutine with a context that ends when the registry closes. Close waits for f, up to ten seconds. Go
// returns false, and does not run f, if the registry is closed.
func (r *Registry) Go(f func(ctx context.Context)) bool { return r.start(func() { f(r.ctx) }) }

// closeWithin is how long Close waits for functions that ignore the end of their context.
const closeWithin = 10 * time.Second

// Close cancels the calls in flight, closes the host and waits up to ten seconds for the functions; an error may mean
// that one still runs. It may be called twice.
func (r *Registry) Close() (err error) {
	r.once.Do(func() {
		r.mu.Lock()
		r.end()
		r.mu.Unlock()
		if r.host != nil {
			err = r.host.Close()
		}
		done := make(chan struct{})
		go func() { defer close(done); r.running.Wait() }()
		select {
		case <-done:
		case <-time.After(closeWithin):
			err = errors.Join(err, fmt.Errorf("closing the tools: a function has not ended after %s", closeWithin))
		}
	})
	return err
}
