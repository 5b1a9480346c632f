package sessionmodel

import (
	"fmt"
	"slices"
	"strings"

	"github.com/everturn/everturn/journal"
	"github.com/everturn/everturn/workflows/turn"
)

// Evidence is everything that can be known about a session in which nothing runs any more.
type Evidence struct {
	Messages []turn.Message // the transcript
	Turns    []journal.TurnRecord
	Waits    map[string][]journal.RequestRecord // by turn ID, as are the next two
	Calls    map[string][]journal.CallRecord
	Chunks   map[string][]turn.Chunk
	// Asked holds the IDs of the messages that were in any of the provider's requests.
	Asked map[string]bool
}

// Check returns what is wrong with the evidence. It returns nothing for a correct session.
func (m *Model) Check(e Evidence) []string {
	m.mu.Lock()
	defer m.mu.Unlock()
	c := checker{m: m, e: e, turns: map[string]journal.TurnRecord{}, place: map[string]int{}}
	for _, t := range e.Turns {
		c.turns[t.ID] = t
	}
	c.messages()
	c.order()
	c.transcript()
	for _, t := range e.Turns {
		c.turn(t)
		c.waits(t)
		c.calls(t)
	}
	c.decisions()
	c.effects()
	return c.problems
}

type checker struct {
	m        *Model
	e        Evidence
	turns    map[string]journal.TurnRecord
	place    map[string]int // of each message in the transcript
	problems []string
}

func (c *checker) wrong(ok bool, format string, args ...any) {
	if !ok {
		c.problems = append(c.problems, fmt.Sprintf(format, args...))
	}
}

