package pool

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/everturn/everturn/workflows/turn"
)

// maxConnections bounds the connections with one server: those of other tenants than the default one, and those that
// turns own with a stateful server. The default tenant's shared connection does not count. To open one more, the pool
// evicts an idle connection (see makeRoom).
const maxConnections = 64

// Outage is the error of a call that cannot be sent now. Problem is for operators and may contain the server's own
// words, such as its stderr. ModelText is for the model and contains only the host's words.
type Outage struct {
	Problem, ModelText string
	Wait               time.Duration // until the server is tried again; 0: immediately
}

func (o *Outage) Error() string { return o.Problem }

// ErrClosed is the error of a pool whose host is closed.
var ErrClosed = &Outage{Problem: "the MCP host is closed", ModelText: "the MCP host is closed"}

// Options configures a Pool.
type Options struct {
	Name string // of the server, for messages
	// Dial opens a link for c. When the link ends, the host must call c.Broken and c.Ended. If Dial fails, it returns a
	// Failure and no link.
	Dial func(ctx context.Context, c *Conn) (Link, *Failure)
	// Go runs a function in a goroutine that the host waits for; false if the host is closed.
	Go func(f func()) bool
	// Changed is called, without a lock, when the state of the server may have changed.
	Changed func()
	Log     *slog.Logger

	ConnectTimeout         time.Duration
	IdleTimeout            time.Duration // ends a connection that has been idle this long; 0 keeps it
	BackoffMin, BackoffMax time.Duration
	MaxCalls               int // in flight
}

// Pool holds the connections with one server. It is safe for concurrent use.
type Pool struct {
	ctx     context.Context // ends when the host closes
	opts    Options
	permits chan struct{} // one element for each call in flight

	mu       sync.Mutex
	deferred []func() // to call when the lock is released: see afterUnlock
	tenants  map[string]*tenant
	resting  bool // the default tenant's shared connection ended because it was idle
	record   Record
}

// New returns a Pool without connections. To close it, end ctx and call Close.
func New(ctx context.Context, o Options) *Pool {
	p := &Pool{ctx: ctx, opts: o, permits: make(chan struct{}, max(o.MaxCalls, 1)), tenants: map[string]*tenant{}}
	p.newTenant("")
	p.record.setStatus(turn.ServerIdle)
	return p
}

func (p *Pool) lock() { p.mu.Lock() }

// unlock releases the lock and then makes the calls that were deferred with afterUnlock.
func (p *Pool) unlock() {
	deferred := p.deferred
	p.deferred = nil
	p.mu.Unlock()
	for _, f := range deferred {
		f()
	}
}

// afterUnlock calls f when the lock is released, because f may block or may call the pool. The pool's lock is held.
func (p *Pool) afterUnlock(f func()) { p.deferred = append(p.deferred, f) }

// start runs f in a goroutine that the host waits for. If the host is closed and starts none, it runs f in the
// caller's.
func (p *Pool) start(f func()) {
	if !p.opts.Go(f) {
		f()
	}
}

// warn logs when the lock is released. The pool's lock is held.
func (p *Pool) warn(text string, args ...any) {
	p.afterUnlock(func() { p.opts.Log.Warn(text, args...) })
}

// changed updates the recorded statuses, and calls Options.Changed when the lock is released. The pool's lock is held.
func (p *Pool) changed() {
	p.updateStatus()
	p.afterUnlock(p.opts.Changed)
}

// Acquire returns the connection with this key and adds a user to it; the caller must call Leave. It connects if there
// is no such connection. Its error is an *Outage.
func (p *Pool) Acquire(ctx context.Context, key Key) (*Conn, error) {
	for range 4 { // again, because a connection may end between connecting and use
		c, wait, err := p.findOrOpen(key)
		if err != nil || wait == nil {
			return c, err
		}
		select {
		case <-wait:
			if c.err != nil {
				return nil, c.err
			}
		case <-ctx.Done():
			return nil, outageOf(p.opts.Name + " is still starting")
		}
	}
	text := p.opts.Name + " ends as soon as it is started"
	return nil, &Outage{Problem: text + p.lastProblem(key.Tenant), ModelText: text}
}

// outageOf returns an outage whose text contains no words of a server.
func outageOf(text string) *Outage { return &Outage{Problem: text, ModelText: text} }

// lastProblem returns why the tenant has no connection, as the end of a sentence for operators; empty if unknown.
func (p *Pool) lastProblem(name string) string {
	p.lock()
	defer p.unlock()
	if t := p.tenants[name]; t != nil && t.problem != "" {
		return ": " + t.problem
	}
	return ""
}

