package mcp

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/everturn/everturn/activities/mcp/pool"
)

// closeBound is how long a session may take to close before it is abandoned.
const closeBound = 2 * time.Second

// session is one MCP session: the link of a pool's connection. It is not used again after its connection has ended.
type session struct {
	owner *connector
	conn  *pool.Conn
	link  *link
	mcp   *sdk.ClientSession
	lost  chan struct{} // closed when the connection has ended, its process was reaped and the pool knows

	mu       sync.Mutex
	stale    bool // the list has changed, or may have
	asking   bool // the server is being listed
	due      bool // a timer will tell the watcher that the list is stale
	relists  spacing
	offered  offer
	paged    int           // see listTools
	listing  chan struct{} // one list at a time; capacity 1
	attempts attempts
}

// handshake opens a session on a link and lists its tools. If it fails, it stops the link.
func (c *connector) handshake(ctx context.Context, conn *pool.Conn, l *link, version string) (*session, error) {
	s := &session{owner: c, conn: conn, link: l, lost: make(chan struct{}), listing: make(chan struct{}, 1)}
	client := s.client()
	// The SDK stops waiting for anything once the link is gone.
	unhook := context.AfterFunc(ctx, func() { _ = l.stop() })
	cs, err := client.Connect(ctx, l.transport, &sdk.ClientSessionOptions{ProtocolVersion: version})
	if err == nil {
		s.mcp = cs
		err = s.list(ctx, true)
	}
	if !unhook() && err == nil {
		err = ctx.Err()
	}
	if err != nil {
		var wire *jsonrpc.Error
		refused := errors.As(err, &wire) && !transportCode(wire.Code) // the SDK ends the connection after such an error
		if broken := l.watched.broken(); broken != nil && ctx.Err() == nil && !refused {
			err = fmt.Errorf("the connection ended in the handshake: %w", broken)
		}
		s.shut()
		return nil, err
	}
	if !c.running.start(s.watch) {
		s.shut()
		return nil, errHostClosed
	}
	return s, nil
}

// watch waits for the connection's end and cleans up after it.
func (s *session) watch() {
	_ = s.mcp.Wait() // the watched transport has the reason
	s.conn.Broken(s)
	_ = s.link.stop() // a process may outlive its stdout
	s.owner.keepStderr(s.link)
	s.conn.Ended(s)
	close(s.lost)
	s.shut()
}

// shut closes both layers. The SDK waits for calls in flight: by now they are cancelled or their connection is gone.
func (s *session) shut() {
	err := s.link.stop()
	if s.mcp != nil && !within(closeBound, func() { _ = s.mcp.Close() }) {
		err = errors.Join(err, fmt.Errorf("closing the session took more than %s", closeBound))
	}
	if err != nil {
		s.owner.log.Warn("stopping an MCP server", "server", s.owner.id(), "error", err)
	}
}

// Close implements pool.Link.
func (s *session) Close() { s.shut() }

// Failure implements pool.Link.
func (s *session) Failure() pool.Failure {
	f := pool.Failure{ModelText: "its connection was lost"}
	if e := s.link.meter.excess(); e != nil {
		f.ModelText, f.Excess = e.Error(), e
	}
	f.Problem = s.owner.redact.text(f.ModelText)
	if fate := s.link.fate(); fate != "" {
		f.Problem += "; its process ended with " + fate
	}
	f.Problem += s.owner.stderrNote(s.link)
	return f
}

// leave removes a user from the session's connection.
func (s *session) leave() { s.conn.Leave() }

// retire takes no new calls, lets the calls in flight end and then closes the session.
func (s *session) retire() {
	if !s.conn.Drain(s, s.Failure().Excess) { // the pool does not have it
		s.shut()
	}
}

func (s *session) markStale() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.stale = true
	s.scheduleRelist()
}

// scheduleRelist wakes the watcher when the session may be listed again. The session's lock is held.
func (s *session) scheduleRelist() {
	if s.asking || s.due {
		return
	}
	s.due = true
	time.AfterFunc(time.Until(s.relists.next), func() {
		s.mu.Lock()
		s.due = false
		s.mu.Unlock()
		s.owner.notifyWatcher()
	})
}

