package record

import (
	"github.com/everturn/everturn/workflows/plan"
	"github.com/everturn/everturn/workflows/turn"
)

// PlanEvents returns what a turn's calls have done to its plan.
// PlanEvent returns what a call of a plan's tool does to the plan, if it is accepted.
func PlanEvents(calls []CallRecord, requests []RequestRecord) (events []plan.Event) {
	for _, c := range calls {
		if !plan.Is(c.Call.Tool) || c.Outcome != turn.OutcomeOK {
			continue
		}
		events = append(events, PlanEvent(c.Step, c.Call, requests))
	}
	return events
}

// PlanEvent returns what a call of a plan's tool does to the plan, if it is accepted.
func PlanEvent(step int, c turn.ToolCall, requests []RequestRecord) plan.Event {
	e := plan.Event{Tool: c.Tool, Arguments: c.Arguments, Inference: step}
	for _, w := range requests {
		if w.ID == c.ID && w.Decision != nil && w.Decision.Response != nil {
			e.Edit = w.Decision.Response.Content
		}
	}
	return e
}
