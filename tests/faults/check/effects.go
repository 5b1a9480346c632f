package check

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	enumspb "go.temporal.io/api/enums/v1"
	historypb "go.temporal.io/api/history/v1"
	"go.temporal.io/sdk/converter"

	"github.com/everturn/everturn/journal"
	"github.com/everturn/everturn/workflows"
	"github.com/everturn/everturn/workflows/turn"
)

// counts is how often the tool's ledger has each event of a call.
type counts struct{ begun, effect, done int }

// effects checks I2: the journal's record of each call against the tool's own ledger.
func (c *checker) effects() {
	seen := map[string]*counts{}
	for _, e := range c.Effects {
		if e.Event == "mode" || e.Event == "face" {
			continue // of a server, not of a call
		}
		if seen[e.Text] == nil {
			seen[e.Text] = &counts{}
		}
		switch e.Event {
		case "begun":
			seen[e.Text].begun++
		case "effect":
			seen[e.Text].effect++
		case "done":
			seen[e.Text].done++
		}
	}
	owned := map[string]bool{}
	for _, t := range c.sortedTurns() {
		for _, call := range t.calls {
			key := keyOf(call.Call)
			if key == "" {
				continue
			}
			n := seen[key]
			if n == nil {
				n = &counts{}
			}
			owned[key] = true
			c.effect(call, *n)
		}
	}
	for key, n := range seen {
		if !owned[key] {
			c.breaks(I2, "the tool has run %s (%d begun, %d effects) and the ledger has no such call", key, n.begun, n.effect)
		}
	}
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

func (c *checker) effect(call journal.ExportCall, n counts) {
	name := fmt.Sprintf("call %s (%s) of turn %s", call.Call.ID, keyOf(call.Call), call.Turn)
	repeatable := c.repeatable(call)
	if call.Repeatable && !repeatable {
		c.breaks(I2, "%s was taken for one that may be repeated, and the operator has not said so", name)
	}
	if !repeatable && n.effect > 1 {
		c.breaks(I2, "%s has %d effects", name, n.effect)
	}
	if !repeatable && n.begun > 1 {
		c.breaks(I2, "%s was sent %d times and may not be repeated", name, n.begun)
	}
	if n.begun > call.Runs {
		c.breaks(I2, "%s was sent %d times and the ledger has %d claims", name, n.begun, call.Runs)
	}
	switch call.Outcome {
	case turn.OutcomeOK:
		if n.effect == 0 && strings.HasSuffix(call.Call.Tool, "/append") {
			c.breaks(I2, "%s is said to be ok and has no effect", name)
		}
	case turn.OutcomeError:
		if n.effect > 0 && strings.HasSuffix(call.Call.Tool, "/append") && !repeatable {
			c.breaks(I2, "%s is said to have failed and has %d effects", name, n.effect)
		}
	case turn.OutcomeDenied, turn.OutcomeCancelled:
		if n.effect > 0 {
			c.breaks(I2, "%s is said to be %s and has %d effects", name, call.Outcome, n.effect)
		}
	case turn.OutcomeUnknown:
		if !strings.Contains(strings.ToLower(call.Text), "outcome unknown") {
			c.breaks(I2, "%s is unknown and the model is told %q", name, call.Text)
		}
	case "":
		c.breaks(I2, "%s has no outcome", name)
	}
}

// repeatable reports whether the operator declares a call repeatable.
func (c *checker) repeatable(call journal.ExportCall) bool {
	if len(c.Run.Repeatable) == 0 {
		return call.Repeatable
	}
	return slices.ContainsFunc(c.Run.Repeatable,
		func(prefix string) bool { return strings.HasPrefix(call.Call.Tool, prefix) })
}

// dispatches checks I2 in Temporal's history: a dispatch of a call is retried only if its last attempt had sent
// nothing. The ledger, not a retry policy, says what became of a dispatch that may have sent something.
func (c *checker) dispatches() {
	for name, h := range c.Histories {
		scheduled := map[int64]workflows.CallInput{}
		for _, e := range h.Events {
			if in, ok := scheduledCall(e); ok {
				scheduled[e.EventId] = in
			}
			started := e.GetActivityTaskStartedEventAttributes()
			if in, ok := scheduled[started.GetScheduledEventId()]; ok && started.GetAttempt() > 1 &&
				started.GetLastFailure().GetApplicationFailureInfo().GetType() != string(turn.CodeToolNotSent) {
				c.breaks(I2, "call %s of run %s: dispatch %d was started %d times, after an attempt that may have sent it",
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
