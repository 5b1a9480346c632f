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

// closeBound is how long closing a session may take before the host stops waiting for it.
const closeBound = 2 * time.Second

// session is one MCP session. It implements pool.Link for a connection of the pool, and is not used again after the
// connection has ended.
type session struct {
	owner *connector
	conn  *pool.Conn
	link  *link
	mcp   *sdk.ClientSession
	lost  chan struct{} // closed when the connection has ended, its process was reaped and the pool knows

	mu            sync.Mutex
	stale         bool // the server's tools have changed, or may have, since the last list
	isListing     bool // the server is being listed
	wakeScheduled bool // a timer will wake the watcher, which then lists the server
	relists       spacing
	offered       offer
	paged         int           // bytes of lists that the SDK keeps: see listTools
	listGate      chan struct{} // one list at a time; capacity 1
	attempts      attempts
}

// handshake opens a session on a link, in the given protocol version, and lists the server's tools. If it fails, it
// stops the link.
func (c *connector) handshake(ctx context.Context, conn *pool.Conn, l *link, version string) (*session, error) {
	s := &session{owner: c, conn: conn, link: l, lost: make(chan struct{}), listGate: make(chan struct{}, 1)}
	client := s.client()
	// The SDK does not return from every wait when ctx ends. It does when the link is stopped.
	unhook := context.AfterFunc(ctx, func() { _ = l.stop() })
	cs, err := client.Connect(ctx, l.transport, &sdk.ClientSessionOptions{ProtocolVersion: version})
	if err == nil {
		s.mcp = cs
		err = s.list(ctx, true)
	}
	if !unhook() && err == nil { // ctx ended meanwhile, so the link is being stopped
		err = ctx.Err()
	}
	if err != nil {
		var wire *jsonrpc.Error
		// After a server's JSON-RPC error the SDK itself ends the connection: the error is then the better explanation.
		refused := errors.As(err, &wire) && !transportCode(wire.Code)
		if broken := l.watched.readError(); broken != nil && ctx.Err() == nil && !refused {
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

// watch waits until the session's connection ends, and cleans up. It tells the pool at once that the link is broken, so
// that no new call uses it, and at last that the link has ended, when the process has exited.
func (s *session) watch() {
	_ = s.mcp.Wait() // the watched transport has the reason
	s.conn.Broken(s)
	_ = s.link.stop() // a process may outlive its stdout
	s.owner.keepStderr(s.link)
	s.conn.Ended(s)
	close(s.lost)
	s.shut()
}

// shut stops the link and then closes the SDK's session, which waits for the calls in flight. They end quickly, because
// their connection is gone. shut may be called several times.
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

// Failure implements pool.Link. The text for models contains only the host's own words.
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

// leave ends the caller's use of the session, which began with sessionFor or acquire.
func (s *session) leave() { s.conn.Leave() }

// retire closes the session as soon as the calls in flight have ended. New calls get another session.
func (s *session) retire() {
	if !s.conn.Drain(s, s.Failure().Excess) { // the session is not the connection's link, so no call uses it
		s.shut()
	}
}

// markStale records that the server's tools have changed, and schedules another list.
func (s *session) markStale() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.stale = true
	s.scheduleRelist()
}

// scheduleRelist wakes the watcher at the time from which the server may be listed again (see spacing). The session's
// lock is held.
func (s *session) scheduleRelist() {
	if s.isListing || s.wakeScheduled { // list calls scheduleRelist again if the session is stale at its end
		return
	}
	s.wakeScheduled = true
	time.AfterFunc(time.Until(s.relists.next), func() {
		s.mu.Lock()
		s.wakeScheduled = false
		s.mu.Unlock()
		s.owner.notifyWatcher()
	})
}

// offer returns the tools that the server offers. If they may have changed, it lists the server again, or waits for the
// list under way: at once if forCall is set, because a call must not use outdated tools, and otherwise not before the
// time that spacing allows; until then it returns the outdated tools. If the list fails, offer fails, and relist has
// retired the session unless ctx has ended.
func (s *session) offer(ctx context.Context, forCall bool) (offer, error) {
	s.mu.Lock()
	mayRelist := forCall || !time.Now().Before(s.relists.next)
	relist, known := (s.stale || s.isListing) && mayRelist, s.offered
	s.mu.Unlock()
	if !relist {
		return known, nil
	}
	if err := s.relist(ctx, false); err != nil {
		text := s.owner.name() + " was asked again what it offers"
		problem := text + ": " + s.owner.clean(err.Error(), 400)
		return offer{}, &pool.Outage{Problem: problem, ModelText: text + " and did not say"}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.offered, nil
}

// relist calls list for a session that is in use, with ConnectTimeout as the limit. If the server cannot be listed, it
// retires the session, unless only ctx has ended.
func (s *session) relist(ctx context.Context, force bool) error {
	limited, cancel := context.WithTimeout(ctx, s.owner.describer.server.ConnectTimeout)
	defer cancel()
	err := s.list(limited, force)
	if err != nil && ctx.Err() == nil {
		s.retire()
	}
	return err
}

// list requests the server's list of tools if it may have changed, or if force is set. Only one list runs at a time; a
// second caller waits for it, but no longer than ctx lasts: ctx may belong to a call that must report in time that it
// was not sent.
func (s *session) list(ctx context.Context, force bool) error {
	select {
	case s.listGate <- struct{}{}:
		defer func() { <-s.listGate }()
	case <-ctx.Done():
		return fmt.Errorf("waiting for its list of tools: %w", context.Cause(ctx))
	}
	s.mu.Lock()
	stale, began := s.stale, time.Now()
	needed := stale || force
	s.stale, s.isListing = false, needed // a change during the list sets stale again
	s.mu.Unlock()
	if !needed { // another caller has just listed the server
		return nil
	}
	err := s.requestList(ctx)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.isListing = false
	s.stale = s.stale || err != nil
	if stale { // list_changed or a failed list has caused this list, so it counts for the spacing
		s.relists.listed(time.Now(), time.Since(began))
	}
	if s.stale {
		s.scheduleRelist()
	}
	return err
}

// requestList requests the server's list of tools, describes the tools, and records them in the session and in the
// connector. It retires the session, whether or not it fails, once the SDK keeps more than maxPagedBytes of lists. It
// holds the session's lock only briefly, never while it waits for the server or calls the connector.
func (s *session) requestList(ctx context.Context) (err error) {
	defer s.owner.recoverPanic("tools/list", &err)
	var reserved reservation
	defer reserved.release()
	opts := s.owner.opts
	tools, paged, err := listTools(withReservation(ctx, &reserved), s.mcp, opts.MaxPages, opts.MaxTools)
	s.mu.Lock()
	s.paged += paged
	full := s.paged > maxPagedBytes
	s.mu.Unlock()
	if full { // the SDK frees the lists that it keeps only with the session, so a new session takes over
		s.owner.running.start(s.retire) // in a goroutine, because retire may wait for the link to stop
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
	versions  []string          // protocol versions to try, in this order
	// stop ends the connection and everything that belongs to it, within a bounded time. It may be called twice.
	stop func() error
	// tail returns the end of the server's stderr.
	tail func() string
	// fate returns how the server's process ended; empty while it runs or if there is none.
	fate func() string
	// disposable: stop ends all of the server's work on this connection, and a new connection can replace it.
	disposable bool
}

// noText stands for the stderr and the fate of a link without a process.
func noText() string { return "" }

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

// within runs f and reports whether it returned within d. Otherwise f continues in the background.
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
