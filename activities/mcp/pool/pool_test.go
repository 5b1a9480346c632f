package pool

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/everturn/everturn/workflows/turn"
)

// fakeLink is a link whose end the test decides.
type fakeLink struct {
	conn   *Conn
	open   bool // it has not ended by itself and was not closed
	excess error
}

func (l *fakeLink) Close() {
	if l.open {
		l.open = false
		l.conn.Broken(l)
		l.conn.Ended(l)
	}
}

func (l *fakeLink) Failure() Failure {
	return Failure{Problem: "lost", ModelText: "lost", Excess: l.excess}
}

// opening is how an attempt to connect goes.
type opening int

const (
	opens     opening = iota
	stillborn         // the link ends before its connection is ready
	refuses
)

// machine is a pool whose goroutines run when the test says so, one after the other.
type machine struct {
	pool   *Pool
	cancel context.CancelFunc
	tasks  []func()
	conns  []*Conn
	links  []*fakeLink
	users  []*Conn // one element for each user
	broken []*fakeLink

	next   func() opening // how the next attempt to connect goes
	closed bool           // no goroutine starts any more
}

func newMachine(t interface{ Cleanup(func()) }) *machine {
	m := &machine{next: func() opening { return opens }}
	var ctx context.Context
	ctx, m.cancel = context.WithCancel(context.Background())
	t.Cleanup(m.cancel)
	m.pool = New(ctx, Options{
		Name: "the server", Dial: m.dial, Changed: func() {}, Log: slog.New(slog.DiscardHandler), MaxCalls: 4,
		ConnectTimeout: time.Hour, IdleTimeout: time.Hour, BackoffMin: time.Nanosecond, BackoffMax: time.Nanosecond,
		Go: func(f func()) bool {
			if m.closed {
				return false
			}
			m.tasks = append(m.tasks, f)
			return true
		},
	})
	return m
}

func (m *machine) dial(_ context.Context, c *Conn) (Link, *Failure) {
	how := m.next()
	if how == refuses {
		return nil, &Failure{Problem: "refused", ModelText: "refused"}
	}
	l := &fakeLink{conn: c, open: true}
	m.links = append(m.links, l)
	if how == stillborn {
		l.Close()
	}
	return l, nil
}

// run runs the goroutine at i until it ends.
func (m *machine) run(i int) {
	f := m.tasks[i]
	m.tasks = slices.Delete(m.tasks, i, i+1)
	f()
}

// acquire is Pool.Acquire without waiting.
func (m *machine) acquire(key Key) {
	c, wait, err := m.pool.findOrOpen(key)
	if err != nil {
		return
	}
	if !slices.Contains(m.conns, c) {
		m.conns = append(m.conns, c)
	}
	if wait == nil {
		m.users = append(m.users, c)
	}
}

// check checks what holds in every state.
func (m *machine) check(t require.TestingT) {
	users := map[*Conn]int{}
	for _, c := range m.users {
		users[c]++
	}
	holders := map[Key]int{}
	for _, c := range m.conns {
		require.Equal(t, users[c], c.users, "%s", c)
		if c.tenant.conns[c.Turn] == c {
			holders[c.Key]++
			require.NotEqual(t, Draining, c.state, "a connection that takes no new users has its key")
			require.NotEqual(t, Empty, c.state, "a connection that has ended has its key")
		} else {
			require.NotContains(t, []State{Connecting, Ready}, c.state, "a connection that is used has lost its key")
		}
		require.False(t, c.state == Draining && c.users == 0, "it drains, but has no user")
		require.Equal(t, c.state == Empty, isClosed(c.ended))
		require.Equal(t, c.state != Connecting, isClosed(c.settled))
	}
	for key, n := range holders {
		require.Equal(t, 1, n, "connections with the key %v", key)
	}
	require.False(t, m.pool.tenants[""].calls < 0)
}

func isClosed(ch <-chan struct{}) bool {
	select {
	case <-ch:
		return true
	default:
		return false
	}
}

