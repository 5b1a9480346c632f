package toolbox

import (
	"slices"
	"strings"
	"time"
)

// State is a server's state as seen by this worker.
type State string

// The states.
const (
	StateIdle       State = "idle"       // not connected, because no caller needs it; no known failure
	StateConnecting State = "connecting" // starting, or listing its tools
	StateConnected  State = "connected"
	StateFailing    State = "failing" // in backoff until RetryAt, then tried once
)

// Health describes a server as this worker has seen it since the worker started. It contains no secret.
type Health struct {
	Server  string    `json:"server"`
	State   State     `json:"state"`
	Since   time.Time `json:"since"`             // when it entered this state
	RetryAt time.Time `json:"retry_at,omitzero"` // of StateFailing
	// LastError is the last failure, LastErrorAt its time. Both remain after the server has recovered.
	LastError   string    `json:"last_error,omitempty"`
	LastErrorAt time.Time `json:"last_error_at,omitzero"`
	// Stderr is the end of its last process's stderr, at most 1 KiB.
	Stderr      string `json:"stderr,omitempty"`
	Connections int    `json:"connections"` // open now
	// Processes are the latest starts and ends of its processes on this worker, oldest first.
	Processes []ProcessEvent `json:"processes,omitempty"`
	// Calls counts the calls admitted to the server, Failures those that got no answer. Restarts counts connections
	// that were in use and ended for a reason other than idleness.
	Calls    int64 `json:"calls"`
	Failures int64 `json:"failures"`
	Restarts int64 `json:"restarts"`
	// Drops counts connections that the worker dropped because the server exceeded a bound; Excess is the last such
	// bound.
	Drops  int64   `json:"drops,omitempty"`
	Excess *Excess `json:"excess,omitempty"`
	// Tenants are the default tenant, whose name is empty, and every tenant whose state is not idle, by name. It is
	// empty if the default tenant is the only one.
	Tenants []TenantHealth `json:"tenants,omitempty"`
}

// TenantHealth describes a server's state for one tenant, which has its own connections and processes.
type TenantHealth struct {
	Tenant      string    `json:"tenant"`
	State       State     `json:"state"`
	Since       time.Time `json:"since"`
	RetryAt     time.Time `json:"retry_at,omitzero"`
	Problem     string    `json:"problem,omitempty"` // of StateFailing
	Connections int       `json:"connections"`       // open now
}

// Health returns the health of each server, in configured order, without the local tools. It contacts no server.
func (h *Host) Health() []Health {
	var out []Health
	for _, id := range h.order {
		out = append(out, h.connectors[id].health())
	}
	return out
}

// record holds a connector's data for Health.
type record struct {
	state    State
	since    time.Time
	lastErr  string
	errAt    time.Time
	stderr   string
	calls    int64
	failures int64
	restarts int64
	drops    int64
	excess   *Excess
}

// note records a state and, if it is new, the time.
func (r *record) note(s State) {
	if r.state != s {
		r.state, r.since = s, time.Now()
	}
}

func (r *record) failed(why string) { r.lastErr, r.errAt = why, time.Now() }

// state returns the server's current state. The caller holds the connector's lock.
//
// With several tenants, it is the state that comes last in gravity.
func (c *connector) state() State {
	worst := StateIdle
	for _, p := range c.parties {
		if s := p.state(); slices.Index(gravity, s) > slices.Index(gravity, worst) {
			worst = s
		}
	}
	return worst
}

// gravity orders the states by their importance to an operator, least important first.
var gravity = []State{StateIdle, StateConnecting, StateConnected, StateFailing}

// connections counts the open connections. The caller holds the connector's lock.
func (c *connector) connections() int {
	n := 0
	for _, p := range c.parties {
		n += p.connections()
	}
	return n
}

func (c *connector) health() Health {
	stderr := c.currentStderr()
	c.mu.Lock()
	defer c.mu.Unlock()
	c.note() // states also change with time alone
	h := Health{
		Server: c.id(), State: c.record.state, Since: c.record.since, LastError: c.record.lastErr, LastErrorAt: c.record.errAt,
		Stderr: stderr, Connections: c.connections(), Calls: c.record.calls, Failures: c.record.failures, Restarts: c.record.restarts,
		Drops: c.record.drops, Excess: c.record.excess,
		Processes: c.processes.last(), Tenants: c.tenants(),
	}
	for _, p := range c.parties {
		if until := p.breaker.retryAt(); p.standing == StateFailing && (h.RetryAt.IsZero() || until.Before(h.RetryAt)) {
			h.RetryAt = until
		}
	}
	return h
}

// tenants returns the default tenant and the tenants that are not idle, or nil if the default one is the only one. The
// caller holds the connector's lock.
func (c *connector) tenants() (all []TenantHealth) {
	for tenant, p := range c.parties {
		t := TenantHealth{Tenant: tenant, State: p.standing, Since: p.since, Connections: p.connections()}
		if t.State == StateFailing {
			t.RetryAt, t.Problem = p.breaker.retryAt(), p.problem
		}
		if tenant == "" || t.State != StateIdle {
			all = append(all, t)
		}
	}
	if len(all) == 1 && all[0].Tenant == "" {
		return nil
	}
	slices.SortFunc(all, func(a, b TenantHealth) int { return strings.Compare(a.Tenant, b.Tenant) })
	return all[:min(len(all), maxTenantsTold)]
}

// maxTenantsTold bounds Health.Tenants. No more tenants than that have connections at the same time.
const maxTenantsTold = 2 * maxConnections

// currentStderr returns the stderr of the shared connection's process, or of the last process that ended.
func (c *connector) currentStderr() string {
	c.mu.Lock()
	kept, sl := c.record.stderr, c.shared().slots[""]
	var l *link
	if sl != nil && sl.current != nil {
		l = sl.current.link
	}
	c.mu.Unlock()
	if l != nil {
		if tail := c.stderrTail(l); tail != "" {
			return tail
		}
	}
	return kept
}

// keepStderr keeps the end of an ended process's stderr.
func (c *connector) keepStderr(l *link) {
	tail := c.stderrTail(l)
	if tail == "" {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.record.stderr = tail
}