// findOrOpen returns the connection with this key, and begins to open one if there is none. If it is ready, findOrOpen
// adds a user to it. Otherwise wait is not nil, and the caller must try again when wait is closed: when the connection
// is open or has failed to open (see Conn.err), or when the key of an ending connection is free.
func (p *Pool) findOrOpen(key Key) (c *Conn, wait <-chan struct{}, err error) {
	p.lock()
	defer p.unlock()
	if p.ctx.Err() != nil {
		return nil, nil, ErrClosed
	}
	t, err := p.tenant(key.Tenant)
	if err != nil {
		return nil, nil, err
	}
	if c = t.conns[key.Turn]; c == nil {
		if c, err = p.open(t, key); err != nil {
			return nil, nil, err
		}
	}
	switch {
	case c.enter():
		return c, nil, nil
	case c.state == Connecting:
		return c, c.settled, nil
	}
	return c, c.ended, nil // the old process exits before the next one starts
}

// open begins to open a connection. It fails during a pause of the tenant's breaker, or if makeRoom fails. After a
// failed connect, only one attempt runs at a time and decides for all callers. The pool's lock is held.
func (p *Pool) open(t *tenant, key Key) (*Conn, error) {
	wait := t.breaker.pause(time.Now())
	trialRunning := t.breaker.failedConnects > 0 && t.countState(Connecting) > 0
	if wait > 0 || trialRunning {
		return nil, p.unavailable(t, wait)
	}
	if err := p.makeRoom(key); err != nil {
		return nil, err
	}
	c := &Conn{
		Key: key, pool: p, tenant: t, state: Empty, settled: make(chan struct{}), ended: make(chan struct{}),
	}
	c.setState(Connecting, "")
	p.afterUnlock(func() { p.start(c.connect) })
	return c, nil
}

// errLostAtOnce is the failure of a connection whose link ended before any call could use it.
var errLostAtOnce = errors.New("its connection was lost as soon as it was made")

// connect dials the server and makes the connection ready, or records the failure. It runs until ConnectTimeout or the
// end of the pool's context, even if the call that needed the connection first ends before, because other calls may
// wait for the connection, too.
func (c *Conn) connect() {
	p := c.pool
	ctx, cancel := context.WithTimeout(p.ctx, p.opts.ConnectTimeout)
	defer cancel()
	l, failure := p.opts.Dial(ctx, c)
	if failure == nil {
		failure = c.install(l)
	}
	if failure != nil {
		p.lock()
		defer p.unlock()
		c.failConnect(*failure)
	}
}

// install gives the new link to the connection and makes the connection ready. If the pool is closed, or the link has
// already ended, it closes the link and returns the failure.
func (c *Conn) install(l Link) *Failure {
	p := c.pool
	p.lock()
	closed, lostAlready := p.ctx.Err() != nil, slices.Contains(c.deadLinks, l)
	if !closed && !lostAlready {
		c.link = l
		c.setState(Ready, "")
	}
	p.unlock()
	switch {
	case closed:
		l.Close()
		return &Failure{Problem: ErrClosed.Problem, ModelText: ErrClosed.ModelText}
	case lostAlready:
		l.Close()
		f := l.Failure()
		f.Problem = errLostAtOnce.Error() + ": " + f.Problem
		return &f
	}
	return nil
}

// failConnect records that an attempt to connect failed, and ends the connection. Its waiting callers get the error in
// err. The pool's lock is held.
func (c *Conn) failConnect(f Failure) {
	p, t := c.pool, c.tenant
	t.breaker.connectFailed(time.Now())
	t.problem, t.modelText = f.Problem, f.ModelText
	p.setLastError(f.Problem)
	if f.Excess != nil {
		c.countExcess(f.Excess)
	}
	wait := t.breaker.pause(time.Now())
	c.err = &Outage{Problem: p.opts.Name + " is unavailable: " + t.problem, ModelText: p.unavailableText(t), Wait: wait}
	p.warn("connecting to an MCP server", "tenant", t.name, "failures", t.breaker.failedConnects, "error", f.Problem)
	c.setState(Empty, Refused)
}

// backOff starts a backoff from the server for the tenant, because a connection exceeded a bound. The pool's lock is
// held.
func (p *Pool) backOff(t *tenant, excess error) {
	t.breaker.boundExceeded(time.Now())
	p.record.Drops++
	p.record.Excess = excess
	p.warn("an MCP server's connection was dropped", "tenant", t.name, "excess", excess, "offences", t.breaker.offences)
}

// unavailable returns the outage for the tenant's calls during a pause of its breaker: wait is the rest of the pause,
// or 0 if another call or connect is the trial. The pool's lock is held.
func (p *Pool) unavailable(t *tenant, wait time.Duration) *Outage {
	problem := fmt.Sprintf("%s is unavailable and is tried again in %s: %s",
		p.opts.Name, max(wait.Round(time.Second), time.Second), t.problem)
	if wait <= 0 {
		problem = fmt.Sprintf("%s is unavailable; another call is testing it now: %s", p.opts.Name, t.problem)
	}
	return &Outage{Problem: problem, ModelText: p.unavailableText(t), Wait: wait}
}

