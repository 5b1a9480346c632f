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
)

// maxConnections bounds the connections with one server, not counting the default tenant's shared one: the other
// tenants' connections, and those that turns own with a stateful server. One more evicts the connection that has been
// idle longest.
const maxConnections = 64

// Outage is why a call cannot be sent now. A server's own words, such as its stderr, are only for operators: the model
// reads ModelText, which contains only the host's words.
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
	// Dial opens a link. Its Conn must be told when the link ends.
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
	o       Options
	permits chan struct{} // one element for each call in flight

	mu      sync.Mutex
	due     []func() // to call when the lock is released
	tenants map[string]*tenant
	resting bool // the default tenant's shared connection ended because it was idle
	record  Record
}

// New returns a Pool without connections. It closes when ctx ends and Close is called.
func New(ctx context.Context, o Options) *Pool {
	p := &Pool{ctx: ctx, o: o, permits: make(chan struct{}, max(o.MaxCalls, 1)), tenants: map[string]*tenant{}}
	p.newTenant("")
	p.record.enter(StatusIdle)
	return p
}

func (p *Pool) lock() { p.mu.Lock() }

// unlock releases the lock and then makes the calls that are due.
func (p *Pool) unlock() {
	due := p.due
	p.due = nil
	p.mu.Unlock()
	for _, f := range due {
		f()
	}
}

// later calls f when the lock is released. The pool's lock is held.
func (p *Pool) later(f func()) { p.due = append(p.due, f) }

// start runs f in a goroutine, or at once if the host is closed and starts no more.
func (p *Pool) start(f func()) {
	if !p.o.Go(f) {
		f()
	}
}

// warn logs when the lock is released. The pool's lock is held.
func (p *Pool) warn(text string, args ...any) { p.later(func() { p.o.Log.Warn(text, args...) }) }

// changed updates the recorded states, and calls Changed when the lock is released. The pool's lock is held.
func (p *Pool) changed() {
	p.noteStatus()
	p.later(p.o.Changed)
}

// Acquire returns the connection with this key and adds a user to it. It connects if there is none. The error, an
// *Outage, says why there is none.
func (p *Pool) Acquire(ctx context.Context, key Key) (*Conn, error) {
	for range 4 { // a connection may end between connecting and use
		c, wait, err := p.enter(key)
		if err != nil || wait == nil {
			return c, err
		}
		select {
		case <-wait:
			if c.err != nil {
				return nil, c.err
			}
		case <-ctx.Done():
			return nil, outageOf(p.o.Name + " is still starting")
		}
	}
	text := p.o.Name + " ends as soon as it is started"
	return nil, &Outage{Problem: text + p.lastProblem(key.Tenant), ModelText: text}
}

// outageOf returns an outage whose text contains no words of a server.
func outageOf(text string) *Outage { return &Outage{Problem: text, ModelText: text} }

// lastProblem returns why the tenant has no connection, as the end of a sentence.
func (p *Pool) lastProblem(name string) string {
	p.lock()
	defer p.unlock()
	if t := p.tenants[name]; t != nil && t.problem != "" {
		return ": " + t.problem
	}
	return ""
}

