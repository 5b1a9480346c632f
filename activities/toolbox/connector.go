package toolbox

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"

	"github.com/everturn/everturn/workflows/turn"
)

// crashesAllowed is how often in a row a server may die before it has answered a call, until its restarts are paused
// like failed connects.
const crashesAllowed = 3

// connector keeps one server reachable: it connects when a call needs it, replaces sessions that died, and leaves a
// server that cannot be reached alone for a while.
type connector struct {
	describer describer
	local     *Local // nil but for the local tools
	dialer    dialer
	redact    redactor
	opts      Options
	log       *slog.Logger
	ctx       context.Context // the host's life
	running   *tasks          // the host's goroutines

	mu       sync.Mutex
	current  *session
	attempt  *attempt
	version  *string // of the last handshake that succeeded
	failures int
	crashes  int
	retryAt  time.Time
	problem  string
	events   chan struct{} // something changed; capacity 1
}

// attempt is something to wait for before there is a session: a connect under way, or the end of a session that died.
type attempt struct {
	done chan struct{}
	err  error
}

// backoff is the pause after the n-th failure in a row: it doubles from first up to most.
func backoff(n int, first, most time.Duration) time.Duration {
	for d := first; ; d *= 2 {
		if n <= 1 || d >= most {
			return min(d, most)
		}
		n--
	}
}

func (c *connector) id() string { return c.describer.server.ID }

// name is the server as people know it.
func (c *connector) name() string {
	if c.local != nil {
		return "the local tools"
	}
	return fmt.Sprintf("MCP server %q", c.id())
}

// acquire returns a live session with one more user, connecting where there is none. Its error says why there is none.
func (c *connector) acquire(ctx context.Context) (*session, error) {
	for range 4 { // a session may die between connecting and use
		s, a, err := c.sessionOrAttempt()
		if s != nil || err != nil {
			return s, err
		}
		select {
		case <-a.done:
			if a.err != nil {
				return nil, a.err
			}
		case <-ctx.Done():
			return nil, fmt.Errorf("%s is still starting: %w", c.name(), context.Cause(ctx))
		}
	}
	return nil, fmt.Errorf("%s ends as soon as it is started%s", c.name(), c.lastWords())
}

func (c *connector) lastWords() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.problem == "" {
		return ""
	}
	return ": " + c.problem
}

func (c *connector) sessionOrAttempt() (*session, *attempt, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.ctx.Err() != nil {
		return nil, nil, errHostClosed
	}
	if c.current != nil {
		if c.current.enter() {
			return c.current, nil, nil
		}
		return nil, &attempt{done: c.current.lost}, nil // its process goes before the next one comes
	}
	if c.attempt == nil {
		if wait := time.Until(c.retryAt); wait > 0 {
			return nil, nil, fmt.Errorf("%s is unavailable and is tried again in %s: %s", c.name(), wait.Round(time.Second), c.problem)
		}
		a := &attempt{done: make(chan struct{})}
		if !c.running.start(func() { c.connect(a) }) {
			return nil, nil, errHostClosed
		}
		c.attempt = a
	}
	return nil, c.attempt, nil
}

// connect carries out an attempt. It lives as long as the host at most, not as long as the caller that needed it first.
func (c *connector) connect(a *attempt) {
	ctx, cancel := context.WithTimeout(c.ctx, c.describer.server.ConnectTimeout)
	defer cancel()
	s, err := c.open(ctx)
	if err == nil && !c.install(s) { // the host was closed meanwhile and did not see this session
		s.retire()
		err = errHostClosed
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.attempt = nil
	if err != nil {
		c.failures++
		c.retryAt = time.Now().Add(backoff(c.failures, c.opts.BackoffMin, c.opts.BackoffMax))
		c.problem = err.Error()
		a.err = fmt.Errorf("%s is unavailable: %w", c.name(), err)
		c.log.Warn("connecting to an MCP server", "server", c.id(), "failures", c.failures, "error", err)
	}
	close(a.done)
	c.poke()
}

// install makes s the session that calls use, unless the host is closed.
func (c *connector) install(s *session) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.ctx.Err() != nil {
		return false
	}
	c.failures, c.problem, c.current = 0, "", s
	return true
}

