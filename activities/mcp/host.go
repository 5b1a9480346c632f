package mcp

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"time"

	"github.com/everturn/everturn/activities/mcp/childproc"
	"github.com/everturn/everturn/workflows/turn"
)

// Host runs tools of MCP servers. It is safe for concurrent use. Create one with New and Close it after use.
type Host struct {
	opts       Options
	connectors map[string]*connector // by server ID
	order      []string              // the server IDs, as configured
	spawner    *childproc.Spawner
	total      *totals
	places     chan struct{}      // one element for each call that occupies the worker
	cancel     context.CancelFunc // ends the context of all connectors
	running    tasks
	once       sync.Once // runs Close
	closeErr   error
}

// New checks the options and returns a Host that has not connected to any server yet. If servers are child processes,
// it first kills those that a killed worker left running.
func New(opts Options) (*Host, error) {
	opts = opts.withDefaults()
	ctx, cancel := context.WithCancel(context.Background())
	h := &Host{
		opts: opts, connectors: map[string]*connector{}, cancel: cancel, total: newTotals(),
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
	// The spawner holds an operating-system thread, so it starts only when all options have been accepted.
	h.spawner = childproc.NewSpawner()
	children := false
	for _, c := range h.connectors {
		if d, ok := c.dialer.(*stdioDialer); ok {
			d.spawner, children = h.spawner, true
		}
	}
	if children {
		h.reapOrphans()
	}
	return h, nil
}

// reapOrphans kills the server processes that a killed worker left running, and logs their number.
func (h *Host) reapOrphans() {
	if n := childproc.ReapOrphans(); n > 0 {
		h.opts.Logger.Warn("ended processes of MCP servers whose worker is gone", "processes", n)
	}
}

// addConnector adds a server's connector, whose dialer and describer are set, to the host. The connector ends with ctx.
func (h *Host) addConnector(ctx context.Context, c *connector) {
	c.opts, c.ctx, c.running, c.events = h.opts, ctx, &h.running, make(chan struct{}, 1)
	c.log = slog.New(c.redact.own.Handler(h.opts.Logger.Handler()))
	// One server may use two thirds of the worker's calls, so that it cannot block the other servers.
	c.serverPlaces, c.workerPlaces = make(chan struct{}, max(h.opts.MaxCalls*2/3, 1)), h.places
	c.openPool()
	id := c.id()
	h.connectors[id] = c
	h.order = append(h.order, id)
}

// addServer checks a server's configuration and adds a connector for it. It does not connect to the server.
func (h *Host) addServer(ctx context.Context, s Server) error {
	callTimeout := s.CallTimeout // before defaults: descriptors contain only what the operator set
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
	h.addConnector(ctx, c)
	return nil
}

// addProcess sets the dialer and the redactor of a server that runs as a child process. It starts no process.
func (h *Host) addProcess(c *connector, s Server) error {
	runAs, err := accountOf(s)
	if err != nil {
		return err
	}
	env, inherited, err := childEnv(s, runAs, h.opts.Environ)
	if err != nil {
		return err
	}
	searchPath, _ := h.opts.Environ("PATH")
	if own, ok := s.Env["PATH"]; ok { // the server's own PATH also finds its command
		searchPath = own
	}
	c.processes = &processes{server: s.ID, log: h.opts.Logger, notify: h.opts.OnProcess}
	c.dialer = &stdioDialer{
		server: s, searchPath: searchPath, env: env, runAs: runAs, opts: h.opts, total: h.total, processes: c.processes,
	}
	c.redact = newRedactor(s, inherited, h.opts.Secrets)
	return nil
}

// addRemote sets the dialer and the redactor of a server that has a URL.
func (h *Host) addRemote(c *connector, s Server) error {
	guard, err := newGuard(s)
	if err != nil {
		return err
	}
	c.redact = newRedactor(s, nil, h.opts.Secrets)
	c.dialer, err = newHTTPDialer(s, guard, h.opts, h.total, c.redact)
	return err
}

// Catalogues connects to all servers concurrently and returns their catalogues in configured order. If a server cannot
// be listed, its catalogue has a Problem instead of tools. The wait is bounded by each server's ConnectTimeout, and by
// ctx.
func (h *Host) Catalogues(ctx context.Context) []turn.Catalogue {
	return h.CataloguesSoon(ctx, func(string) bool { return false })
}

// briefWait is the longest wait of CataloguesSoon for a server for which brief returns true.
const briefWait = 2 * time.Second

// CataloguesSoon is like Catalogues, but waits at most 2 s for each server for which brief returns true. The catalogue
// of a server that has not answered by then has a Problem; Watch reports its tools later.
func (h *Host) CataloguesSoon(ctx context.Context, brief func(server string) bool) []turn.Catalogue {
	out := make([]turn.Catalogue, len(h.order))
	var wg sync.WaitGroup
	for i, id := range h.order {
		wg.Go(func() {
			own, cancel := ctx, func() {}
			if brief(id) {
				own, cancel = context.WithTimeout(ctx, briefWait)
			}
			defer cancel()
			out[i] = h.connectors[id].catalogue(own)
		})
	}
	wg.Wait()
	return out
}

// Watch follows the catalogues of all servers until ctx ends or the host closes. It calls changed with the first
// catalogue of each server, and again whenever the server's tools have changed, or the server has become unavailable or
// available. Meanwhile it reconnects to servers that failed, with the pauses of Options. It calls changed from one
// goroutine at a time.
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

// Call runs the tool at most once. It returns a *turn.Error with code tool_not_sent if nothing reached the tool, so
// that the call may be attempted again, with tool_drift if the tool no longer matches the turn config, or with
// tool_state_lost if the state that the server kept for the turn is lost. In all other cases it returns a result; its
// outcome is unknown if the tool may or may not have run. Cancelling ctx cancels the call. The caller has validated the
// arguments.
func (h *Host) Call(ctx context.Context, req turn.ToolRequest) (turn.ToolResult, error) {
	c := h.route(req.Tool)
	if c == nil {
		return turn.ToolResult{}, turn.ToolAbsent(req.Tool)
	}
	k, result := resume(req)
	if result != nil { // resume has decided the call without the server
		return *result, nil
	}
	return (&attempt{connector: c, req: req, continuation: k}).run(ctx)
}

// route returns the connector of the server in a tool ID (mcp/<server>/<tool>), or nil if the host has no such server.
func (h *Host) route(id string) *connector {
	parts := strings.SplitN(id, "/", 3)
	if len(parts) < 3 || parts[0] != "mcp" {
		return nil
	}
	return h.connectors[parts[1]]
}

// Close cancels the calls in flight, ends every session and process and waits up to ten seconds for all of them. It
// fails if that is not enough; the processes that remain then end without a grace period. It may be called twice.
func (h *Host) Close() error {
	h.once.Do(func() {
		h.cancel()
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
