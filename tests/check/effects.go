package check

import (
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	enumspb "go.temporal.io/api/enums/v1"
	failurepb "go.temporal.io/api/failure/v1"
	historypb "go.temporal.io/api/history/v1"
	"go.temporal.io/sdk/converter"

	"github.com/everturn/everturn/journal"
	"github.com/everturn/everturn/workflows"
	"github.com/everturn/everturn/workflows/turn"
)

// effects are the times at which the tool's ledger has the events of a call.
type effects struct{ begun, effect []time.Time }

// indexEffects files the tool's ledger under the calls. If several calls have the same text, each gets as many lines as
// it has runs, in the order of their claims; the last one gets the rest.
func (c *checker) indexEffects() {
	lines, calls := map[string]*effects{}, map[string][]journal.CallRecord{}
	for _, e := range c.Effects {
		if e.Event == "mode" || e.Event == "face" {
			continue // of a server, not of a call
		}
		if lines[e.Text] == nil {
			lines[e.Text] = &effects{}
		}
		switch e.Event {
		case "begun":
			lines[e.Text].begun = append(lines[e.Text].begun, e.At)
		case "effect":
			lines[e.Text].effect = append(lines[e.Text].effect, e.At)
		}
	}
	for _, t := range c.sorted {
		for _, one := range t.calls {
			calls[keyOf(one.Call)] = append(calls[keyOf(one.Call)], one)
		}
	}
	c.ran = map[call]effects{}
	for key, all := range lines {
		same := calls[key]
		if len(same) == 0 {
			c.breaks(I2, "the tool has run %s (%d begun, %d effects) and the ledger has no such call", key, len(all.begun),
				len(all.effect))
		}
		slices.SortStableFunc(same, func(a, b journal.CallRecord) int { return a.ClaimedAt.Compare(b.ClaimedAt) })
		for i, one := range same {
			n := one.Runs
			if i == len(same)-1 {
				n = math.MaxInt
			}
			c.ran[call{one.Turn, one.Call.ID}] = all.take(n)
		}
	}
}

// take removes and returns the first n events of each kind.
func (e *effects) take(n int) (out effects) {
	begun, effect := min(n, len(e.begun)), min(n, len(e.effect))
	out = effects{e.begun[:begun], e.effect[:effect]}
	e.begun, e.effect = e.begun[begun:], e.effect[effect:]
	return out
}

// times returns when the tool did something.
func (e effects) times() []time.Time { return slices.Concat(e.begun, e.effect) }

// outcomes checks I2 in the journal: each call has an outcome, and the model is told if it is unknown.
func (c *checker) outcomes() {
	for _, t := range c.sortedTurns() {
		for _, one := range t.calls {
			switch {
			case one.Outcome == "":
				c.breaks(I2, "%s has no outcome", nameOf(one))
			case one.Outcome == turn.OutcomeUnknown && !strings.Contains(strings.ToLower(one.Text), "outcome unknown"):
				c.breaks(I2, "%s is unknown and the model is told %q", nameOf(one), one.Text)
			}
		}
	}
}

// effects checks I2: the journal's record of each call against the tool's own ledger.
func (c *checker) effects() {
	for _, t := range c.sortedTurns() {
		for _, one := range t.calls {
			if keyOf(one.Call) != "" {
				c.effect(one)
			}
		}
	}
}

func nameOf(one journal.CallRecord) string {
	return fmt.Sprintf("call %s (%s) of turn %s", one.Call.ID, keyOf(one.Call), one.Turn)
}

// keyOf returns the text by which the tool's ledger knows a call.
func keyOf(call turn.ToolCall) string {
	var args struct {
		Text string `json:"text"`
	}
	if json.Unmarshal([]byte(call.Arguments), &args) != nil {
		return ""
	}
	return args.Text
}

func (c *checker) effect(one journal.CallRecord) {
	name, repeatable := nameOf(one), c.repeatable(one)
	ran := c.ran[call{one.Turn, one.Call.ID}]
	begun, effect := len(ran.begun), len(ran.effect)
	if one.Repeatable && !repeatable {
		c.breaks(I2, "%s was taken for one that may be repeated, and the operator has not said so", name)
	}
	if !repeatable && effect > 1 {
		c.breaks(I2, "%s has %d effects", name, effect)
	}
	if !repeatable && begun > 1 {
		c.breaks(I2, "%s was sent %d times and may not be repeated", name, begun)
	}
	if begun > one.Runs {
		c.breaks(I2, "%s was sent %d times and the ledger has %d claims", name, begun, one.Runs)
	}
	counted := strings.HasSuffix(one.Call.Tool, "/append") // the tool whose effects are in the ledger
	switch one.Outcome {
	case turn.OutcomeOK:
		if effect == 0 && counted {
			c.breaks(I2, "%s is said to be ok and has no effect", name)
		}
	case turn.OutcomeError:
		if effect > 0 && counted && !repeatable {
			c.breaks(I2, "%s is said to have failed and has %d effects", name, effect)
		}
	case turn.OutcomeDenied, turn.OutcomeCancelled:
		if effect > 0 {
			c.breaks(I2, "%s is said to be %s and has %d effects", name, one.Outcome, effect)
		}
	}
}

// repeatable reports whether the operator declares a call repeatable.
func (c *checker) repeatable(call journal.CallRecord) bool {
	if len(c.Run.Repeatable) == 0 {
		return call.Repeatable
	}
	return slices.ContainsFunc(c.Run.Repeatable,
		func(prefix string) bool { return strings.HasPrefix(call.Call.Tool, prefix) })
}

// sentNothing reports whether an attempt of a call failed before it sent anything: its server was away, or the journal
// did not take its claim.
func sentNothing(f *failurepb.ApplicationFailureInfo) bool {
	switch turn.Code(f.GetType()) {
	case turn.CodeToolNotSent:
		return true
	case turn.CodeJournalUnavailable: // the second detail says whether the call may have reached its tool
		details := f.GetDetails().GetPayloads()
		return len(details) > 1 && string(details[1].GetData()) == "false"
	}
	return false
}

// attempts checks I2 in Temporal's history: an attempt of a call is retried only if its last attempt had sent
// nothing. The ledger, not a retry policy, says what became of an attempt that may have sent something.
func (c *checker) attempts() {
	for name, h := range c.Histories {
		scheduled := map[int64]workflows.CallInput{}
		for _, e := range h.Events {
			if in, ok := scheduledCall(e); ok {
				scheduled[e.EventId] = in
			}
			started := e.GetActivityTaskStartedEventAttributes()
			if in, ok := scheduled[started.GetScheduledEventId()]; ok && started.GetAttempt() > 1 &&
				!sentNothing(started.GetLastFailure().GetApplicationFailureInfo()) {
				c.breaks(I2, "call %s of run %s: attempt %d was started %d times, after an attempt that may have sent it",
					in.Call.ID, name,
					in.Attempt, started.GetAttempt())
			}
		}
	}
}

func scheduledCall(e *historypb.HistoryEvent) (in workflows.CallInput, ok bool) {
	a := e.GetActivityTaskScheduledEventAttributes()
	if e.EventType != enumspb.EVENT_TYPE_ACTIVITY_TASK_SCHEDULED || a.GetActivityType().GetName() != "CallTool" {
		return in, false
	}
	return in, converter.GetDefaultDataConverter().FromPayloads(a.GetInput(), &in) == nil
}