// settle lets everything under way end: the users leave, links that broke are cleaned up, and the goroutines run.
func (m *machine) settle(t require.TestingT) {
	for len(m.users)+len(m.tasks)+len(m.broken) > 0 {
		for _, c := range m.users {
			c.Leave()
		}
		m.users = nil
		for _, l := range m.broken {
			l.conn.Ended(l)
		}
		m.broken = nil
		for len(m.tasks) > 0 {
			m.run(0)
		}
	}
	m.check(t)
}

// TestAnySequenceKeepsTheStatesInOrder makes random sequences of everything that can happen to connections: users come
// and go, links open, break and are cleaned up, connections are drained and idle, in any order of the goroutines. No
// connection has fewer than no users, there is at most one connection for each key, and each one that closes ends.
func TestAnySequenceKeepsTheStatesInOrder(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		m := newMachine(t)
		keys := []Key{{}, {Tenant: "acme"}, {Turn: "1"}, {Tenant: "acme", Turn: "1"}}
		pick := func(n int) int { return rapid.IntRange(0, n-1).Draw(t, "pick") }
		m.next = func() opening { return max(opening(pick(8))-5, opens) } // opens mostly
		open := func() (all []*fakeLink) {
			for _, l := range m.links {
				if l.open {
					all = append(all, l)
				}
			}
			return all
		}
		t.Repeat(map[string]func(*rapid.T){
			"":        func(t *rapid.T) { m.check(t) },
			"acquire": func(*rapid.T) { m.acquire(keys[pick(len(keys))]) },
			"enter":   func(*rapid.T) { m.acquire(keys[pick(2)]) },
			"run": func(*rapid.T) {
				if len(m.tasks) > 0 {
					m.run(pick(len(m.tasks)))
				}
			},
			"leave": func(*rapid.T) {
				if len(m.users) > 0 {
					i := pick(len(m.users))
					c := m.users[i]
					m.users = slices.Delete(m.users, i, i+1)
					c.Leave()
				}
			},
			"break": func(*rapid.T) {
				if all := open(); len(all) > 0 {
					l := all[pick(len(all))]
					l.open = false
					if rapid.Bool().Draw(t, "exceeds") {
						l.excess = errors.New("too much")
					}
					l.conn.Broken(l)
					m.broken = append(m.broken, l)
				}
			},
			"clean up": func(*rapid.T) {
				if len(m.broken) > 0 {
					i := pick(len(m.broken))
					l := m.broken[i]
					m.broken = slices.Delete(m.broken, i, i+1)
					l.conn.Ended(l)
				}
			},
			"drain": func(*rapid.T) {
				if len(m.links) > 0 {
					l := m.links[pick(len(m.links))]
					l.conn.Drain(l, l.excess)
				}
			},
			"idle": func(*rapid.T) {
				if len(m.conns) > 0 {
					c := m.conns[pick(len(m.conns))]
					c.lastUsed = time.Time{}
					c.checkIdle()
				}
			},
			"a turn resumes":     func(*rapid.T) { m.resume(keys[pick(len(keys))]) },
			"the server answers": func(*rapid.T) { m.answer() },
		})
		m.settle(t)
		m.cancel()
		m.pool.Close()
		m.closed = rapid.Bool().Draw(t, "the host starts nothing any more")
		m.settle(t)
		for _, c := range m.conns {
			require.Equal(t, Empty, c.state, "%s", c)
			require.Zero(t, c.users)
		}
		for _, l := range m.links {
			require.False(t, l.open, "a link is left open")
		}
	})
}

func (m *machine) resume(key Key) {
	if c := m.pool.Resume(key, "1.0"); c != nil {
		m.users = append(m.users, c)
	}
}

func (m *machine) answer() {
	for _, c := range m.users {
		c.Found("1.0")
		c.Used(true)
		c.Answered()
	}
}

