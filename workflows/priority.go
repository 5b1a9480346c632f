package workflows

import "go.temporal.io/sdk/temporal"

// The priority keys of turns that begin. Temporal schedules tasks with lower keys first. After its first inference a
// turn gets the next lower key (see run.priority), so that under load running turns end before new ones begin. Turns
// that a user waits for come before background turns.
const (
	interactiveStart = 3 // the server's default for clients that set none
	backgroundStart  = 5
)

// Priority returns the priority with which a client starts a turn. The tenant is the fairness key, by which the server
// divides its capacity between tenants if it is configured to.
func Priority(tenant string, background bool) temporal.Priority {
	p := temporal.Priority{PriorityKey: interactiveStart, FairnessKey: tenant}
	if background {
		p.PriorityKey = backgroundStart
	}
	return p
}

// priority returns the priority of an activity of the turn. first is true for the turn's first inference. It is not the
// workflow's own priority, which stays as the client set it.
func (r *run) priority(first bool) temporal.Priority {
	p := Priority(r.in.Tenant, r.progress.Config.Background)
	if !first {
		p.PriorityKey--
	}
	return p
}