// enter returns the connection with this key, which it opens if there is none. The connection has one more user, unless
// wait is not nil: wait is then closed when the connection is open, or when its key is free again.
func (p *Pool) enter(key Key) (c *Conn, wait <-chan struct{}, err error) {
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

// open starts to open a connection. After failed attempts, only one attempt runs at a time and probes for all callers.
// The pool's lock is held.
func (p *Pool) open(t *tenant, key Key) (*Conn, error) {
	wait := t.breaker.pause(time.Now())
	if wait > 0 || t.breaker.connects > 0 && t.count(Connecting) > 0 {
		return nil, p.unavailable(t, wait)
	}
	if err := p.makeRoom(key); err != nil {
		return nil, err
	}
	c := &Conn{
		Key: key, pool: p, tenant: t, state: Empty, settled: make(chan struct{}), ended: make(chan struct{}),
	}
	c.to(Connecting, "")
	p.later(func() { p.start(c.connect) })
	return c, nil
}

// errStillborn is the failure of a connection whose link ended before any call could use it.
var errStillborn = errors.New("its connection was lost as soon as it was made")

// connect dials the server and installs the link. The attempt ends after ConnectTimeout or with the pool's context, not
// with the call that needed the connection first, because other calls may wait for it, too.
func (c *Conn) connect() {
	p := c.pool
	ctx, cancel := context.WithTimeout(p.ctx, p.o.ConnectTimeout)
	defer cancel()
	l, failure := p.o.Dial(ctx, c)
	if failure == nil {
		failure = c.install(l)
	}
	if failure != nil {
		p.lock()
		defer p.unlock()
		c.failConnect(*failure)
	}
}

// install makes the connection ready, unless the pool is closed or the link has already ended.
func (c *Conn) install(l Link) *Failure {
	p := c.pool
	p.lock()
	closed, stillborn := p.ctx.Err() != nil, slices.Contains(c.dead, l)
	if !closed && !stillborn {
		c.link = l
		c.to(Ready, "")
	}
	p.unlock()
	switch {
	case closed:
		l.Close()
		return &Failure{Problem: ErrClosed.Problem, ModelText: ErrClosed.ModelText}
	case stillborn:
		l.Close()
		f := l.Failure()
		f.Problem = errStillborn.Error() + ": " + f.Problem
		return &f
	}
	return nil
}

// refuse ends an attempt to connect. The pool's lock is held.
func (c *Conn) failConnect(f Failure) {
	p, t := c.pool, c.tenant
	t.breaker.connectFailed(time.Now())
	t.problem, t.modelText = f.Problem, f.ModelText
	p.failed(f.Problem)
	if f.Excess != nil {
		c.countExcess(f.Excess)
	}
	wait := t.breaker.pause(time.Now())
	c.err = &Outage{Problem: p.o.Name + " is unavailable: " + t.problem, ModelText: p.unavailableText(t), Wait: wait}
	p.warn("connecting to an MCP server", "tenant", t.name, "failures", t.breaker.connects, "error", f.Problem)
	c.to(Empty, Refused)
}

// backOff starts a backoff from the server because a connection exceeded a bound. The pool's lock is held.
func (p *Pool) backOff(t *tenant, excess error) {
	t.breaker.exceeded(time.Now())
	p.record.Drops++
	p.record.Excess = excess
	p.warn("an MCP server's connection was dropped", "tenant", t.name, "excess", excess, "offences", t.breaker.offences)
}

// unavailable returns the outage of a server that is not tried for the tenant right now. The pool's lock is held.
func (p *Pool) unavailable(t *tenant, wait time.Duration) *Outage {
	all := fmt.Sprintf("%s is unavailable and is tried again in %s: %s",
		p.o.Name, max(wait.Round(time.Second), time.Second), t.problem)
	if wait <= 0 {
		all = fmt.Sprintf("%s is unavailable; another call is testing it now: %s", p.o.Name, t.problem)
	}
	return &Outage{Problem: all, ModelText: p.unavailableText(t), Wait: wait}
}

// unavailableText tells the model that the server is unavailable for the tenant, and why. The pool's lock is held.
func (p *Pool) unavailableText(t *tenant) string {
	if t.modelText == "" {
		return p.o.Name + " is unavailable"
	}
	return p.o.Name + " is unavailable: " + t.modelText
}

// makeRoom ends the connection that has been idle longest if there are too many to add one. It prefers the tenants with
// the most connections, so that a tenant does not lose its connection to a tenant that has more. The pool's lock is
// held.
func (p *Pool) makeRoom(added Key) error {
	all, most := 0, 0
	for _, t := range p.tenants {
		all, most = all+t.evictable(), max(most, t.evictable())
	}
	if added.lasting() || all < maxConnections {
		return nil
	}
	oldest := cmp.Or(p.longestIdle(most), p.longestIdle(0))
	if oldest == nil {
		return outageOf(fmt.Sprintf("%s has %d connections on this worker, which is the maximum, and all of them are in use",
			p.o.Name, maxConnections))
	}
	oldest.to(Closing, Idle)
	return nil
}

// longestIdle returns the idle connection that was used longest ago, among the tenants with at least atLeast
// connections; nil if there is none. The pool's lock is held.
func (p *Pool) longestIdle(atLeast int) (oldest *Conn) {
	for _, t := range p.tenants {
		for _, c := range t.conns {
			if c.lasting() || c.state != Ready || c.users > 0 || t.evictable() < atLeast {
				continue
			}
			if oldest == nil || c.used.Before(oldest.used) {
				oldest = c
			}
		}
	}
	return oldest
}

// Found records that a call starts on the connection without expecting any state of the server.
func (c *Conn) Found(call string) {
	c.pool.lock()
	defer c.pool.unlock()
	c.owning = call
}

// Resume returns the connection with this key, with one more user, if it still holds the state that calls since owning
// have left at the server. It returns nil if that connection is gone, or if the turn has started over with another.
func (p *Pool) Resume(key Key, owning string) *Conn {
	p.lock()
	defer p.unlock()
	t := p.tenants[key.Tenant]
	if t == nil {
		return nil
	}
	c := t.conns[key.Turn]
	if c == nil || !c.bound || c.owning != owning || !c.enter() {
		return nil
	}
	return c
}

// Shared returns the connections that the tenants' turns share, each with one more user.
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

// Listing returns the link of the connection on which the host lists the server's tools; nil if there is none.
func (p *Pool) Listing() Link {
	p.lock()
	defer p.unlock()
	if c := p.tenants[""].conns[""]; c != nil {
		return c.link
	}
	return nil
}

// Resting reports whether the server is not connected because no user needs it.
func (p *Pool) Resting() bool {
	p.lock()
	defer p.unlock()
	return p.resting
}

// Wake ends the rest, so that the host lists the server again.
func (p *Pool) Wake() {
	p.lock()
	defer p.unlock()
	p.resting = false
}

// UntilRetry returns how long to wait for the next attempt to list the server; false if it is connected, or rests.
func (p *Pool) UntilRetry() (time.Duration, bool) {
	p.lock()
	defer p.unlock()
	t := p.tenants[""]
	if c := t.conns[""]; p.resting || c != nil && c.state != Connecting {
		return 0, false
	}
	return t.breaker.pause(time.Now()), true
}

// Close begins to drain all connections, without waiting for their calls. A connection that is being opened stops when
// the context of the pool is cancelled, which is up to its owner.
func (p *Pool) Close() {
	p.lock()
	defer p.unlock()
	for _, t := range p.tenants {
		for _, c := range t.conns {
			c.to(Draining, HostClosed)
		}
	}
}
