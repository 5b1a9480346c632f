package check

import (
	"cmp"
	"slices"

	enumspb "go.temporal.io/api/enums/v1"
	historypb "go.temporal.io/api/history/v1"
	"go.temporal.io/sdk/converter"

	"github.com/everturn/everturn/workflows"
	"github.com/everturn/everturn/workflows/turn"
)

// answers checks I1: every acknowledged message is answered, once, and every client gets the same answer.
func (c *checker) answers() {
	for _, m := range c.sortedMessages() {
		c.answer(m)
	}
	for _, t := range c.sortedTurns() {
		if _, known := c.messages[t.record.MessageID]; !known {
			c.breaks(I1, "turn %s answers message %s, which no client has sent", t.record.ID, t.record.MessageID)
		}
		c.permitted(t)
	}
	for output, turns := range c.places {
		if _, known := c.messages[output.message]; !known {
			c.breaks(I1, "turn %s has message %s in its transcript, which no client has sent", turns[0], output.message)
		}
	}
	for name, h := range c.Histories {
		if closing(h) == enumspb.EVENT_TYPE_UNSPECIFIED {
			c.breaks(I1, "run %s is still open", name)
		}
	}
}

func (c *checker) answer(m message) {
	owners := c.owners(m)
	switch {
	case len(owners) > 1:
		c.breaks(I1, "message %s has %d turns", m.id, len(owners))
		return
	case len(owners) == 0:
		if m.acknowledged {
			c.breaks(I1, "message %s was acknowledged and no turn has it", m.id)
		}
		return
	case len(c.places[owner{m.session, m.id}]) != 1:
		c.breaks(I1, "message %s is in the transcript %d times", m.id, len(c.places[owner{m.session, m.id}]))
		return
	case len(m.results) == 0:
		c.breaks(I1, "nobody was told what became of message %s", m.id)
	case c.texts[owner{m.session, m.id}] != m.text:
		c.breaks(I1, "message %s was sent as %q and the transcript has %q", m.id, m.text, c.texts[owner{m.session, m.id}])
	}
	t := owners[0]
	for _, r := range m.results {
		c.told(m, t, r)
	}
	if final := c.finalAnswer(t); t.record.State == turn.StateCompleted && final != t.record.Answer {
		c.breaks(I1, "message %s was answered %q and the provider said %q", m.id, t.record.Answer, final)
	}
}

// owners returns the turns that have the message: the turn that began with it, or that it was merged into.
func (c *checker) owners(m message) []*turnLedger {
	key := owner{m.session, m.id}
	out := slices.Clone(c.owning[key])
	for _, id := range c.places[key] {
		if t := c.turns[id]; t != nil && !slices.Contains(out, t) {
			out = append(out, t)
		}
	}
	return out
}

// told compares a result that a client got with the turn that owns the message.
func (c *checker) told(m message, t *turnLedger, r Entry) {
	switch {
	case r.Error != "":
		c.breaks(I1, "message %s: the client was told %s", m.id, r.Error)
	case r.Reason != string(turn.FinishDuplicate) && r.Turn != t.record.ID:
		c.breaks(I1, "message %s was answered twice, by turns %s and %s", m.id, t.record.ID, r.Turn)
	case r.Reason != string(turn.FinishDuplicate) && r.State != string(t.record.State):
		c.breaks(I1, "message %s: the client was told %s and the journal has %s", m.id, r.State, t.record.State)
	case r.Answer != t.record.Answer:
		c.breaks(I1, "message %s: the client was told %q and the journal has %q", m.id, r.Answer, t.record.Answer)
	}
}

// finalAnswer returns what the provider said last in answer to the turn's message.
func (c *checker) finalAnswer(t *turnLedger) string {
	answer := ""
	for _, inf := range t.inferences { // in the order of their steps
		for _, r := range c.asked(t, inf.Key.Step) {
			if r.Outcome == sent {
				answer = r.Answer
			}
		}
	}
	return answer
}

// ends checks I1 in the journal: each turn came to one end, and a turn that answered ends with its answer.
func (c *checker) ends() {
	for _, t := range c.sortedTurns() {
		if !t.record.State.Terminal() {
			c.breaks(I1, "turn %s is %s", t.record.ID, t.record.State)
		}
		completions := 0
		for _, event := range t.events {
			if event.Kind == turn.EventTurnCompleted {
				completions++
			}
		}
		if completions != 1 {
			c.breaks(I1, "the stream of turn %s has %d ends", t.record.ID, completions)
		}
		c.lastWord(t)
	}
}