// unavailableText returns the text for the model that the server is unavailable for the tenant, with the reason if it
// is known. The pool's lock is held.
func (p *Pool) unavailableText(t *tenant) string {
	if t.modelText == "" {
		return p.opts.Name + " is unavailable"
	}
	return p.opts.Name + " is unavailable: " + t.modelText
}

// makeRoom closes an idle connection if there are maxConnections already and one with the key added is to be opened. It
// chooses the one that has been idle longest, among the tenants with the most connections if these have an idle one, so
// that a tenant with few connections does not lose one to a tenant with many. It fails if no connection is idle. The
// default tenant's shared connection, which does not count, needs no room. The pool's lock is held.
func (p *Pool) makeRoom(added Key) error {
	total, most := 0, 0
	for _, t := range p.tenants {
		total, most = total+t.evictable(), max(most, t.evictable())
	}
	if added.listsTools() || total < maxConnections {
		return nil
	}
	oldest := cmp.Or(p.longestIdle(most), p.longestIdle(0))
	if oldest == nil {
		return outageOf(fmt.Sprintf("%s has %d connections on this worker, which is the maximum, and all of them are in use",
			p.opts.Name, maxConnections))
	}
	oldest.setState(Closing, Idle)
	return nil
}

// longestIdle returns the evictable connection without users that was used longest ago, among the tenants with at least
// atLeast such connections, idle or not; nil if there is none. The pool's lock is held.
func (p *Pool) longestIdle(atLeast int) (oldest *Conn) {
	for _, t := range p.tenants {
		for _, c := range t.conns {
			if c.listsTools() || c.state != Ready || c.users > 0 || t.evictable() < atLeast {
				continue
			}
			if oldest == nil || c.lastUsed.Before(oldest.lastUsed) {
				oldest = c
			}
		}
	}
	return oldest
}

// Found records that this call starts on the connection without expecting that the server has kept state for the turn.
// The state of later calls then begins with this call: see Resume.
func (c *Conn) Found(call string) {
	c.pool.lock()
	defer c.pool.unlock()
	c.owningCall = call
}

// Resume returns the connection with this key, and adds a user to it, if the server still has the state of the turn
// that began with the call owning. It returns nil if that connection is not ready any more, if no call on it has
// reached the server, or if a later call has begun new state.
func (p *Pool) Resume(key Key, owning string) *Conn {
	p.lock()
	defer p.unlock()
	t := p.tenants[key.Tenant]
	if t == nil {
		return nil
	}
	c := t.conns[key.Turn]
	if c == nil || !c.reachedServer || c.owningCall != owning || !c.enter() {
		return nil
	}
	return c
}

// Shared returns the ready connections that the turns of a tenant share, one for each tenant, and adds a user to each.
func (p *Pool) Shared() (all []*Conn) {
	p.lock()
	defer p.unlock()
	for _, t := range p.tenants {
		if c := t.conns[""]; c != nil && c.enter() {
			all = append(all, c)
		}
	}
	return all
}

// Listing returns the link of the connection on which the host lists the server's tools, the default tenant's shared
// one; nil if there is none.
func (p *Pool) Listing() Link {
	p.lock()
	defer p.unlock()
	if c := p.tenants[""].conns[""]; c != nil {
		return c.link
	}
	return nil
}

// Resting reports whether the default tenant's shared connection was closed because it was idle, and not opened since.
func (p *Pool) Resting() bool {
	p.lock()
	defer p.unlock()
	return p.resting
}

// Wake makes Resting return false, so that the host connects and lists the server again.
func (p *Pool) Wake() {
	p.lock()
	defer p.unlock()
	p.resting = false
}

// UntilRetry returns how long the host must wait until it may try again to list the server. It returns false if no
// retry is due, because the default tenant's shared connection is open, is ending, or rests.
func (p *Pool) UntilRetry() (time.Duration, bool) {
	p.lock()
	defer p.unlock()
	t := p.tenants[""]
	if c := t.conns[""]; p.resting || c != nil && c.state != Connecting {
		return 0, false
	}
	return t.breaker.pause(time.Now()), true
}

// Close begins to drain all connections, and does not wait for their calls. It does not stop connections that are being
// opened: they stop when the owner cancels the context of the pool.
func (p *Pool) Close() {
	p.lock()
	defer p.unlock()
	for _, t := range p.tenants {
		for _, c := range t.conns {
			c.setState(Draining, HostClosed)
		}
	}
}
