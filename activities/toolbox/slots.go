package toolbox

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/everturn/everturn/workflows/turn"
)

// maxTurnConnections bounds the connections that turns have of their own with one stateful server. For one more, the one
// that was used longest ago goes.
const maxTurnConnections = 64

// slot is the place of one connection: the one that is shared, or that of a turn with a stateful server.
type slot struct {
	turn    string // empty: shared
	current *session
	attempt *attempt
	resting bool // its connection ended because nobody used it, and nothing is wrong
}

// acquire returns a live session of that slot with one more user, connecting where there is none. Its error says why
// there is none.
func (c *connector) acquire(ctx context.Context, turnID string) (*session, error) {
	for range 4 { // a session may die between connecting and use
		s, a, err := c.sessionOrAttempt(turnID)
		if s != nil || err != nil {
			return s, err
		}
		select {
		case <-a.done:
			if a.err != nil {
				return nil, a.err
			}
		case <-ctx.Done():
			return nil, fmt.Errorf("%s is still starting: %w", c.name(), context.Cause(ctx))
		}
	}
	return nil, fmt.Errorf("%s ends as soon as it is started%s", c.name(), c.lastWords())
}

func (c *connector) sessionOrAttempt(turnID string) (*session, *attempt, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.ctx.Err() != nil {
		return nil, nil, errHostClosed
	}
	sl := c.slots[turnID]
	switch {
	case sl != nil && sl.current != nil:
		if sl.current.enter() {
			return sl.current, nil, nil
		}
		return nil, &attempt{done: sl.current.lost}, nil // its process goes before the next one comes
	case sl != nil && sl.attempt != nil:
		return nil, sl.attempt, nil
	}
	a, err := c.begin(turnID)
	return nil, a, err
}

// begin starts an attempt to connect. After connects that failed there is one at a time: it finds out for all. The
// connector's lock is held.
func (c *connector) begin(turnID string) (*attempt, error) {
	wait := c.breaker.pause(time.Now())
	if wait > 0 || c.breaker.connects > 0 && c.connecting > 0 {
		return nil, c.unavailable(wait)
	}
	sl := c.slots[turnID]
	if sl == nil {
		if err := c.makeRoom(turnID); err != nil {
			return nil, err
		}
		sl = &slot{turn: turnID}
	}
	a := &attempt{done: make(chan struct{})}
	if !c.running.start(func() { c.connect(sl, a) }) {
		return nil, errHostClosed
	}
	sl.attempt = a
	c.connecting++
	c.slots[turnID] = sl
	c.record.note(c.state())
	return a, nil
}

// makeRoom ends the connection of a turn that was idle longest where there are too many. The connector's lock is held.
func (c *connector) makeRoom(turnID string) error {
	others := len(c.slots)
	if c.slots[""] != nil {
		others--
	}
	if turnID == "" || others < maxTurnConnections {
		return nil
	}
	oldest := c.longestIdle()
	if oldest == nil {
		return fmt.Errorf("%s has connections with %d turns, which is the most, and all of them are in use", c.name(), maxTurnConnections)
	}
	delete(c.slots, oldest.turn) // nobody finds it any more
	c.running.start(oldest.current.rest)
	return nil
}

// longestIdle is the turn's slot that was used longest ago and is not in use; nil: there is none. The connector's lock is
// held.
func (c *connector) longestIdle() *slot {
	var oldest *slot
	var since time.Time
	for _, sl := range c.slots {
		if sl.turn == "" || sl.current == nil {
			continue
		}
		if at, idle := sl.current.idleSince(); idle && (oldest == nil || at.Before(since)) {
			oldest, since = sl, at
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

// forgetSlot forgets a turn's slot with nothing in it. The connector's lock is held.
func (c *connector) forgetSlot(sl *slot) {
	if sl.turn != "" && sl.current == nil && sl.attempt == nil && c.slots[sl.turn] == sl {
		delete(c.slots, sl.turn)
	}
}

// connection is the session that a call is to go to, with one more user. With a stateful server it is the turn's own. A
// turn that goes on with one gets the very session that it has used before, or tool_state_lost: a new one would know
// nothing of what the turn has done, and nobody would notice.
func (c *connector) connection(ctx context.Context, req turn.ToolRequest) (*session, error) {
	if !c.describer.server.Stateful || req.Turn == "" {
		return c.acquire(ctx, "")
	}
	if !req.Resume {
		return c.acquire(ctx, req.Turn)
	}
	if s := c.kept(req.Turn); s != nil {
		return s, nil
	}
	return nil, turn.Errorf(turn.CodeToolStateLost, nil, fmt.Sprintf("server state lost: what %s remembered of this turn went with its connection. "+
		"%s was not called. Begin again with that server if its state is needed", c.name(), req.Tool))
}

// kept is the session that the turn has used before, with one more user; nil where it is gone.
func (c *connector) kept(turnID string) *session {
	c.mu.Lock()
	defer c.mu.Unlock()
	sl := c.slots[turnID]
	if sl == nil || sl.current == nil || !sl.current.holdsState() || !sl.current.enter() {
		return nil
	}
	return sl.current
}

// notCalled is the error of a call that did not leave: the one that it has already, or tool_not_sent.
func notCalled(tool string, err error) error {
	var e *turn.Error
	if errors.As(err, &e) {
		return e
	}
	return turn.Errorf(turn.CodeToolNotSent, err, tool+" was not called")
}
