package check

import (
	"encoding/json"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/everturn/everturn/journal"
	"github.com/everturn/everturn/workflows/turn"
)

// progressLimit is how much of a call's progress the journal keeps for its readers, as the journal documents.
const progressLimit = 200

// eventsOf returns the lines of the tool's ledger about a call, in their order.
func (c *checker) eventsOf(key string, event string) (out []Effect) {
	for _, e := range c.Effects {
		if e.Text == key && e.Event == event {
			out = append(out, e)
		}
	}
	return out
}

// elicitations checks what servers ask in the middle of calls: I2, a suspended call continues and does not start over;
// and I5, a server gets the response to that very call.
func (c *checker) elicitations() {
	for _, t := range c.sortedTurns() {
		for _, one := range t.calls {
			if strings.HasSuffix(one.Call.Tool, "/confirm") {
				c.elicitation(t, one)
			}
		}
	}
}

func (c *checker) elicitation(t *turnLedger, one journal.CallRecord) {
	key := keyOf(one.Call)
	var args struct{ Rounds int }
	_ = json.Unmarshal([]byte(one.Call.Arguments), &args) // it has a key, and so can be read
	if asked := len(c.eventsOf(key, "asked")); asked > max(1, args.Rounds) && !c.repeatable(one) {
		c.breaks(I2, "call %s (%s) of turn %s asked %d times: it was begun afresh", one.Call.ID, key, t.record.ID, asked)
	}
	var output []string
	for _, a := range c.asks {
		if a.turn == t && a.wait.Call == one.Call.ID && a.row != nil && a.row.Decision != nil &&
			a.row.Decision.Response != nil {
			output = append(output, spell(a.row.Decision.Response))
			c.given(a)
		}
	}
	for _, e := range c.eventsOf(key, "replied") {
		if action, _, _ := strings.Cut(e.Reply, " "); !slices.Contains(output, e.Reply) &&
			action != string(turn.ElicitationCancel) {
			c.breaks(I5, "call %s (%s) of turn %s was told %q, and people said %q", one.Call.ID, key, t.record.ID, e.Reply, output)
		}
	}
	c.toldOnce(t, one, output)
	for i, e := range c.eventsOf(key, "effect") {
		if replies := c.eventsOf(key, "replied"); i >= len(replies) || e.At.Before(replies[i].At) {
			c.breaks(I5, "call %s (%s) of turn %s had its effect before its answer", one.Call.ID, key, t.record.ID)
		}
	}
}

// given checks I5 for a response in the journal: its note is that of a response that a client has sent to this request.
// It checks nothing if the client's ledger has no notes.
func (c *checker) given(a *asked) {
	var content struct{ Note string }
	_ = json.Unmarshal(a.row.Decision.Response.Content, &content) // a response without a note leaves it empty
	var notes []string
	for _, e := range a.client {
		if e.Event == Deciding && e.Text != "" {
			notes = append(notes, e.Text)
		}
	}
	if len(notes) > 0 && content.Note != "" && !slices.Contains(notes, content.Note) {
		c.breaks(I5, "request %s of turn %s has the response %q, and people said %q", a.id, a.turn.record.ID, content.Note,
			notes)
	}
}

// toldOnce checks I5 for a call whose server asks several times: the response to one question does not answer the next.
func (c *checker) toldOnce(t *turnLedger, one journal.CallRecord, output []string) {
	told := map[string]int{}
	for _, e := range c.eventsOf(keyOf(one.Call), "replied") {
		told[e.Reply]++
	}
	for reply, n := range told {
		times := len(slices.DeleteFunc(slices.Clone(output), func(s string) bool { return s != reply }))
		if times > 0 && n > times && !c.repeatable(one) {
			c.breaks(I5, "call %s (%s) of turn %s was told %q %d times, and people said it %d times", one.Call.ID,
				keyOf(one.Call), t.record.ID, reply, n, times)
		}
	}
}

// spell returns a response in the format of the tool's ledger.
func spell(r *turn.ElicitationResponse) string {
	var content map[string]any
	_ = json.Unmarshal(r.Content, &content) // nothing is null
	b, _ := json.Marshal(content)           // it came out of JSON
	return string(r.Action) + " " + string(b)
}

