package toolbox

import (
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/everturn/everturn/activities/toolbox/stdio"
)

// ProcessEvent is the start or the end of a server's process.
type ProcessEvent struct {
	At     time.Time `json:"at"`
	PID    int       `json:"pid"`
	Tenant string    `json:"tenant,omitempty"`
	// Ended says how the process ended, such as "exit status 1"; empty: it started.
	Ended string `json:"ended,omitempty"`
}

// maxProcessEvents bounds Health.Processes.
const maxProcessEvents = 8

// processes logs a server's processes and keeps their last events. It has its own lock, because a process may end while
// the connector's lock is held.
type processes struct {
	server string
	log    *slog.Logger

	mu     sync.Mutex
	events []ProcessEvent
}

// saw records that a process has started or ended.
func (p *processes) saw(tenant string, process *stdio.Process) {
	e := ProcessEvent{At: time.Now(), PID: process.PID(), Tenant: tenant, Ended: process.State()}
	log := p.log.With("server", p.server, "tenant", tenant, "pid", e.PID)
	switch {
	case e.Ended == "":
		log.Info("an MCP server's process started")
	case process.Fate() == "": // the worker stopped it
		log.Info("an MCP server's process ended", "with", e.Ended)
	default:
		log.Warn("an MCP server's process ended", "with", e.Ended)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.events = append(p.events, e)
	p.events = slices.Clone(p.events[max(0, len(p.events)-maxProcessEvents):])
}

// last returns the last events, the oldest first.
func (p *processes) last() []ProcessEvent {
	if p == nil { // a server without a local process
		return nil
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.events
}