// open dials and shakes hands, in each protocol version that is worth a try. A server that refuses one is asked again
// in the other; over HTTP, one that stays silent too.
func (c *connector) open(ctx context.Context) (*session, error) {
	var last error
	for i := 0; ; i++ {
		l, err := c.dialer.dial(ctx)
		if err != nil {
			return nil, errors.New(c.redact.text(err.Error()))
		}
		versions := c.worthTrying(l)
		probe, cancel := ctx, context.CancelFunc(func() {})
		if i+1 < len(versions) && !l.disposable {
			probe, cancel = context.WithTimeout(ctx, c.describer.server.ConnectTimeout/3)
		}
		s, err := c.handshake(probe, l, versions[i])
		silentProbe := probe.Err() != nil && ctx.Err() == nil
		cancel()
		if err == nil {
			c.remember(versions[i])
			return s, nil
		}
		last = c.explain(ctx, l, err)
		var refusal *jsonrpc.Error
		if i+1 >= len(versions) || !silentProbe && !errors.As(err, &refusal) {
			c.forget()
			return nil, last
		}
	}
}

func (c *connector) worthTrying(l *link) []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.version != nil {
		return []string{*c.version}
	}
	return l.versions
}

func (c *connector) remember(version string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.version = &version
}

func (c *connector) forget() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.version = nil
}

// explain says why a handshake failed, with what the server last said.
func (c *connector) explain(ctx context.Context, l *link, err error) error {
	why := oneLine(err.Error(), 400)
	if ctx.Err() != nil {
		why = fmt.Sprintf("it did not finish its handshake within %s (connect_timeout); if it is still downloading, install it first or raise that", c.describer.server.ConnectTimeout)
	}
	if fate := l.fate(); fate != "" {
		why += "; its process ended with " + fate
	}
	return errors.New(c.redact.text(why + stderrNote(l)))
}

// stderrNote is the last of what a server said on stderr, for people.
func stderrNote(l *link) string {
	tail := l.tail()
	if tail = Sanitize(tail); len(tail) > 1024 {
		tail = "…" + tail[runeStart(tail, len(tail)-1024):]
	}
	if tail == "" {
		return ""
	}
	return "; its stderr ends with:\n" + tail
}

// ended is told when a session's connection is gone.
func (c *connector) ended(s *session, crashed bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.current == s {
		c.current = nil
	}
	if crashed && c.ctx.Err() == nil {
		c.crashes++
		c.problem = c.redact.text("its connection was lost" + stderrNote(s.link))
		if c.crashes >= crashesAllowed {
			c.retryAt = time.Now().Add(backoff(c.crashes-crashesAllowed+1, c.opts.BackoffMin, c.opts.BackoffMax))
		}
		c.log.Warn("an MCP server's connection was lost", "server", c.id(), "crashes", c.crashes, "process", s.link.fate())
	}
	c.poke()
}

// answered notes that the server is well.
func (c *connector) answered() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.crashes = 0
}

// detach makes the next caller start a new session.
func (c *connector) detach(s *session) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.current == s {
		c.current = nil
	}
}

// poke wakes the watcher. The connector's lock need not be held.
func (c *connector) poke() {
	select {
	case c.events <- struct{}{}:
	default:
	}
}

// catalogue returns what the server offers now, or why it cannot be asked.
func (c *connector) catalogue(ctx context.Context) turn.Catalogue {
	s, err := c.acquire(ctx)
	if err == nil {
		defer s.leave()
		var o offer
		if o, err = s.offer(ctx); err == nil {
			return o.catalogue
		}
	}
	return turn.Catalogue{Server: c.id(), Required: c.describer.server.Required, Problem: err.Error()}
}

// close ends the session that is in use, if any.
func (c *connector) close() {
	c.mu.Lock()
	s := c.current
	c.current = nil
	c.mu.Unlock()
	if s != nil {
		s.retire()
	}
}