// homes checks I2 for servers that keep state: the calls of a turn go to one process, or the model is told that the
// server's state is lost.
func (c *checker) homes() {
	if c.Run.Stateful == "" {
		return
	}
	for _, t := range c.sortedTurns() {
		home := 0
		for _, one := range t.calls {
			if !strings.HasPrefix(one.Call.Tool, c.Run.Stateful) {
				continue
			}
			for _, e := range c.eventsOf(keyOf(one.Call), "begun") {
				if home != 0 && e.PID != home {
					c.breaks(I2, "call %s of turn %s went to process %d, its server's memory is in %d, and nobody was told",
						one.Call.ID, t.record.ID, e.PID, home)
				}
				home = e.PID
			}
			if one.Outcome == turn.OutcomeUnknown || strings.Contains(one.Text, "server state lost") {
				home = 0
			}
		}
	}
}

// faces checks I5 for tools that changed: a version that the operator has not accepted has no effect.
func (c *checker) faces() {
	accepted := map[string]time.Time{}
	for _, e := range c.Client {
		if _, known := accepted[e.Text]; e.Event == Accepted && !known {
			accepted[e.Text] = e.At
		}
	}
	for _, e := range c.Effects {
		if at, ok := accepted[e.Face]; e.Face != "" && (!ok || e.At.Before(at)) {
			c.breaks(I5, "%s was done by a tool whose %s has changed, and which nobody had accepted", e.Text, e.Face)
		}
	}
}

// taints checks I5 for a session that has read untrusted text: from then on no call has run without an approval.
func (c *checker) taints() {
	if !c.Run.Tainting {
		return
	}
	for _, session := range slices.Sorted(maps.Keys(c.sessions)) {
		tainted := false
		for _, m := range c.sessions[session] {
			if m.Role == turn.RoleTool && (m.Outcome == turn.OutcomeOK || m.Outcome == turn.OutcomeError) {
				tainted = true
			}
			for _, one := range m.ToolCalls {
				if t := c.turns[m.TurnID]; t != nil && tainted && keyOf(one) != "" {
					c.withApprovals(t, one)
				}
			}
		}
	}
}

// isNotice reports whether a message was not written by a user, but tells what became of a call.
func isNotice(m turn.Message) bool {
	return m.Role == turn.RoleUser && strings.HasPrefix(m.ID, "late:")
}

// notices checks I3 for late results: the model is told once, and only of calls whose outcome was unknown, which the
// transcript keeps saying of them.
func (c *checker) notices() {
	late := map[string]journal.CallRecord{}
	for _, t := range c.sortedTurns() {
		for _, one := range t.calls {
			late["late:"+one.Turn+":"+one.Call.ID] = one
		}
	}
	for _, session := range slices.Sorted(maps.Keys(c.sessions)) {
		seen := map[string]bool{}
		for _, m := range c.sessions[session] {
			if !isNotice(m) {
				continue
			}
			one, known := late[m.ID[:max(0, strings.LastIndexByte(m.ID, ':'))]]
			switch {
			case seen[m.ID]:
				c.breaks(I3, "session %s was told twice what became of %s", session, m.ID)
			case !known || one.Outcome != turn.OutcomeUnknown:
				c.breaks(I3, "session %s was told late what became of %s, which is %q", session, m.ID, one.Outcome)
			}
			seen[m.ID] = true
		}
	}
}

// progress checks the progress of a call while it runs: I3, none before its start and none after its end; and I7, not
// without bound.
func (c *checker) progress() {
	for _, t := range c.sortedTurns() {
		told, over := map[string]int{}, map[string]bool{}
		for _, event := range t.events {
			var data turn.CallEvent
			_ = json.Unmarshal(event.Data, &data) // other kinds have no call
			switch event.Kind {
			case turn.EventToolCallCompleted:
				over[data.CallID] = true
			case turn.EventToolProgress:
				if told[data.CallID]++; over[data.CallID] {
					c.breaks(I3, "the stream of turn %s tells of the progress of call %s after its end", t.record.ID, data.CallID)
				}
			}
		}
		for id, n := range told {
			if n > progressLimit {
				c.breaks(I7, "the stream of turn %s keeps %d pieces of the progress of call %s", t.record.ID, n, id)
			}
		}
	}
}
