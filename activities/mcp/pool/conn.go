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
	Replaced   Cause = "replaced"    // its host has replaced it, for instance because a call did not end
	Refused    Cause = "refused"     // it could not be opened
	HostClosed Cause = "host closed" // the pool was closed
)

// Key identifies a connection with the pool's server.
type Key struct {
	Tenant string // empty: the default tenant
	Turn   string // empty: the connection that the tenant's turns share
}

// listsTools reports whether k is the key of the default tenant's shared connection, on which the host lists the
// server's tools. That connection is never evicted and does not count towards maxConnections.
func (k Key) listsTools() bool { return k == Key{} }

// Link is the host's side of an open connection, such as an MCP session. When it ends, the host reports this to the
// Conn that holds it: first with Broken, unless the host itself has closed the link, and then, when the link is cleaned
// up, with Ended.
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
	state         State
	cause         Cause // why it ends; the first cause stands
	users         int
	link          Link      // nil until it is ready
	deadLinks     []Link    // links that broke before the connection was ready
	err           error     // why it could not be opened
	readyAt       time.Time // when it became ready
	lastUsed      time.Time // when a call last needed it
	idle          *time.Timer
	answers       int64  // the tenant's answered calls when the connection became ready
	reachedServer bool   // a call has reached the server, which may now keep state of a turn
	owningCall    string // with which the server's state for the turn began: see Found
	broken        bool   // its link broke while it was ready or draining
	crashed       bool   // its link broke, and nothing else had begun to close it
	lost          bool   // it crashed, or a call noticed that it is lost
	excessCounted bool   // the bound that the server exceeded on it has caused a pause

	settled chan struct{} // closed when it is no longer Connecting
	ended   chan struct{} // closed when it is Empty again
}

// setState moves the connection to state s and does what the new state requires. cause is why the connection ends;
// empty if it does not. setState returns false, and does nothing, if s may not follow the current state: something else
// has already begun to end the connection. The pool's lock is held.
func (c *Conn) setState(s State, cause Cause) bool {
	if !slices.Contains(transitions[c.state], s) {
		return false
	}
	before := c.state
	c.state = s
	if c.cause == "" { // the first cause stands
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
		c.freeKey()
		if c.users == 0 {
			c.setState(Closing, cause)
		}
	case Closing:
		if !c.broken { // a broken connection keeps its key until its old process has exited
			c.freeKey()
			p.afterUnlock(func() { p.start(c.link.Close) })
		}
	case Empty:
		c.freeKey()
		close(c.ended)
	}
	p.changed()
	return true
}

// becomeReady records a successful connect and starts the check for idleness. The pool's lock is held.
func (c *Conn) becomeReady() {
	t, now := c.tenant, time.Now()
	t.breaker.connected()
	t.problem, t.modelText = "", ""
	c.readyAt, c.lastUsed, c.answers = now, now, t.answers
	if c.listsTools() {
		c.pool.resting = false
	}
	if after := c.pool.opts.IdleTimeout; after > 0 {
		c.idle = time.AfterFunc(after, c.checkIdle)
	}
}

// freeKey lets another connection have the key, if this connection still has it. If the host lists tools on the
// connection, freeKey also records whether the connection rests because it was idle. The pool's lock is held.
func (c *Conn) freeKey() {
	if c.tenant.conns[c.Turn] != c {
		return
	}
	delete(c.tenant.conns, c.Turn)
	if c.listsTools() && c.cause != Refused { // a refused connection never was ready, so it changes nothing
		c.pool.resting = c.cause == Idle
	}
}

// Link returns the link that the connection holds. Only users of the connection may call it.
func (c *Conn) Link() Link {
	c.pool.lock()
	defer c.pool.unlock()
	return c.link
}

// enter adds a user; it returns false if the connection takes no new users. The pool's lock is held.
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
		c.setState(Closing, c.cause)
	}
}

// Used records that a call needs the connection now, so that it does not count as idle. reached means that the call has
// reached the server.
func (c *Conn) Used(reached bool) {
	c.pool.lock()
	defer c.pool.unlock()
	c.lastUsed, c.reachedServer = time.Now(), c.reachedServer || reached
}

