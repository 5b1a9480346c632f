package mcp

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"

	"github.com/everturn/everturn/activities/mcp/pool"
	"github.com/everturn/everturn/internal/printable"
	"github.com/everturn/everturn/workflows/turn"
)

// connector opens the connections to one server of a Host, and keeps the server's catalogue and the state of its
// processes. Its pool holds the connections. All sessions share the server's configuration and credentials; each
// session belongs to one tenant.
type connector struct {
	describer    describer
	dialer       dialer
	redact       redactor
	opts         Options
	log          *slog.Logger
	ctx          context.Context // ends when the host closes
	running      *tasks          // the host's goroutines, which its Close waits for
	pool         *pool.Pool
	serverPlaces chan struct{}          // one element for each call of this server that occupies the worker
	workerPlaces chan struct{}          // the host's, shared by all servers
	processes    *processes             // nil: this worker does not run the server
	events       chan struct{}          // wakes the watcher; capacity 1
	version      atomic.Pointer[string] // the protocol version of the last handshake that succeeded; nil: none

	mu     sync.Mutex
	known  *turn.Catalogue // the catalogue that the default tenant's connection listed last
	stderr string          // the end of the last process's stderr
}

func (c *connector) id() string { return c.describer.server.ID }

// name returns the server's name for messages.
func (c *connector) name() string { return fmt.Sprintf("MCP server %q", c.id()) }

// openPool creates the pool of the server's connections.
func (c *connector) openPool() {
	s := c.describer.server
	c.pool = pool.New(c.ctx, pool.Options{
		Name: c.name(), Dial: c.dial, Go: c.running.start, Changed: c.notifyWatcher, Log: c.log.With("server", c.id()),
		ConnectTimeout: s.ConnectTimeout, IdleTimeout: s.IdleTimeout, MaxCalls: s.MaxConcurrent,
		BackoffMin: c.opts.BackoffMin, BackoffMax: c.opts.BackoffMax,
	})
}

// dial opens a session for a connection of the pool. It implements pool.Options.Dial.
func (c *connector) dial(ctx context.Context, conn *pool.Conn) (pool.Link, *pool.Failure) {
	s, err := c.open(ctx, conn)
	if err == nil {
		return s, nil
	}
	f := &pool.Failure{Problem: err.Error(), ModelText: modelText(err)}
	if e := (*Excess)(nil); errors.As(err, &e) {
		f.Excess = e
	}
	return nil, f
}

// sessionFor returns the session for a call, connecting if necessary, and adds a user to it. The calls of a tenant
// share one session; with a stateful server (SessionAffinity), each turn has its own, and calls of no turn share one.
// If the call depends on state that the server keeps (req.Resume), sessionFor returns only the session that has this
// state. If that session has ended, it returns tool_state_lost, because a new session would lose the state silently.
func (c *connector) sessionFor(ctx context.Context, req turn.ToolRequest) (*session, error) {
	if !c.describer.server.SessionAffinity || req.Turn == "" {
		return c.acquire(ctx, req.Tenant, "")
	}
	if !req.Resume {
		s, err := c.acquire(ctx, req.Tenant, req.Turn)
		if err == nil {
			s.conn.Found(req.CallID)
		}
		return s, err
	}
	if conn := c.pool.Resume(pool.Key{Tenant: req.Tenant, Turn: req.Turn}, req.OwningCall); conn != nil {
		return conn.Link().(*session), nil
	}
	return nil, turn.NewError(turn.CodeToolStateLost, nil,
		fmt.Sprintf("server state lost: the connection that held what %s "+
			"remembered of this turn has ended. %s was not called. Begin again with that server if its state is needed",
			c.name(), req.Tool))
}

// acquire returns the tenant's shared session, or the turn's own if turnID is not empty, and adds a user to it. It
// connects if there is none. The caller must call leave.
func (c *connector) acquire(ctx context.Context, tenant, turnID string) (*session, error) {
	conn, err := c.pool.Acquire(ctx, pool.Key{Tenant: tenant, Turn: turnID})
	if err != nil {
		return nil, err
	}
	return conn.Link().(*session), nil
}

// open opens a session: it dials and performs the handshake, in each of the versions to try until one succeeds. It
// tries the next version only if the server rejected the last one with a JSON-RPC error, or, over HTTP, did not
// respond.
func (c *connector) open(ctx context.Context, conn *pool.Conn) (*session, error) {
	var last error
	var versions []string // chosen once: another tenant's connect may change what is worth trying
	for i := 0; ; i++ {
		l, err := c.dialer.dial(ctx, conn.Tenant)
		if err != nil {
			return nil, &pool.Outage{Problem: c.redact.text(err.Error()), ModelText: safeErrorText(err)}
		}
		if i == 0 {
			versions = c.versionsToTry(l)
		}
		limited, cancel := ctx, context.CancelFunc(func() {})
		if i+1 < len(versions) && !l.disposable { // over HTTP, leave time for the next version
			limited, cancel = context.WithTimeout(ctx, c.describer.server.ConnectTimeout/3)
		}
		s, err := c.handshake(limited, conn, l, versions[i])
		timedOut := limited.Err() != nil && ctx.Err() == nil
		cancel()
		if err == nil {
			return c.upgrade(ctx, s, versions[i])
		}
		last = c.handshakeError(ctx, l, err)
		var refusal *jsonrpc.Error
		tryNext := i+1 < len(versions) && (timedOut || errors.As(err, &refusal))
		if !tryNext {
			c.version.Store(nil) // the server may have been replaced by one with another version
			return nil, last
		}
	}
}

