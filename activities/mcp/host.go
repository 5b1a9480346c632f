package mcp

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/everturn/everturn/activities/mcp/childproc"
	"github.com/everturn/everturn/workflows/turn"
)

// Host runs tools. It is safe for concurrent use. Create one with New and Close it after use.
type Host struct {
	opts       Options
	connectors map[string]*connector
	order      []string
	spawner    *childproc.Spawner
	total      *totals
	places     chan struct{} // one element for each call that occupies the worker
	end        context.CancelFunc
	running    tasks
	suspended  suspendedCalls
	once       sync.Once
	closeErr   error
}

// New checks the options and returns a Host that has not connected to any server yet.
func New(opts Options) (*Host, error) {
	opts = opts.withDefaults()
	ctx, cancel := context.WithCancel(context.Background())
	h := &Host{
		opts: opts, connectors: map[string]*connector{}, end: cancel, total: newTotals(),
		places: make(chan struct{}, opts.MaxCalls),
	}
	var errs []error
	for _, s := range opts.Servers {
		errs = append(errs, h.addServer(ctx, s))
	}
	if err := errors.Join(errs...); err != nil {
		cancel()
		return nil, err
	}
	h.spawner = childproc.NewSpawner()
	children := false
	for _, c := range h.connectors {
		if d, ok := c.dialer.(*stdioDialer); ok {
			d.spawner, children = h.spawner, true
		}
	}
	if children {
		h.reap()
	}
	return h, nil
}

// reap kills what the servers of a killed worker have left running.
func (h *Host) reap() {
	if n := childproc.ReapOrphans(); n > 0 {
		h.opts.Logger.Warn("ended processes of MCP servers whose worker is gone", "processes", n)
	}
}

func (h *Host) add(ctx context.Context, c *connector) {
	c.opts, c.log, c.ctx, c.running, c.events = h.opts, h.opts.Logger, ctx, &h.running, make(chan struct{}, 1)
	c.serverPlaces, c.workerPlaces = make(chan struct{}, max(h.opts.MaxCalls*2/3, 1)), h.places
	c.openPool()
	id := c.id()
	h.connectors[id] = c
	h.order = append(h.order, id)
}

func (h *Host) addServer(ctx context.Context, s Server) error {
	callTimeout := s.CallTimeout
	s, err := s.withDefaults()
	if err != nil {
		return err
	}
	if _, ok := h.connectors[s.ID]; ok {
		return fmt.Errorf("MCP server ID %q is used twice: give each server its own", s.ID)
	}
	c := &connector{describer: describer{prefix: "mcp/" + s.ID, server: s, settings: s.Tools, callTimeout: callTimeout}}
	if s.Transport == TransportStdio {
		err = h.addProcess(c, s)
	} else {
		err = h.addRemote(c, s)
	}
	if err != nil {
		return err
	}
	h.add(ctx, c)
	return nil
}

// addProcess prepares a server that is a child process.
func (h *Host) addProcess(c *connector, s Server) error {
	as, err := accountOf(s)
	if err != nil {
		return err
	}
	env, passed, err := childEnv(s, as, h.opts.Environ)
	if err != nil {
		return err
	}
	searchPath, _ := h.opts.Environ("PATH")
	if own, ok := s.Env["PATH"]; ok {
		searchPath = own
	}
	c.processes = &processes{server: s.ID, log: h.opts.Logger}
	c.dialer = &stdioDialer{server: s, path: searchPath, env: env, as: as, opts: h.opts, total: h.total, seen: c.processes}
	c.redact = newRedactor(s, passed, h.opts.Secrets)
	return nil
}

// addRemote prepares a server that has a URL.
func (h *Host) addRemote(c *connector, s Server) error {
	guard, err := newGuard(s)
	if err != nil {
		return err
	}
	c.redact = newRedactor(s, nil, h.opts.Secrets)
	c.dialer, err = newHTTPDialer(s, guard, h.opts, h.total, c.redact)
	return err
}

// Catalogues connects to every server at once and returns their catalogues in configured order. If a server cannot be
// listed, its catalogue has a Problem instead of tools. The wait is bounded by each server's ConnectTimeout, and by
// ctx.
func (h *Host) Catalogues(ctx context.Context) []turn.Catalogue {
	return h.CataloguesSoon(ctx, func(string) bool { return false })
}

// soon is the longest wait of CataloguesSoon for the servers that brief selects.
const soon = 2 * time.Second

// CataloguesSoon is like Catalogues, but waits at most 2 s for the servers that brief selects. A server that has not
// answered by then has a Problem; Watch reports its catalogue later.
func (h *Host) CataloguesSoon(ctx context.Context, brief func(server string) bool) []turn.Catalogue {
	out := make([]turn.Catalogue, len(h.order))
	var wg sync.WaitGroup
	for i, id := range h.order {
		wg.Go(func() {
			own, cancel := ctx, func() {}
			if brief(id) {
				own, cancel = context.WithTimeout(ctx, soon)
			}
			defer cancel()
			out[i] = h.connectors[id].catalogue(own)
		})
	}
	wg.Wait()
	return out
}

// Watch keeps every server connected until ctx ends, pausing between attempts as the options say, and reports each
// catalogue that differs from the one before: first all of them, then those of servers whose tools changed, that were
// lost or that recovered. It calls changed from one goroutine at a time.
func (h *Host) Watch(ctx context.Context, changed func(turn.Catalogue)) {
	var wg sync.WaitGroup
	var mu sync.Mutex
	report := func(c turn.Catalogue) {
		mu.Lock()
		defer mu.Unlock()
		changed(c)
	}
	for _, id := range h.order {
		wg.Go(func() { h.connectors[id].follow(ctx, report) })
	}
	wg.Wait()
}

// Call runs the tool once. A *turn.Error with code tool_not_sent means that nothing reached the tool and the call may
// be attempted again; tool_drift means that the tool no longer matches the turn config. Every other ending is a
// result, whose outcome is unknown if the tool may or may not have run. Cancelling ctx cancels the call. The caller has
// validated the arguments.
func (h *Host) Call(ctx context.Context, req turn.ToolRequest) (turn.ToolResult, error) {
	c := h.route(req.Tool)
	if c == nil {
		return turn.ToolResult{}, turn.ToolAbsent(req.Tool)
	}
	k, result := h.resume(req)
	switch {
	case result != nil:
		return *result, nil
	case k.Suspended != "", req.MaySuspend && c.describer.server.ElicitationTimeout > 0:
		return h.callSuspendable(ctx, c, req, k)
	}
	return (&attempt{c: c, req: req, continuation: k}).run(ctx)
}

// route returns the connector of a tool ID, or nil.
func (h *Host) route(id string) *connector {
	parts := strings.SplitN(id, "/", 3)
	if len(parts) < 3 || parts[0] != "mcp" {
		return nil
	}
	return h.connectors[parts[1]]
}

// Close cancels the calls in flight, ends every session and process and waits up to ten seconds for all of them. It may
// be called twice.
func (h *Host) Close() error {
	h.once.Do(func() {
		h.end()
		for _, c := range h.connectors {
			c.pool.Close()
		}
		if !within(10*time.Second, h.running.close) {
			h.closeErr = errors.New("closing the MCP host: a server has not ended after 10 s")
		}
		h.spawner.Close()
	})
	return h.closeErr
}
