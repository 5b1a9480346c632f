package toolbox

import (
	"cmp"
	"context"
	"fmt"
	"time"

	"github.com/everturn/everturn/workflows/turn"
)

// maxConnections bounds the connections with one server beside the default tenant's shared one: those that tenants have,
// and those that turns have of their own with a stateful server. For one more, the one that was used longest ago goes.
const maxConnections = 64

// slot is the place of one connection: the one that a tenant's turns share, or that of a turn with a stateful server.
type slot struct {
	party   *party
	turn    string // empty: shared
	current *session
	attempt *attempt
	resting bool // its connection ended because nobody used it, and nothing is wrong
}

// acquire returns a live session of that tenant's slot with one more user, connecting where there is none. Its error says why
// there is none.
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
		return nil, &attempt{done: sl.current.lost}, p, nil // its process goes before the next one comes
	case sl != nil && sl.attempt != nil:
		return nil, sl.attempt, p, nil
	}
	a, err := c.begin(p, turnID)
	return nil, a, p, err
}

// begin starts an attempt to connect. After connects that failed there is one at a time: it finds out for all. The
// connector's lock is held.
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

// lasting: the slot and its name stay when its connection ends, because the catalogue is asked for there.
func (sl *slot) lasting() bool { return sl.turn == "" && sl.party.tenant == "" }

// makeRoom ends the connection that was idle longest where there are too many to add one: of the tenants that have most, so
// that no tenant loses what it has to another with more. The connector's lock is held.
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
	delete(oldest.party.slots, oldest.turn) // nobody finds it any more
	c.running.start(oldest.current.rest)
	return nil
}

// longestIdle is the slot that was used longest ago and is not in use, among those of tenants with at least so many; nil:
// there is none. The connector's lock is held.
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

// vacate takes s out of its slot. The connector's lock is held.
func (c *connector) vacate(s *session) {
	if sl := s.slot; sl != nil && sl.current == s {
		sl.current = nil
		c.forgetSlot(sl)
	}
}

// rested is told that a session is ended because nobody uses it.
func (c *connector) rested(s *session) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if s.slot.current == s {
		s.slot.resting = true
	}
	c.vacate(s)
	c.changed()
}

// forgetSlot forgets a slot with nothing in it. The connector's lock is held.
func (c *connector) forgetSlot(sl *slot) {
	if !sl.lasting() && sl.current == nil && sl.attempt == nil && sl.party.slots[sl.turn] == sl {
		delete(sl.party.slots, sl.turn)
	}
}

// connection is the session that a call is to go to, with one more user. It is one of the call's tenant; with a stateful
// server it is the turn's own. A turn that goes on with one gets the very session that it has used before, or
// tool_state_lost: a new one would know nothing of what the turn has done, and nobody would notice.
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

// kept is the session that the turn has used before, with one more user; nil where it is gone, be it that the turn has
// begun anew with another one since this call was dispatched.
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
