package mcp

import (
	"errors"
	"time"

	"github.com/everturn/everturn/activities/mcp/pool"
)

// State is a server's state as seen by this worker.
type State = pool.Status

// The states.
const (
	StateIdle       = pool.StatusIdle
	StateConnecting = pool.StatusConnecting
	StateConnected  = pool.StatusConnected
	StateFailing    = pool.StatusFailing
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
type TenantHealth = pool.TenantHealth

// Health returns the health of each server, in configured order. It contacts no server.
func (h *Host) Health() []Health {
	var out []Health
	for _, id := range h.order {
		out = append(out, h.connectors[id].health())
	}
	return out
}

// health returns the server's health, from the pool's record and the state of the server's processes.
func (c *connector) health() Health {
	r := c.pool.Record()
	h := Health{
		Server: c.id(), State: r.Status, Since: r.Since, RetryAt: r.RetryAt,
		LastError: r.LastError, LastErrorAt: r.LastErrorAt, Stderr: c.currentStderr(), Connections: r.Connections,
		Calls: r.Calls, Failures: r.Failures, Restarts: r.Restarts,
		Drops: r.Drops, Processes: c.processes.last(), Tenants: r.Tenants,
	}
	errors.As(r.Excess, &h.Excess)
	return h
}

// currentStderr returns the end of the stderr of the default tenant's shared process. If there is none, or it has
// written nothing, currentStderr returns the stderr of the last process that ended.
func (c *connector) currentStderr() string {
	if s, ok := c.pool.Listing().(*session); ok {
		if tail := c.stderrTail(s.link); tail != "" {
			return tail
		}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.stderr
}

// keepStderr keeps the end of the stderr of a link's process that has ended, for currentStderr.
func (c *connector) keepStderr(l *link) {
	tail := c.stderrTail(l)
	if tail == "" {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.stderr = tail
}