// versionsToTry returns the protocol versions for a handshake on the link, in order: only the version of the last
// handshake that succeeded, or the link's versions if none has.
func (c *connector) versionsToTry(l *link) []string {
	if known := c.version.Load(); known != nil {
		return []string{*known}
	}
	return l.versions
}

// handshakeError returns the error to report for a handshake that failed with err: an *Outage, or, if the meter has
// dropped the connection, an error that wraps its *Excess. For operators it adds the address, the exit status and the
// end of the server's stderr, which it also keeps for Health; the text for models contains only the host's own words.
func (c *connector) handshakeError(ctx context.Context, l *link, err error) error {
	problem, forModel := c.clean(err.Error(), 400), safeErrorText(err)
	server := c.describer.server
	if ctx.Err() != nil {
		problem = fmt.Sprintf("it did not finish its handshake within %s (timeouts.connect)", server.ConnectTimeout)
		forModel = problem
		if server.URL == "" {
			problem += "; if it is still downloading, install it first or raise that"
		}
	}
	if address := printable.Address(server.URL); address != "" && !strings.Contains(problem, address) {
		problem = address + ": " + problem
	}
	if fate := l.fate(); fate != "" {
		problem += "; its process ended with " + fate
		forModel = "its process ended with " + fate
	}
	c.keepStderr(l)
	if e := l.meter.excess(); e != nil {
		return fmt.Errorf("%w%s", e, c.stderrNote(l))
	}
	return &pool.Outage{Problem: c.redact.text(problem) + c.stderrNote(l), ModelText: forModel}
}

// stderrNote returns the end of the server's stderr as the last clause of a message for operators; empty if there is
// none.
func (c *connector) stderrNote(l *link) string {
	tail := c.stderrTail(l)
	if tail == "" {
		return ""
	}
	return "; its stderr ends with:\n" + tail
}

// stderrTail returns the last 1 KiB of the stderr that the link has kept. It redacts the text before it cuts it, so
// that no part of a secret remains.
func (c *connector) stderrTail(l *link) string {
	kept := l.tail()
	tail := printable.Sanitize(kept)
	if len(kept) >= c.opts.StderrTailBytes { // the buffer is full, so it may begin in the middle of a secret
		tail = c.redact.tail(tail)
	}
	tail = c.redact.text(tail)
	if len(tail) > 1024 {
		tail = "…" + tail[printable.Start(tail, len(tail)-1024):]
	}
	return tail
}

// setCatalogue records the catalogue that a tenant's connection has just listed, and wakes the watcher if it differs
// from the known one. There is one catalogue for all tenants, listed by the default tenant's connection (tenant ""). If
// another tenant's connection lists a different catalogue, the watcher only looks at the default tenant's connection
// again, which it reopens if it had ended as idle.
func (c *connector) setCatalogue(tenant string, offered turn.Catalogue) {
	c.mu.Lock()
	before := c.known
	changed := before == nil || before.Hash != offered.Hash
	if changed && tenant == "" {
		c.known = &offered
	}
	c.mu.Unlock()
	if !changed {
		return
	}
	misnamed := offered.Misnamed
	alreadyLogged := before != nil && slices.Equal(misnamed, before.Misnamed)
	if tenant == "" && len(misnamed) > 0 && !alreadyLogged {
		c.log.Warn("agent.toml names tools that the server does not offer", "server", c.id(), "tools", misnamed)
	}
	if tenant != "" {
		c.pool.Wake()
	}
	c.notifyWatcher()
}

// notifyWatcher wakes the watcher (follow). It does not block: one signal that is already waiting is enough.
func (c *connector) notifyWatcher() {
	select {
	case c.events <- struct{}{}:
	default:
	}
}

// catalogue returns the catalogue of the tools that the server offers now, connecting if necessary. If the server
// cannot be listed, the catalogue has no tools, and its Problem gives the reason.
func (c *connector) catalogue(ctx context.Context) turn.Catalogue {
	s, err := c.acquire(ctx, "", "")
	if err == nil {
		defer s.leave()
		var o offer
		if o, err = s.offer(ctx, false); err == nil {
			return o.catalogue
		}
	}
	out := c.describer.emptyCatalogue()
	out.Problem = err.Error()
	return out
}
