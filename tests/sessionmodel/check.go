package sessionmodel

import (
	"fmt"

	"github.com/everturn/everturn/journal"
	"github.com/everturn/everturn/tests/check"
	"github.com/everturn/everturn/workflows/turn"
)

// Check returns what is wrong with the ledgers of a session in which nothing runs any more: the promises that they show
// to be broken, and what a session without faults must do besides. The model adds the ledgers of users and tool.
func (m *Model) Check(l check.Ledgers) []string {
	m.mu.Lock()
	defer m.mu.Unlock()
	l.Client, l.Effects = m.client, m.effects
	l.Run.Asked = withApprovals
	c := checker{m: m, turns: map[string]*journal.ExportTurn{}, place: map[string]int{},
		calls: map[string]*journal.CallRecord{}}
	for _, v := range check.Check(l) {
		c.problems = append(c.problems, v.String())
	}
	for _, s := range l.Sessions {
		c.index(s)
	}
	for _, s := range m.sent {
		c.message(s)
	}
	c.order()
	for _, w := range l.Waits {
		c.request(w)
	}
	return c.problems
}

type checker struct {
	m        *Model
	messages []turn.Message
	turns    map[string]*journal.ExportTurn
	calls    map[string]*journal.CallRecord
	place    map[string]int // of each message in the transcript
	problems []string
}

func (c *checker) wrong(ok bool, format string, args ...any) {
	if !ok {
		c.problems = append(c.problems, fmt.Sprintf(format, args...))
	}
}

func (c *checker) index(s check.Session) {
	for _, l := range s.Lines {
		switch {
		case l.Turn != nil:
			c.turns[l.Turn.ID] = l.Turn
		case l.Call != nil:
			c.calls[l.Call.Turn+" "+l.Call.Call.ID] = l.Call
		case l.Message != nil:
			c.place[l.Message.Message.ID] = len(c.messages)
			c.messages = append(c.messages, l.Message.Message)
		}
	}
}

// message checks that a message is answered unless it was stopped, and that one for a turn of its own has it.
func (c *checker) message(s Sent) {
	i, taken := c.place[s.ID]
	if !taken || c.turns[c.messages[i].TurnID] == nil {
		return // it is lost, as check says
	}
	took := c.turns[c.messages[i].TurnID]
	if took.State == turn.StateCancelled {
		return
	}
	c.wrong(took.State == turn.StateCompleted && took.Reason == turn.FinishAnswered,
		"message %s: its turn ended as %s: %s, %s", s.ID, took.State, took.Reason, took.Message)
	c.wrong(!s.After || took.MessageID == s.ID, "message %s was for a turn of its own and joined that of %s", s.ID,
		took.MessageID)
}

// order checks that messages are taken in the order in which they were accepted, except those that let others go first.
func (c *checker) order() {
	for i, a := range c.m.sent {
		for _, b := range c.m.sent[i+1:] {
			if a.Order == b.Order || a.After && !b.After {
				continue
			}
			first, second := a, b
			if b.Order < a.Order {
				first, second = b, a
			}
			c.wrong(c.place[first.ID] < c.place[second.ID], "message %s was accepted before %s and comes after it", first.ID,
				second.ID)
		}
	}
}

// request checks that a call that was allowed has run, unless its turn was stopped.
func (c *checker) request(w turn.Request) {
	t, call := c.turns[w.Turn], c.calls[w.Turn+" "+w.ID]
	if w.Kind != turn.RequestApproval || w.Decision == nil || !w.Decision.Allowed || t == nil ||
		t.State == turn.StateCancelled {
		return
	}
	c.wrong(call != nil && call.Runs == 1 && call.Outcome == turn.OutcomeOK,
		"turn %s: call %s was allowed and did not run once: %+v", w.Turn, w.ID, call)
}