func (c *checker) lastWord(t *turnLedger) {
	if t.record.State != turn.StateCompleted || t.record.Reason != turn.FinishAnswered {
		return
	}
	var last turn.Message
	for _, m := range t.transcript {
		if m.TurnID == t.record.ID {
			last = m
		}
	}
	if last.Role != turn.RoleAssistant || last.Text != t.record.Answer {
		c.breaks(I1, "turn %s has answered %q and its last message is %q by the %s", t.record.ID, t.record.Answer, last.Text,
			last.Role)
	}
}

// permitted checks that the schedule permits how a turn ended, and that Temporal knows of one end.
func (c *checker) permitted(t *turnLedger) {
	id := t.record.ID
	switch t.record.State {
	case turn.StateCompleted:
	case turn.StateCancelled:
		if !slices.Contains(c.Run.Stopped, t.record.MessageID) && !c.cancelRequested(id) {
			c.breaks(I1, "turn %s was cancelled and nobody has stopped it", id)
		}
	default:
		foreseen := t.record.State == turn.StateFailed && t.record.Code != "" &&
			slices.Contains(c.Run.Failing, t.record.MessageID)
		if !foreseen {
			c.breaks(I1, "turn %s is %s (%s): %s", id, t.record.State, t.record.Code, t.record.Message)
		}
	}
	if runs := c.closedRuns(id); len(runs) != 1 {
		c.breaks(I1, "Temporal has %d ends of turn %s", len(runs), id)
	}
}

// closedRuns returns the runs in which a turn's chain has ended.
func (c *checker) closedRuns(turnID string) []*historypb.History {
	var out []*historypb.History
	for _, h := range c.runs[turnID] {
		if closing(h) != enumspb.EVENT_TYPE_UNSPECIFIED && !goesOn(h) {
			out = append(out, h)
		}
	}
	return out
}

func (c *checker) cancelRequested(turnID string) bool {
	for _, h := range c.runs[turnID] {
		for _, e := range h.Events {
			if e.EventType == enumspb.EVENT_TYPE_WORKFLOW_EXECUTION_CANCEL_REQUESTED {
				return true
			}
		}
	}
	return false
}

// turnOf returns the ID of the turn that a history belongs to. A chain of runs is one turn.
func turnOf(h *historypb.History) string {
	if len(h.Events) == 0 {
		return ""
	}
	started := h.Events[0].GetWorkflowExecutionStartedEventAttributes()
	var in workflows.Input
	// an input that cannot be read names no turn
	_ = converter.GetDefaultDataConverter().FromPayloads(started.GetInput(), &in)
	return cmp.Or(in.Turn, started.GetFirstExecutionRunId())
}

// goesOn reports whether a run has closed in the middle of its turn.
func goesOn(h *historypb.History) bool {
	var in workflows.Input
	next := h.Events[len(h.Events)-1].GetWorkflowExecutionContinuedAsNewEventAttributes()
	return next != nil && converter.GetDefaultDataConverter().FromPayloads(next.GetInput(), &in) == nil &&
		in.Continued != nil
}

// closing returns the event that has ended a run, or unspecified if the run is open.
func closing(h *historypb.History) enumspb.EventType {
	if len(h.Events) == 0 {
		return enumspb.EVENT_TYPE_UNSPECIFIED
	}
	switch last := h.Events[len(h.Events)-1].EventType; last {
	case enumspb.EVENT_TYPE_WORKFLOW_EXECUTION_COMPLETED, enumspb.EVENT_TYPE_WORKFLOW_EXECUTION_FAILED,
		enumspb.EVENT_TYPE_WORKFLOW_EXECUTION_CANCELED, enumspb.EVENT_TYPE_WORKFLOW_EXECUTION_TERMINATED,
		enumspb.EVENT_TYPE_WORKFLOW_EXECUTION_TIMED_OUT, enumspb.EVENT_TYPE_WORKFLOW_EXECUTION_CONTINUED_AS_NEW:
		return last
	}
	return enumspb.EVENT_TYPE_UNSPECIFIED
}