// TestALinkThatEndedBeforeItsUseIsNotUsed checks that a link that ends between its opening and its first use is not
// used, and that the next one is.
func TestALinkThatEndedBeforeItsUseIsNotUsed(t *testing.T) {
	m := newMachine(t)
	m.next = func() opening { return stillborn }
	m.acquire(Key{})
	m.run(0)
	m.check(t)
	require.Equal(t, Empty, m.conns[0].state)
	assert.ErrorContains(t, m.conns[0].err, errLostAtOnce.Error())
	assert.Zero(t, m.pool.Record().Restarts, "it was not in use")
	m.next = func() opening { return opens }
	time.Sleep(time.Nanosecond) // the backoff
	m.acquire(Key{})
	m.run(0)
	m.acquire(Key{})
	m.check(t)
	assert.Len(t, m.users, 1)
}

// TestTheCauseOfAnEndDecidesWhatItSaysAboutTheServer covers what the operator is told.
func TestTheCauseOfAnEndDecidesWhatItSaysAboutTheServer(t *testing.T) {
	for cause, tc := range map[Cause]struct {
		end                     func(c *Conn, l *fakeLink)
		restarts, drops, status any
	}{
		Idle:     {func(c *Conn, _ *fakeLink) { c.lastUsed = time.Time{}; c.checkIdle() }, int64(0), int64(0), turn.ServerIdle},
		Replaced: {func(c *Conn, l *fakeLink) { c.Drain(l, nil) }, int64(1), int64(0), turn.ServerIdle},
		Crashed:  {func(c *Conn, l *fakeLink) { l.Close() }, int64(1), int64(0), turn.ServerIdle},
		Exceeded: {func(c *Conn, l *fakeLink) {
			l.excess = errors.New("too much")
			c.Drain(l, l.excess)
		}, int64(1), int64(1), turn.ServerFailing},
	} {
		t.Run(string(cause), func(t *testing.T) {
			m := newMachine(t)
			m.pool.opts.BackoffMax = time.Hour
			m.pool.tenants[""].breaker.maxPause = time.Hour
			m.acquire(Key{})
			m.run(0)
			c := m.conns[0]
			require.Equal(t, Ready, c.state, fmt.Sprint(c))
			tc.end(c, m.links[0])
			m.settle(t)
			assert.Equal(t, cause, c.cause)
			r := m.pool.Record()
			assert.Equal(t, tc.restarts, r.Restarts)
			assert.Equal(t, tc.drops, r.Drops)
			assert.Equal(t, tc.status, r.Status)
			assert.Equal(t, cause == Idle, m.pool.Resting())
		})
	}
}

// TestOneConnectionTooManyEvictsTheOneThatIsIdleLongest covers turns that own connections with a stateful server. A
// tenant with many of them makes room with its own, and a connection in use is never evicted.
func TestOneConnectionTooManyEvictsTheOneThatIsIdleLongest(t *testing.T) {
	m := newMachine(t)
	open := func(key Key) {
		m.acquire(key)
		for len(m.tasks) > 0 {
			m.run(0)
		}
	}
	has := func(key Key) bool { return m.pool.tenants[key.Tenant].conns[key.Turn] != nil }
	turnOf := func(i int) Key { return Key{Tenant: "beta", Turn: fmt.Sprint(i)} }
	open(Key{})
	open(Key{Tenant: "acme", Turn: "oldest"})
	for i := range maxConnections + 1 {
		open(turnOf(i))
	}
	assert.True(t, has(Key{}) && has(Key{Tenant: "acme", Turn: "oldest"}), "they paid for what beta does")
	assert.False(t, has(turnOf(0)) || has(turnOf(1)), "they were idle longest")
	assert.True(t, has(turnOf(2)) && has(turnOf(maxConnections)))

	for _, c := range m.conns {
		if c.state == Ready {
			c.users++
			m.users = append(m.users, c)
		}
	}
	_, _, err := m.pool.findOrOpen(Key{Tenant: "gamma"})
	assert.ErrorContains(t, err, "64 connections on this worker")
	m.settle(t)
	open(Key{Tenant: "gamma"})
	assert.True(t, has(Key{Tenant: "gamma"}))
}