// messages checks that each accepted message is in the transcript once, that nothing else is, and that a finished turn
// took it.
func (c *checker) messages() {
	for i, msg := range c.e.Messages {
		if msg.Role != turn.RoleUser {
			continue
		}
		_, twice := c.place[msg.ID]
		c.wrong(!twice, "message %s is in the transcript twice", msg.ID)
		c.place[msg.ID] = i
		known := slices.ContainsFunc(c.m.sent, func(s Sent) bool { return s.ID == msg.ID })
		c.wrong(known || isAnswer(msg.ID) || isNotice(msg.ID), "message %s was never sent", msg.ID)
	}
	for _, s := range c.m.sent {
		i, taken := c.place[s.ID]
		if c.wrong(taken, "message %s was accepted and is lost", s.ID); !taken {
			continue
		}
		took, known := c.turns[c.e.Messages[i].TurnID]
		c.wrong(known && took.State.Terminal(), "message %s has no turn that is over: %q is %s", s.ID, took.ID, took.State)
		if took.State == turn.StateCancelled {
			continue
		}
		c.wrong(took.State == turn.StateCompleted && took.Reason == turn.FinishAnswered,
			"message %s: its turn ended as %s: %s, %s", s.ID, took.State, took.Reason, took.Message)
		c.wrong(!s.After || took.MessageID == s.ID, "message %s was for a turn of its own and joined that of %s", s.ID,
			took.MessageID)
		c.wrong(c.e.Asked[s.ID], "message %s was never shown to the model", s.ID)
	}
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

// transcript checks that calls are paired with results, and that a turn that answered ends with its answer.
func (c *checker) transcript() {
	var open []string
	for i, msg := range c.e.Messages {
		if msg.Role == turn.RoleTool {
			c.wrong(len(open) > 0 && open[0] == msg.CallID && msg.Outcome != "",
				"message %d is a result of %s (%s), and these are open: %v", i+1, msg.CallID, msg.Outcome, open)
			open = open[min(1, len(open)):]
			continue
		}
		c.wrong(len(open) == 0, "message %d comes before the results of %v", i+1, open)
		open = nil
		for _, call := range msg.ToolCalls {
			open = append(open, call.ID)
		}
	}
	c.wrong(len(open) == 0, "these calls have no result: %v", open)
}

// turn checks that a turn is over, that its chunks have no gap and one of them says that it is over, and that the
// sender of each merged message gets the result.
func (c *checker) turn(t journal.TurnRecord) {
	chunks, kinds := c.e.Chunks[t.ID], map[turn.ChunkKind]int{}
	for i, chunk := range chunks {
		c.wrong(chunk.Index == int64(i), "turn %s: chunk %d has the index %d", t.ID, i, chunk.Index)
		kinds[chunk.Kind]++
	}
	c.wrong(kinds[turn.ChunkTurnCompleted] == 1 && chunks[len(chunks)-1].Kind == turn.ChunkTurnCompleted,
		"turn %s does not end once: %v", t.ID, kinds)
	joined, last := 0, -1
	for i, msg := range c.e.Messages {
		if msg.TurnID != t.ID {
			continue
		}
		last = i
		if msg.Role == turn.RoleUser && msg.ID != t.MessageID && !isNotice(msg.ID) {
			joined++
		}
	}
	c.wrong(joined == kinds[turn.ChunkMessageAdded], "turn %s: %d messages joined and %d chunks say so", t.ID, joined,
		kinds[turn.ChunkMessageAdded])
	if t.State == turn.StateCompleted && last >= 0 {
		answer := c.e.Messages[last]
		c.wrong(answer.Role == turn.RoleAssistant && answer.Text == t.Answer && strings.HasPrefix(t.Answer, "done "),
			"turn %s ends with %q (%s) and its answer is %q", t.ID, answer.Text, answer.Role, t.Answer)
	}
}

// waits checks that each request has one decision, that the stream shows the request once and its end once, and that an
// answered question has an answer.
func (c *checker) waits(t journal.TurnRecord) {
	seen := map[string]int{}
	for _, chunk := range c.e.Chunks[t.ID] {
		seen[string(chunk.Kind)]++
	}
	approvals, questions := 0, 0
	for _, w := range c.e.Waits[t.ID] {
		c.wrong(w.Decision != nil, "turn %s: %s %s is open for ever", t.ID, w.Kind, w.ID)
		if w.Kind == turn.RequestApproval {
			approvals++
		} else {
			questions++
		}
		if w.Kind == turn.RequestQuestion && w.Decision != nil && w.Decision.Status == turn.StatusAnswered &&
			t.State == turn.StateCompleted {
			i := slices.IndexFunc(c.e.Messages, func(m turn.Message) bool {
				return m.TurnID == t.ID && m.Step == w.Step &&
					m.Role == turn.RoleAssistant
			})
			c.wrong(i >= 0 && i+1 < len(c.e.Messages) && c.e.Messages[i+1].Role == turn.RoleUser,
				"turn %s: question %s counts as answered, and nobody has said anything", t.ID, w.ID)
		}
	}
	c.wrong(seen["approval_requested"] == approvals && seen["approval_decided"] == approvals &&
		seen["question_asked"] == questions && seen["question_answered"] == questions,
		"turn %s: %d approvals, %d questions, and these chunks: %v", t.ID, approvals, questions, seen)
}

// calls checks that a call that needed approval ran once if it was allowed, and never if it was not.
func (c *checker) calls(t journal.TurnRecord) {
	ruled := map[string]*turn.Decision{}
	for _, w := range c.e.Waits[t.ID] {
		if w.Kind == turn.RequestApproval {
			ruled[w.ID] = w.Decision
		}
	}
	for _, call := range c.e.Calls[t.ID] {
		c.wrong(call.Runs <= 1, "turn %s: call %s ran %d times", t.ID, call.Call.ID, call.Runs)
		c.wrong(call.Outcome != "", "turn %s: call %s has no outcome", t.ID, call.Call.ID)
		r, waited := ruled[call.Call.ID]
		delete(ruled, call.Call.ID)
		if !waited || r == nil {
			continue
		}
		c.wrong(r.Allowed || call.Runs == 0, "turn %s: call %s was %s, and ran", t.ID, call.Call.ID, r.Status)
		c.wrong(!r.Allowed || t.State == turn.StateCancelled || call.Runs == 1 && call.Outcome == turn.OutcomeOK,
			"turn %s: call %s was allowed, ran %d times and came to %s", t.ID, call.Call.ID, call.Runs, call.Outcome)
	}
	for id, r := range ruled {
		c.wrong(r == nil || !r.Allowed || t.State == turn.StateCancelled, "turn %s: call %s was allowed and never ran", t.ID,
			id)
	}
}

// decisions checks that an accepted decision settles the request that it names and no other, and that a refused
// decision settles none.
func (c *checker) decisions() {
	type found struct {
		turn string
		w    journal.RequestRecord
	}
	by := map[string][]found{}
	for id, requests := range c.e.Waits {
		for _, w := range requests {
			if w.Decision != nil && w.Decision.By != "" {
				by[w.Decision.By] = append(by[w.Decision.By], found{id, w})
			}
		}
	}
	first := map[[2]string]bool{}
	for _, d := range c.m.decisions {
		list := by[d.By]
		c.wrong(len(list) <= 1, "what %s decided was applied %d times", d.By, len(list))
		for _, f := range list {
			c.wrong(d.Accepted && f.turn == d.Turn && f.w.ID == d.Call && f.w.Decision.Status == verdictOf(d),
				"what %s decided (%s of %s) was applied to %s of turn %s as %s", d.By, d.Verdict, d.Call, f.w.ID, f.turn,
				f.w.Decision.Status)
		}
		key := [2]string{d.Turn, d.Call}
		if d.Accepted && !first[key] && c.turns[d.Turn].State != turn.StateCancelled {
			c.wrong(len(list) == 1 || d.Verdict == Conflict, "what %s decided about %s was accepted and is not recorded", d.By,
				d.Call)
		}
		first[key] = first[key] || d.Accepted
	}
	for _, r := range c.m.replies {
		list := by[r.By]
		c.wrong(len(list) <= 1, "what %s answered was applied %d times", r.By, len(list))
		for _, f := range list {
			c.wrong(r.Accepted && f.turn == r.Turn && f.w.ID == r.Question,
				"what %s answered to %s was applied to %s of turn %s", r.By, r.Question, f.w.ID, f.turn)
		}
		_, said := c.place["answer:"+r.Turn+":"+r.Question]
		c.wrong(!r.Accepted || said, "what %s answered was accepted and is not in the transcript", r.By)
	}
}

// effects checks that no call ran before its approval was sent, and that each call ran at most once.
func (c *checker) effects() {
	for _, text := range c.m.early {
		c.wrong(false, "%q ran before anybody had allowed it", text)
	}
	runs := map[string]int{}
	for _, calls := range c.e.Calls {
		for _, call := range calls {
			runs[call.Call.Arguments] += call.Runs
		}
	}
	for text, n := range c.m.effects {
		c.wrong(n <= 1 || strings.HasSuffix(text, " "+same), "%q ran %d times", text, n)
		c.wrong(n == runs[`{"text":"`+text+`"}`], "%q ran %d times, and the journal says %d", text, n,
			runs[`{"text":"`+text+`"}`])
	}
}

// isNotice reports whether a message is the journal's own: what became of a call whose outcome was unknown.
func isNotice(id string) bool { return strings.HasPrefix(id, "late:") }
