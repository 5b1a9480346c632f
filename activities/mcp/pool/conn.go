package pool

import (
	"fmt"
	"slices"
	"time"
)

// State is the state of a connection.
type State string

// The states.
const (
	Empty      State = "empty"      // not opened yet, or ended and cleaned up
	Connecting State = "connecting" // its host is opening a link
	Ready      State = "ready"      // users may enter
	Draining   State = "draining"   // takes no new users, and closes with its last one
	Closing    State = "closing"    // its link is being closed, or has broken and is being cleaned up
)

// transitions are the states that may follow a state.
var transitions = map[State][]State{
	Empty:      {Connecting},
	Connecting: {Ready, Empty},
	Ready:      {Draining, Closing},
	Draining:   {Closing},
	Closing:    {Empty},
}

// Cause is why a connection ends.
type Cause string

// The causes.
const (
	Idle       Cause = "idle"        // no user needed it; the server is healthy
	Crashed    Cause = "crashed"     // its link broke
	Exceeded   Cause = "exceeded"    // the server exceeded a bound
	Replaced   Cause = "replaced"    // its host does not want to use it any more
	Refused    Cause = "refused"     // it could not be opened
	HostClosed Cause = "host closed" // the pool was closed
)

// Key identifies a connection with the pool's server.
type Key struct {
	Tenant string // empty: the default tenant
	Turn   string // empty: the connection that the tenant's turns share
}

// lasting reports whether the connection does not count towards the bound: the host lists the server's tools on it.
func (k Key) lasting() bool { return k == Key{} }

// Link is an open connection as its host knows it. A link that a Conn holds reports its end to it: first Broken, if its
// host did not close it, and then Ended.
type Link interface {
	// Close ends the link within a bounded time. It may be called twice.
	Close()
	// Failure says why the link has ended.
	Failure() Failure
}

// Failure says why a connection could not be opened, or why it ended.
type Failure struct {
	Problem   string // for operators; it may quote the server
	ModelText string // for models: the host's own words
	Excess    error  // the bound that the server exceeded; nil: none
}

// Conn is one connection, from the attempt to open it until its link is cleaned up.
type Conn struct {
	Key
	pool   *Pool
	tenant *tenant

	// The pool's lock guards the fields below.
	state   State
	cause   Cause // why it ends; the first cause stands
	users   int
	link    Link   // nil until it is ready
	dead    []Link // links that broke before the connection was ready
	err     error  // why it could not be opened
	since   time.Time
	used    time.Time // when a user last needed it
	idle    *time.Timer
	answers int64  // the tenant's answered calls when the connection became ready
	bound   bool   // a call has reached the server, so the server's state belongs to a turn
	owning  string // the last call that started without expecting state of the server; later calls rely on its state
	broken  bool   // its link broke, and its host cleans up
	crashed bool   // its link broke while it was in use or draining
	lost    bool   // it crashed, or a call noticed that it is lost
	counted bool   // its excess was counted

	settled chan struct{} // closed when it is no longer Connecting
	ended   chan struct{} // closed when it is Empty again
}

// to moves the connection to a state. It returns false, and does nothing, if the state cannot follow the current one:
// something else has ended the connection before. The pool's lock is held.
func (c *Conn) to(s State, cause Cause) bool {
	if !slices.Contains(transitions[c.state], s) {
		return false
	}
	before := c.state
	c.state = s
	if c.cause == "" {
		c.cause = cause
	}
	p := c.pool
	switch {
	case before == Connecting:
		close(c.settled)
	case before == Ready && c.idle != nil:
		c.idle.Stop()
	}
	switch s {
	case Connecting:
		c.tenant.conns[c.Turn] = c
	case Ready:
		c.becomeReady()
	case Draining:
		c.vacate()
		if c.users == 0 {
			c.to(Closing, cause)
		}
	case Closing:
		if !c.broken {
			c.vacate()
			p.later(func() { p.start(c.link.Close) })
		}
	case Empty:
		c.vacate()
		close(c.ended)
	}
	p.changed()
	return true
}

func (c *Conn) becomeReady() {
	t, now := c.tenant, time.Now()
	t.breaker.connected()
	t.problem, t.modelText = "", ""
	c.since, c.used, c.answers = now, now, t.answers
	if c.lasting() {
		c.pool.resting = false
	}
	if after := c.pool.o.IdleTimeout; after > 0 {
		c.idle = time.AfterFunc(after, c.checkIdle)
	}
}

// vacate frees the connection's key, if it still has it.
func (c *Conn) vacate() {
	if c.tenant.conns[c.Turn] != c {
		return
	}
	delete(c.tenant.conns, c.Turn)
	if c.lasting() && c.cause != Refused {
		c.pool.resting = c.cause == Idle
	}
}

