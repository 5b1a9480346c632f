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

// connector opens the connections to one server, which its pool holds, and keeps what the worker knows of the server. A
// connector belongs to one server of one Host, so all of its sessions share one configuration and its credentials; each
// session belongs to one tenant.
type connector struct {
	describer    describer
	dialer       dialer
	redact       redactor
	opts         Options
	log          *slog.Logger
	ctx          context.Context // ends when the host closes
	running      *tasks          // the host's goroutines
	pool         *pool.Pool
	serverPlaces chan struct{}          // one element for each call of this server that occupies the worker
	workerPlaces chan struct{}          // the host's, shared by all servers
	processes    *processes             // nil: this worker does not run the server
	events       chan struct{}          // signals a change; capacity 1
	version      atomic.Pointer[string] // of the last handshake that succeeded

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

// dial opens a session for a connection of the pool.
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

// connection returns the session for a call, with one more user. The session belongs to the call's tenant; with a
// stateful server it belongs to the turn. A turn that resumes with a stateful server gets the very session that it used
// before, or tool_state_lost: a new session would have lost the turn's state silently.
func (c *connector) connection(ctx context.Context, req turn.ToolRequest) (*session, error) {
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
	return nil, turn.Errorf(turn.CodeToolStateLost, nil,
		fmt.Sprintf("server state lost: the connection that held what %s "+
			"remembered of this turn has ended. %s was not called. Begin again with that server if its state is needed",
			c.name(), req.Tool))
}

// acquire returns the tenant's or the turn's session, with one more user. It connects if there is none.
func (c *connector) acquire(ctx context.Context, tenant, turnID string) (*session, error) {
	conn, err := c.pool.Acquire(ctx, pool.Key{Tenant: tenant, Turn: turnID})
	if err != nil {
		return nil, err
	}
	return conn.Link().(*session), nil
}

// open dials and does the handshake, in each protocol version worth trying. If the server rejects one version, open
// tries the other; over HTTP it also does so if the server does not respond.
func (c *connector) open(ctx context.Context, conn *pool.Conn) (*session, error) {
	var last error
	var versions []string // chosen once: another tenant's connect may change what is worth trying
	for i := 0; ; i++ {
		l, err := c.dialer.dial(ctx, conn.Tenant)
		if err != nil {
			return nil, &pool.Outage{Problem: c.redact.text(err.Error()), ModelText: safeErrorText(err)}
		}
		if i == 0 {
			versions = c.worthTrying(l)
		}
		probe, cancel := ctx, context.CancelFunc(func() {})
		if i+1 < len(versions) && !l.disposable {
			probe, cancel = context.WithTimeout(ctx, c.describer.server.ConnectTimeout/3)
		}
		s, err := c.handshake(probe, conn, l, versions[i])
		silentProbe := probe.Err() != nil && ctx.Err() == nil
		cancel()
		if err == nil {
			return c.upgraded(ctx, s, versions[i])
		}
		last = c.explain(ctx, l, err)
		var refusal *jsonrpc.Error
		if i+1 >= len(versions) || !silentProbe && !errors.As(err, &refusal) {
			c.version.Store(nil)
			return nil, last
		}
	}
}

// worthTrying returns the version of the last handshake that succeeded, or else the link's.
func (c *connector) worthTrying(l *link) []string {
	if known := c.version.Load(); known != nil {
		return []string{*known}
	}
	return l.versions
}

// explain returns the error of a failed handshake, with the end of the server's stderr.
func (c *connector) explain(ctx context.Context, l *link, err error) error {
	why, told := c.clean(err.Error(), 400), safeErrorText(err)
	server := c.describer.server
	if ctx.Err() != nil {
		why = fmt.Sprintf("it did not finish its handshake within %s (timeouts.connect)", server.ConnectTimeout)
		told = why
		if server.URL == "" {
			why += "; if it is still downloading, install it first or raise that"
		}
	}
	if at := printable.Address(server.URL); at != "" && !strings.Contains(why, at) {
		why = at + ": " + why
	}
	if fate := l.fate(); fate != "" {
		why += "; its process ended with " + fate
		told = "its process ended with " + fate
	}
	c.keepStderr(l)
	if e := l.meter.excess(); e != nil {
		return fmt.Errorf("%w%s", e, c.stderrNote(l))
	}
	return &pool.Outage{Problem: c.redact.text(why) + c.stderrNote(l), ModelText: told}
}

// stderrNote returns the end of the server's stderr, for operators.
func (c *connector) stderrNote(l *link) string {
	tail := c.stderrTail(l)
	if tail == "" {
		return ""
	}
	return "; its stderr ends with:\n" + tail
}

// stderrTail returns at most the last 1 KiB of stderr, redacted before it is cut.
func (c *connector) stderrTail(l *link) string {
	kept := l.tail()
	tail := printable.Sanitize(kept)
	if len(kept) >= c.opts.StderrTailBytes { // the text before it is lost
		tail = c.redact.tail(tail)
	}
	tail = c.redact.text(tail)
	if len(tail) > 1024 {
		tail = "…" + tail[printable.Start(tail, len(tail)-1024):]
	}
	return tail
}

// setCatalogue keeps the latest catalogue and wakes the watcher if it differs. There is one catalogue for all tenants:
// the one that the default tenant's connection lists. If another tenant's connection lists a different one, the default
// tenant's connection lists again.
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
	if n := offered.Misnamed; tenant == "" && len(n) > 0 && (before == nil || !slices.Equal(n, before.Misnamed)) {
		c.log.Warn("agent.toml names tools that the server does not offer", "server", c.id(), "tools", n)
	}
	if tenant != "" {
		c.pool.Wake()
	}
	c.notifyWatcher()
}

// notifyWatcher wakes the watcher.
func (c *connector) notifyWatcher() {
	select {
	case c.events <- struct{}{}:
	default:
	}
}

// catalogue returns what the server offers now, or a catalogue whose Problem says why it cannot be listed.
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
