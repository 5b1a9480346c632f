package toolbox

import (
	"cmp"
	"context"
	"fmt"
	"time"

	"github.com/everturn/everturn/workflows/turn"
)

// maxConnections bounds the connections with one server, not counting the default tenant's shared one: the other
// tenants' connections, and those that turns own with a stateful server. One more evicts the connection that has been
// idle longest.
const maxConnections = 64

// slot holds one connection: the one that a tenant's turns share, or the one that a turn owns with a stateful server.
type slot struct {
	party   *party
	turn    string // empty: shared
	current *session
	attempt *attempt
	resting bool // its connection ended because it was idle; the server is healthy
}

// acquire returns a live session of the tenant's slot with one more user, connecting if there is none. The error says
// why there is none.
func (c *connector) acquire(ctx context.Context, tenant, turnID string) (*session, error) {
	var p *party
	for range 4 { // a session may die between connecting and use
		var s *session
		var a *attempt
		var err error
		s, a, p, err = c.sessionOrAttempt(tenant, turnID)
		if s != nil || err != nil {
			return s, err
		}
		select {
		case <-a.done:
			if a.err != nil {
				return nil, a.err
			}
		case <-ctx.Done():
			return nil, inOurs(c.name() + " is still starting")
		}
	}
	text := c.name() + " ends as soon as it is started"
	return nil, &outage{all: text + c.lastWords(p), told: text}
}

func (c *connector) sessionOrAttempt(tenant, turnID string) (*session, *attempt, *party, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.ctx.Err() != nil {
		return nil, nil, nil, errHostClosed
	}
	p, err := c.party(tenant)
	if err != nil {
		return nil, nil, nil, err
	}
	sl := p.slots[turnID]
	switch {
	case sl != nil && sl.current != nil:
		if sl.current.enter() {
			return sl.current, nil, p, nil
		}
		return nil, &attempt{done: sl.current.lost}, p, nil // the old process exits before the next one starts
	case sl != nil && sl.attempt != nil:
		return nil, sl.attempt, p, nil
	}
	a, err := c.begin(p, turnID)
	return nil, a, p, err
}

// begin starts an attempt to connect. After failed attempts, only one attempt runs at a time and probes for all
// callers. The connector's lock is held.
func (c *connector) begin(p *party, turnID string) (*attempt, error) {
	wait := p.breaker.pause(time.Now())
	if wait > 0 || p.breaker.connects > 0 && p.connecting > 0 {
		return nil, c.unavailable(p, wait)
	}
	sl := p.slots[turnID]
	if sl == nil {
		sl = &slot{party: p, turn: turnID}
		if err := c.makeRoom(sl); err != nil {
			return nil, err
		}
	}
	a := &attempt{done: make(chan struct{})}
	if !c.running.start(func() { c.connect(sl, a) }) {
		return nil, errHostClosed
	}
	sl.attempt = a
	p.connecting++
	p.slots[turnID] = sl
	c.note()
	return a, nil
}

// lasting reports whether the slot stays when its connection ends. The default tenant's shared slot does, because the
// connector lists the catalogue there.
func (sl *slot) lasting() bool { return sl.turn == "" && sl.party.tenant == "" }

// makeRoom ends the connection that has been idle longest if there are too many to add one. It prefers the tenants with
// the most connections, so that a tenant does not lose its connection to a tenant that has more. The connector's lock
// is held.
func (c *connector) makeRoom(added *slot) error {
	all, most := 0, 0
	for _, p := range c.parties {
		all, most = all+p.own(), max(most, p.own())
	}
	if added.lasting() || all < maxConnections {
		return nil
	}
	oldest := cmp.Or(c.longestIdle(most), c.longestIdle(0))
	if oldest == nil {
		return inOurs(fmt.Sprintf("%s has %d connections on this worker, which is the most, and all of them are in use", c.name(), maxConnections))
	}
	delete(oldest.party.slots, oldest.turn) // no call can find it any more
	c.running.start(oldest.current.rest)
	return nil
}

// longestIdle returns the idle slot that was used longest ago, among the tenants with at least atLeast connections; nil
// if there is none. The connector's lock is held.
func (c *connector) longestIdle(atLeast int) *slot {
	var oldest *slot
	var since time.Time
	for _, p := range c.parties {
		for _, sl := range p.slots {
			if sl.lasting() || sl.current == nil || p.own() < atLeast {
				continue
			}
			if at, idle := sl.current.idleSince(); idle && (oldest == nil || at.Before(since)) {
				oldest, since = sl, at
			}
		}
	}
	return oldest
}

// vacate removes s from its slot. The connector's lock is held.
func (c *connector) vacate(s *session) {
	if sl := s.slot; sl != nil && sl.current == s {
		sl.current = nil
		c.forgetSlot(sl)
	}
}

// rested records that a session is being ended because it is idle.
func (c *connector) rested(s *session) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if s.slot.current == s {
		s.slot.resting = true
	}
	c.vacate(s)
	c.changed()
}

// forgetSlot deletes an empty slot. The connector's lock is held.
func (c *connector) forgetSlot(sl *slot) {
	if !sl.lasting() && sl.current == nil && sl.attempt == nil && sl.party.slots[sl.turn] == sl {
		delete(sl.party.slots, sl.turn)
	}
}

// connection returns the session for a call, with one more user. The session belongs to the call's tenant; with a
// stateful server it belongs to the turn. A turn that resumes with a stateful server gets the very session that it used
// before, or tool_state_lost: a new session would have lost the turn's state silently.
func (c *connector) connection(ctx context.Context, req turn.ToolRequest) (*session, error) {
	if !c.describer.server.Stateful || req.Turn == "" {
		return c.acquire(ctx, req.Tenant, "")
	}
	if !req.Resume {
		s, err := c.acquire(ctx, req.Tenant, req.Turn)
		if err == nil {
			s.found(req.CallID)
		}
		return s, err
	}
	if s := c.kept(req); s != nil {
		return s, nil
	}
	return nil, turn.Errorf(turn.CodeToolStateLost, nil, fmt.Sprintf("server state lost: what %s remembered of this turn went with its connection. "+
		"%s was not called. Begin again with that server if its state is needed", c.name(), req.Tool))
}

// kept returns the session that the turn used before, with one more user. It returns nil if that session is gone, or if
// the turn has started over with another session since this call was dispatched.
func (c *connector) kept(req turn.ToolRequest) *session {
	c.mu.Lock()
	defer c.mu.Unlock()
	p, err := c.party(req.Tenant)
	if err != nil {
		return nil
	}
	sl := p.slots[req.Turn]
	if sl == nil || sl.current == nil || !sl.current.holdsState(req.OwningCall) || !sl.current.enter() {
		return nil
	}
	return sl.current
}