// offer returns what the server offers. If that may have changed, offer lists the server again: immediately for a call,
// otherwise once it may be listed again. A session that cannot be listed is retired, and the next session lists the
// server again.
func (s *session) offer(ctx context.Context, forCall bool) (offer, error) {
	s.mu.Lock()
	stale, o := s.stale && (forCall || !time.Now().Before(s.relists.next)), s.offered
	s.mu.Unlock()
	if !stale {
		return o, nil
	}
	if err := s.listAgain(ctx, false); err != nil {
		text := s.owner.name() + " was asked again what it offers"
		problem := text + ": " + s.owner.clean(err.Error(), 400)
		return offer{}, &pool.Outage{Problem: problem, ModelText: text + " and did not say"}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.offered, nil
}

// listAgain lists the server in a session that is in use: see list. It retires a session that cannot be listed.
func (s *session) listAgain(ctx context.Context, anyway bool) error {
	limited, cancel := context.WithTimeout(ctx, s.owner.describer.server.ConnectTimeout)
	defer cancel()
	err := s.list(limited, anyway)
	if err != nil && ctx.Err() == nil {
		s.retire()
	}
	return err
}

// list asks the server what it offers, one listing at a time, if that may have changed or anyway is set. It waits no
// longer than ctx lasts, which may belong to a call that must report in time that it was not sent.
func (s *session) list(ctx context.Context, anyway bool) error {
	select {
	case s.listing <- struct{}{}:
		defer func() { <-s.listing }()
	case <-ctx.Done():
		return fmt.Errorf("waiting for its list of tools: %w", context.Cause(ctx))
	}
	s.mu.Lock()
	stale, began := s.stale, time.Now()
	needed := stale || anyway
	s.stale, s.asking = false, needed // a change during the listing sets stale again
	s.mu.Unlock()
	if !needed { // another caller has listed meanwhile
		return nil
	}
	err := s.ask(ctx)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.asking = false
	s.stale = s.stale || err != nil
	if stale {
		s.relists.listed(time.Now(), time.Since(began))
	}
	if s.stale {
		s.scheduleRelist()
	}
	return err
}

// ask requests the server's list of tools and describes them. It calls neither the server nor its owner while it holds
// the session's lock.
func (s *session) ask(ctx context.Context) (err error) {
	defer s.owner.recoverPanic("tools/list", &err)
	var taken share
	defer taken.end()
	opts := s.owner.opts
	tools, paged, err := listTools(withShare(ctx, &taken), s.mcp, opts.MaxPages, opts.MaxTools)
	s.mu.Lock()
	s.paged += paged
	full := s.paged > maxPagedBytes
	s.mu.Unlock()
	if full {
		s.owner.running.start(s.retire)
	}
	if err != nil {
		return err
	}
	d := s.owner.describer
	d.redact = s.owner.redact
	o, err := d.offer(ctx, s.withStandIns(tools))
	if err != nil {
		return err
	}
	o.setListed(tools)
	s.mu.Lock()
	s.offered = o
	s.mu.Unlock()
	s.owner.setCatalogue(s.conn.Tenant, o.catalogue)
	return nil
}

// The protocol versions that a handshake begins with. The empty one is the SDK's latest, which first asks the server to
// describe itself. Servers that do not know that request may not respond, so over stdio the older version goes first.
const (
	versionLatest = ""
	versionLegacy = "2025-11-25"
)

// link is one connection to one process or remote session of a server, below the protocol.
type link struct {
	transport sdk.Transport
	watched   *watchedTransport // the same transport, if it tracks what was sent and answered; else nil
	meter     *meter            // nil: the connection has no bounds
	versions  []string          // to try, in this order
	// stop ends the connection and everything that belongs to it, within a bounded time. It may be called twice.
	stop func() error
	// tail returns the end of the server's stderr.
	tail func() string
	// fate returns how the server's process ended; empty while it runs or if there is none.
	fate func() string
	// disposable: stop ends all of the server's work on this connection, and a new connection can replace it.
	disposable bool
}

func silent() string { return "" }

// dialer opens links to one server, each for one tenant.
type dialer interface {
	dial(ctx context.Context, tenant string) (*link, error)
}

// errHostClosed is the error of starts after Close.
var errHostClosed = pool.ErrClosed

// tasks are goroutines that end before their owner does.
type tasks struct {
	mu     sync.Mutex
	closed bool
	wg     sync.WaitGroup
}

// start runs f in a goroutine, or returns false if the tasks are closed.
func (t *tasks) start(f func()) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if !t.closed {
		t.wg.Go(f)
	}
	return !t.closed
}

// close prevents further starts and waits for the running tasks.
func (t *tasks) close() {
	t.mu.Lock()
	t.closed = true
	t.mu.Unlock()
	t.wg.Wait()
}

// within runs f and reports whether it finished within d. If not, f continues in the background.
func within(d time.Duration, f func()) bool {
	done := make(chan struct{})
	go func() { defer close(done); f() }()
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-done:
		return true
	case <-timer.C:
		return false
	}
}
