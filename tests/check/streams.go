package check

import (
	"encoding/json"
	"strings"

	"github.com/everturn/everturn/workflows/turn"
)

// streams checks I3 in the numbered output: there is no gap, each start of a call has one end, and an event that was
// read once never changes.
func (c *checker) streams() {
	for _, t := range c.sortedTurns() {
		c.stream(t)
	}
	for _, e := range c.Stream {
		t := c.turns[e.Turn]
		switch {
		case t == nil:
			c.breaks(I3, "event %d of turn %s was read and the journal has no such turn", e.Index, e.Turn)
		case e.Index < 0 || e.Index >= int64(len(t.events)):
			c.breaks(I3, "event %d of turn %s was read and is gone", e.Index, e.Turn)
		case string(t.events[e.Index].Kind) != e.Kind || t.events[e.Index].Text != e.Text:
			c.breaks(I3, "event %d of turn %s was read as %s %q and is %s %q now",
				e.Index, e.Turn, e.Kind, e.Text, t.events[e.Index].Kind, t.events[e.Index].Text)
		}
	}
}

func (c *checker) stream(t *turnLedger) {
	id := t.record.ID
	starts, ends, kinds := map[string]int{}, map[string]int{}, map[turn.EventKind]int{}
	var reader turn.Reader
	for i, event := range t.events {
		if event.Index != int64(i) {
			c.breaks(I3, "event %d of turn %s has the number %d", i, id, event.Index)
		}
		reader.Add(event)
		kinds[event.Kind]++
		var data turn.CallEvent
		_ = json.Unmarshal(event.Data, &data) // other kinds have no call
		switch event.Kind {
		case turn.EventToolCallStarted:
			starts[data.CallID]++
		case turn.EventToolCallCompleted:
			if ends[data.CallID]++; starts[data.CallID] == 0 {
				c.breaks(I3, "the stream of turn %s ends call %s before it starts it", id, data.CallID)
			}
		}
	}
	for _, call := range t.calls {
		if starts[call.Call.ID] != 1 || ends[call.Call.ID] != 1 {
			c.breaks(I3, "the stream of turn %s has %d starts and %d ends of call %s", id, starts[call.Call.ID],
				ends[call.Call.ID], call.Call.ID)
		}
	}
	c.interrupted(t)
	if joined, told := c.joined(t), kinds[turn.EventMessageAdded]; joined != told {
		c.breaks(I3, "%d messages have joined turn %s and its stream tells of %d", joined, id, told)
	}
	output := t.record.State == turn.StateCompleted && (!c.Partial || t.record.Reason == turn.FinishAnswered)
	if text := reader.Text(); output && text != t.record.Answer {
		c.breaks(I3, "a reader of turn %s sees %q in the end and the answer is %q", id, text, t.record.Answer)
	}
}

// interrupted checks that the transcript has what readers saw of an answer in the middle of which the turn ended.
func (c *checker) interrupted(t *turnLedger) {
	if n := len(t.inferences); n == 0 || !t.record.State.Terminal() {
		return
	}
	last := t.inferences[len(t.inferences)-1]
	seen, kept := "", ""
	for _, event := range t.events {
		if !last.Settled && event.Kind == turn.EventTextDelta && event.Step == last.Key.Step &&
			event.Attempt == last.Attempt {
			seen += event.Text
		}
	}
	for _, m := range t.transcript {
		if m.TurnID == t.record.ID && m.Role == turn.RoleAssistant && m.Outcome != "" {
			kept += m.Text
		}
	}
	if strings.TrimSpace(seen) == "" {
		seen = ""
	}
	if seen != kept {
		c.breaks(I3, "a reader of turn %s saw %q when it ended, and the transcript has %q of it", t.record.ID, seen, kept)
	}
}

// joined returns how many messages of its users a turn has besides the one with which it began.
func (c *checker) joined(t *turnLedger) (n int) {
	for _, m := range t.transcript {
		if m.TurnID == t.record.ID && m.Role == turn.RoleUser && m.ID != t.record.MessageID && !isNotice(m) {
			n++
		}
	}
	return n
}