// Lose records that a call has noticed that the connection is lost, before the link reports its end.
func (c *Conn) Lose() {
	c.pool.lock()
	defer c.pool.unlock()
	c.lost = true
}

// OpenedAfter reports whether the connection became ready at t or later.
func (c *Conn) OpenedAfter(t time.Time) bool {
	c.pool.lock()
	defer c.pool.unlock()
	return !c.readyAt.Before(t)
}

// Drain closes the connection when its last user has left; new callers get another connection. excess is the bound that
// the server exceeded, or nil if that is not the reason. Drain returns false, and does nothing, if the connection does
// not hold the link l.
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
		p.setLastError(excess.Error())
		c.countExcess(excess)
	}
	c.setState(Draining, cause)
	return true
}

// Broken reports that the link l has ended. The connection takes no more users; Ended must follow when the link is
// cleaned up. If the connection does not hold the link yet, Broken notes that it must not be installed.
func (c *Conn) Broken(l Link) {
	c.pool.lock()
	defer c.pool.unlock()
	if c.link != l {
		c.deadLinks = append(c.deadLinks, l)
		return
	}
	c.broken = c.state == Ready || c.state == Draining
	c.crashed = c.setState(Closing, Crashed)
	c.lost = c.lost || c.crashed
}

// Ended reports that the link l has ended and is cleaned up, which frees the connection's key. Unless the pool is
// closed, Ended counts an end for another reason than idleness as a restart, and reports a crash or an exceeded bound
// to the breaker.
func (c *Conn) Ended(l Link) {
	f := l.Failure()
	p := c.pool
	p.lock()
	defer p.unlock()
	if c.link != l { // it was never used, and the host's failure to connect says why
		return
	}
	c.setState(Closing, Crashed) // does nothing if Broken or a close has come before
	if p.ctx.Err() == nil {
		if c.cause != Idle {
			p.record.Restarts++
		}
		if c.crashed || f.Excess != nil {
			c.recordLoss(f)
		}
	}
	c.setState(Empty, c.cause)
}

// usefulAfter is how long a connection must last to count as useful if no call on it was answered.
const usefulAfter = time.Second

// recordLoss records why the connection ended unexpectedly, and reports it to the breaker. The pool's lock is held.
func (c *Conn) recordLoss(f Failure) {
	p, t, now := c.pool, c.tenant, time.Now()
	t.problem, t.modelText = f.Problem, f.ModelText
	p.setLastError(f.Problem)
	if f.Excess != nil {
		c.countExcess(f.Excess)
	} else {
		useful := now.Sub(c.readyAt) >= usefulAfter || t.answers > c.answers
		t.breaker.lost(now, useful)
	}
	p.warn("an MCP server's connection was lost", "tenant", t.name, "soon", t.breaker.flaps, "why", f.ModelText)
}

// countExcess starts a backoff because the server exceeded a bound, but only once for each connection: both Drain and
// Ended may report it. The pool's lock is held.
func (c *Conn) countExcess(excess error) {
	if !c.excessCounted {
		c.excessCounted = true
		c.pool.backOff(c.tenant, excess)
	}
}

// checkIdle closes the connection if it has been idle for IdleTimeout. Otherwise it schedules the next check.
func (c *Conn) checkIdle() {
	c.pool.lock()
	defer c.pool.unlock()
	after := c.pool.opts.IdleTimeout
	remaining := after - time.Since(c.lastUsed)
	switch {
	case c.state != Ready: // it is ending already
	case c.users > 0 || remaining > 0:
		c.idle.Reset(max(remaining, after/10, time.Millisecond)) // a user may stay for long: do not check constantly
	default:
		c.setState(Closing, Idle)
	}
}

// String describes the connection for logs and tests.
func (c *Conn) String() string {
	c.pool.lock()
	defer c.pool.unlock()
	return fmt.Sprintf("%q/%q: %s, %d users", c.Tenant, c.Turn, c.state, c.users)
}
