package check

import (
	"maps"
	"slices"
	"strings"

	"github.com/everturn/everturn/workflows/turn"
)

// transcripts checks I3 in the journal: chain, numbers, and one result per call in request order.
func (c *checker) transcripts() {
	for _, s := range c.Sessions {
		if s.Problem != nil {
			c.breaks(I3, "the export %s does not hold: %v", s.File, s.Problem)
		}
	}
	for _, session := range slices.Sorted(maps.Keys(c.sessions)) {
		c.transcript(session, c.sessions[session])
	}
	for _, t := range c.sortedTurns() {
		c.results(t)
	}
}

// Transcript checks I3 in the messages of a session, whose turns may be open: each call has one result, in request
// order.
func Transcript(session string, messages []turn.Message) []Violation {
	c := checker{Ledgers: Ledgers{Partial: true}}
	c.transcript(session, messages)
	return c.found
}

// transcript checks the order of a session's messages.
func (c *checker) transcript(session string, messages []turn.Message) {
	var open []turn.ToolCall
	for i, m := range messages {
		if m.Role != turn.RoleTool {
			if len(open) > 0 {
				c.breaks(I3, "session %s: message %d comes before the result of call %s", session, i+1, open[0].ID)
			}
			open = m.ToolCalls
			continue
		}
		if len(open) == 0 || open[0].ID != m.CallID {
			c.breaks(I3, "session %s: message %d is the result of call %s, which is not the next one", session, i+1, m.CallID)
			continue
		}
		if m.Outcome == "" {
			c.breaks(I3, "session %s: the result of call %s has no outcome", session, m.CallID)
		}
		c.result(session, m, open[0])
		open = open[1:]
	}
	if len(open) > 0 {
		c.breaks(I3, "session %s: call %s has no result", session, open[0].ID)
	}
}

// result checks that a result belongs to its call: every tool of the schedules repeats the text it was given.
func (c *checker) result(session string, m turn.Message, call turn.ToolCall) {
	if key := keyOf(call); !c.Partial && key != "" && m.Outcome == turn.OutcomeOK && !strings.Contains(m.Text, key) {
		c.breaks(I3, "session %s: the result of call %s of turn %s is that of another: %q was asked for and %q is answered",
			session, call.ID, m.TurnID, key, m.Text)
	}
}

// results checks that ledger and transcript agree on each call, and that the stream starts and ends it once.
func (c *checker) results(t *turnLedger) {
	shown := map[string]turn.Message{}
	for _, m := range t.transcript {
		if m.Role == turn.RoleTool && m.TurnID == t.record.ID {
			shown[m.CallID] = m
		}
	}
	for _, call := range t.calls {
		m, ok := shown[call.Call.ID]
		if !ok {
			c.breaks(I3, "call %s of turn %s is in the ledger and not in the transcript", call.Call.ID, t.record.ID)
		} else if m.Outcome != call.Outcome || m.Text != call.Text {
			c.breaks(I3, "call %s of turn %s is %s (%q) in the ledger and %s (%q) in the transcript",
				call.Call.ID, t.record.ID, call.Outcome, call.Text, m.Outcome, m.Text)
		}
	}
}
