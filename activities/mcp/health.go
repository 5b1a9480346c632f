package mcp

import (
	"errors"

	"github.com/everturn/everturn/workflows/turn"
)

// Health returns the health of each server, in configured order. It contacts no server.
func (h *Host) Health() []turn.ServerHealth {
	var out []turn.ServerHealth
	for _, id := range h.order {
		out = append(out, h.connectors[id].health())
	}
	return out
}

// health returns the server's health, from the pool's record and the state of the server's processes.
func (c *connector) health() turn.ServerHealth {
	r := c.pool.Record()
	h := turn.ServerHealth{
		Server: c.id(), State: r.Status, Since: r.Since, RetryAt: r.RetryAt,
		LastError: r.LastError, LastErrorAt: r.LastErrorAt, Stderr: c.currentStderr(), Connections: r.Connections,
		Calls: r.Calls, Failures: r.Failures, Restarts: r.Restarts,
		Drops: r.Drops, Processes: c.processes.last(), Tenants: r.Tenants,
	}
	var excess *Excess
	if errors.As(r.Excess, &excess) {
		h.Excess = &turn.ExceededBound{Bound: string(excess.Bound), Limit: excess.Limit, Burst: excess.Burst, At: excess.At}
	}
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
