package toolbox

import (
	"slices"
	"strings"
	"time"
)

// State is how a server stands with this worker.
type State string

// The states.
const (
	StateIdle       State = "idle"       // not connected, because nobody needs it; nothing is known to be wrong
	StateConnecting State = "connecting" // it is being started, or asked what it offers
	StateConnected  State = "connected"
	StateFailing    State = "failing" // it is left alone until RetryAt, and then tried once
)

// Health is how a server does, as this worker has seen it since it started. It holds no secret.
type Health struct {
	Server  string    `json:"server"`
	State   State     `json:"state"`
	Since   time.Time `json:"since"`             // when it came into this state
	RetryAt time.Time `json:"retry_at,omitzero"` // of StateFailing
	// LastError is what went wrong last, LastErrorAt when. A server that is well again keeps it.
	LastError   string    `json:"last_error,omitempty"`
	LastErrorAt time.Time `json:"last_error_at,omitzero"`
	// Stderr is the end of what its process said there last, at most 1 KiB.
	Stderr      string `json:"stderr,omitempty"`
	Connections int    `json:"connections"` // open now
	// Processes are the last starts and ends of its processes on this worker, the oldest first.
	Processes []ProcessEvent `json:"processes,omitempty"`
	// Calls were sent, or meant to be; Failures are those of them to which no answer came. Restarts counts connections
	// that were lost or given up.
	Calls    int64 `json:"calls"`
	Failures int64 `json:"failures"`
	Restarts int64 `json:"restarts"`
	// Drops are those of them that the worker dropped because the server exceeded a bound; Excess is the last such bound.
	Drops  int64   `json:"drops,omitempty"`
	Excess *Excess `json:"excess,omitempty"`
	// Tenants are the default tenant, whose name is empty, and those with whom there is something going on, by name. It is
	// empty where there is only the default one.
	Tenants []TenantHealth `json:"tenants,omitempty"`
}

// TenantHealth is how a server stands with one tenant, who has connections and processes of its own.
type TenantHealth struct {
	Tenant      string    `json:"tenant"`
	State       State     `json:"state"`
	Since       time.Time `json:"since"`
	RetryAt     time.Time `json:"retry_at,omitzero"`
	Problem     string    `json:"problem,omitempty"` // of StateFailing
	Connections int       `json:"connections"`       // open now
}

// Health returns how each server does, in configured order. The local tools are not among them. It asks nobody.
func (h *Host) Health() []Health {
	var out []Health
	for _, id := range h.order {
		if c := h.connectors[id]; c.local == nil {
			out = append(out, c.health())
		}
	}
	return out
}

// record is what a connector keeps of how its server does.
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

// note takes down a state, and since when it is so.
func (r *record) note(s State) {
	if r.state != s {
		r.state, r.since = s, time.Now()
	}
}

func (r *record) failed(why string) { r.lastErr, r.errAt = why, time.Now() }

// state is the server's state now. The connector's lock is held.
//
// With several tenants it is that of the one with whom it stands worst, and else of the one with whom there is most going on.
func (c *connector) state() State {
	worst := StateIdle
	for _, p := range c.parties {
		if s := p.state(); slices.Index(gravity, s) > slices.Index(gravity, worst) {
			worst = s
		}
	}
	return worst
}

// gravity orders the states by what an operator would rather hear of.
var gravity = []State{StateIdle, StateConnecting, StateConnected, StateFailing}

// connections counts those that are open. The connector's lock is held.
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
	c.note() // for what has changed by itself, with time
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

// tenants are those with whom there is something going on, and the default one; none where there is no other. The
// connector's lock is held.
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

// maxTenantsTold bounds Health.Tenants: more than that have no connections at the same time.
const maxTenantsTold = 2 * maxConnections

// currentStderr is what the shared connection's process says, or what the last one that ended said.
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

// keepStderr keeps the end of what a process said that is gone.
func (c *connector) keepStderr(l *link) {
	tail := c.stderrTail(l)
	if tail == "" {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.record.stderr = tail
}
