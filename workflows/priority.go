package workflows

import "go.temporal.io/sdk/temporal"

// The priorities of tasks, which order a backlog: lower ones are scheduled first. Once a turn has had its first
// inference, its tasks outrank those of turns that have not begun: otherwise many turns would begin and none would end.
// Turns that a user waits for outrank turns of schedules.
const (
	interactiveStart = 3 // the server's default, and so that of clients that set none
	backgroundStart  = 5
)

// Priority returns the priority with which a client starts a turn. The tenant is the key by which the server divides a
// backlog fairly, if it is configured to.
func Priority(tenant string, background bool) temporal.Priority {
	p := temporal.Priority{PriorityKey: interactiveStart, FairnessKey: tenant}
	if background {
		p.PriorityKey = backgroundStart
	}
	return p
}

// priority returns the priority of an activity. first is set for the turn's first inference. The run's own priority does
// not count: a chain of runs has that of its first turn.
func (r *run) priority(first bool) temporal.Priority {
	p := Priority(r.in.Tenant, r.progress.Config.Background)
	if !first {
		p.PriorityKey--
	}
	return p
}