// Link returns the link that the connection holds. Only users of a connection call it.
func (c *Conn) Link() Link {
	c.pool.lock()
	defer c.pool.unlock()
	return c.link
}

// enter adds a user; false if the connection takes none. The pool's lock is held.
func (c *Conn) enter() bool {
	if c.state != Ready {
		return false
	}
	c.users++
	return true
}

// Stay adds a user to a connection that already has one.
func (c *Conn) Stay() {
	c.pool.lock()
	defer c.pool.unlock()
	c.users++
}

// Leave removes a user.
func (c *Conn) Leave() {
	c.pool.lock()
	defer c.pool.unlock()
	if c.users--; c.users == 0 && c.state == Draining {
		c.to(Closing, c.cause)
	}
}

// Used records that a call needs the connection now. reached tells whether it has reached the server.
func (c *Conn) Used(reached bool) {
	c.pool.lock()
	defer c.pool.unlock()
	c.used, c.bound = time.Now(), c.bound || reached
}

// Lose records that a call has found the connection lost. The link may report its end later.
func (c *Conn) Lose() {
	c.pool.lock()
	defer c.pool.unlock()
	c.lost = true
}

// OpenedAfter reports whether the connection became ready at t or later.
func (c *Conn) OpenedAfter(t time.Time) bool {
	c.pool.lock()
	defer c.pool.unlock()
	return !c.since.Before(t)
}

// Drain ends the connection when its last user has left; new callers get another one. excess is the bound that the
// server exceeded, if that is the reason. Drain returns false if the connection does not hold the link.
func (c *Conn) Drain(l Link, excess error) bool {
	p := c.pool
	p.lock()
	defer p.unlock()
	if c.link != l {
		return false
	}
	cause := Replaced
	if excess != nil {
		cause = Exceeded
		c.tenant.problem, c.tenant.modelText = excess.Error(), excess.Error()
		p.failed(excess.Error())
		c.countExcess(excess)
	}
	c.to(Draining, cause)
	return true
}

// Broken reports that a link has ended. The connection takes no more users; Ended must follow when the link is cleaned
// up.
func (c *Conn) Broken(l Link) {
	c.pool.lock()
	defer c.pool.unlock()
	if c.link != l {
		c.dead = append(c.dead, l)
		return
	}
	c.broken = c.state == Ready || c.state == Draining
	c.crashed = c.to(Closing, Crashed)
	c.lost = c.lost || c.crashed
}

// Ended reports that a link has ended and is cleaned up.
func (c *Conn) Ended(l Link) {
	f := l.Failure()
	p := c.pool
	p.lock()
	defer p.unlock()
	if c.link != l { // it was never used, and the host's failure to connect says why
		return
	}
	c.to(Closing, Crashed) // unless Broken has come before
	if p.ctx.Err() == nil {
		if c.cause != Idle {
			p.record.Restarts++
		}
		if c.crashed || f.Excess != nil {
			c.recordLoss(f)
		}
	}
	c.to(Empty, c.cause)
}

// steady is how long a connection must last to be useful without an answered call.
const steady = time.Second

// recordLoss records why the connection ended unexpectedly. The pool's lock is held.
func (c *Conn) recordLoss(f Failure) {
	p, t, now := c.pool, c.tenant, time.Now()
	t.problem, t.modelText = f.Problem, f.ModelText
	p.failed(f.Problem)
	if f.Excess != nil {
		c.countExcess(f.Excess)
	} else {
		t.breaker.lost(now, now.Sub(c.since) >= steady || t.answers > c.answers)
	}
	p.warn("an MCP server's connection was lost", "tenant", t.name, "soon", t.breaker.flaps, "why", f.ModelText)
}

// countExcess starts a backoff because the server exceeded a bound, once for the connection. The pool's lock is held.
func (c *Conn) countExcess(excess error) {
	if !c.counted {
		c.counted = true
		c.pool.backOff(c.tenant, excess)
	}
}

// checkIdle ends the connection if it has been idle for long enough. Otherwise it schedules the next check.
func (c *Conn) checkIdle() {
	c.pool.lock()
	defer c.pool.unlock()
	after := c.pool.o.IdleTimeout
	left := after - time.Since(c.used)
	switch {
	case c.state != Ready:
	case c.users > 0 || left > 0:
		c.idle.Reset(max(left, after/10, time.Millisecond))
	default:
		c.to(Closing, Idle)
	}
}

// String describes the connection for logs and tests.
func (c *Conn) String() string {
	c.pool.lock()
	defer c.pool.unlock()
	return fmt.Sprintf("%q/%q: %s, %d users", c.Tenant, c.Turn, c.state, c.users)
}
