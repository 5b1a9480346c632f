package check

import (
	"encoding/json"
	"slices"
	"strings"

	"github.com/everturn/everturn/workflows/turn"
)

// streams checks I3 in the numbered output: there is no gap, each start of a call or a step has one end, and an event
// that was read once never changes.
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
	c.phases(t)
	c.interrupted(t)
	if joined, told := c.joined(t), kinds[turn.EventMessageAdded]; joined != told {
		c.breaks(I3, "%d messages have joined turn %s and its stream tells of %d", joined, id, told)
	}
	output := t.record.State == turn.StateCompleted && (!c.Partial || t.record.Reason == turn.FinishAnswered)
	if text := reader.Text(); output && text != t.record.Answer {
		c.breaks(I3, "a reader of turn %s sees %q in the end and the answer is %q", id, text, t.record.Answer)
	}
}

// nextPhases are the phases that may follow a phase in the stream. LlmInfer is not repeated for another attempt.
var nextPhases = map[turn.PhaseName][]turn.PhaseName{
	"":                    {turn.PhaseStart},
	turn.PhaseStart:       {turn.PhaseBuildPrompt, turn.PhaseDone},
	turn.PhaseBuildPrompt: {turn.PhaseLlmInfer},
	turn.PhaseLlmInfer:    {turn.PhaseParseAction, turn.PhaseDone},
	turn.PhaseParseAction: {turn.PhaseCallTool, turn.PhaseBuildPrompt, turn.PhaseDone},
	turn.PhaseCallTool:    {turn.PhaseBuildPrompt, turn.PhaseDone},
}

// phases checks that the phases in a turn's stream follow each other as they may, that each step starts once and, if it
// is settled, ends once after that, and that each event has its turn, its step and, through turn_started, its trace.
func (c *checker) phases(t *turnLedger) {
	id, last := t.record.ID, turn.PhaseName("")
	starts, ends := map[int]int{}, map[int]int{}
	for i, event := range t.events {
		var phase turn.PhaseEvent
		switch event.Kind {
		case turn.EventTurnStarted:
			var started turn.StartedEvent
			_ = json.Unmarshal(event.Data, &started)
			if started.TraceID != turn.TraceID(id) {
				c.breaks(I3, "turn %s starts with the trace %q", id, started.TraceID)
			}
		case turn.EventPhase:
			if _ = json.Unmarshal(event.Data, &phase); phase.Wait != nil {
				break // it is in LlmInfer already
			}
			if !slices.Contains(nextPhases[last], phase.Phase) {
				c.breaks(I3, "event %d of turn %s is the phase %s after %s", i, id, phase.Phase, last)
			}
			if last = phase.Phase; last == turn.PhaseLlmInfer {
				starts[event.Step]++
				if phase.Provider == "" || phase.Model == "" {
					c.breaks(I3, "event %d of turn %s does not say which model step %d asks", i, id, event.Step)
				}
			}
		case turn.EventInferenceCompleted:
			if ends[event.Step]++; starts[event.Step] == 0 {
				c.breaks(I3, "the stream of turn %s ends step %d before it starts it", id, event.Step)
			}
		}
		if event.Turn != id || event.Step < 1 && !mayLackStep(event.Kind, phase.Phase) {
			c.breaks(I3, "event %d of turn %s, %s, names turn %q and step %d", i, id, event.Kind, event.Turn, event.Step)
		}
	}
	for _, inf := range t.inferences {
		settled := 0
		if inf.Settled {
			settled = 1
		}
		if step := inf.Key.Step; starts[step] != 1 || ends[step] != settled {
			c.breaks(I3, "the stream of turn %s has %d starts and %d ends of step %d, which is settled %d times", id,
				starts[step], ends[step], step, settled)
		}
	}
}

// mayLackStep reports whether an event may come before the turn's first step.
func mayLackStep(kind turn.EventKind, phase turn.PhaseName) bool {
	switch kind {
	case turn.EventTurnStarted, turn.EventSkillsSelected, turn.EventMessageAdded, turn.EventToolCallLateResult,
		turn.EventTurnCompleted:
		return true
	case turn.EventPhase:
		return phase == turn.PhaseStart || phase == turn.PhaseDone
	}
	return false
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
