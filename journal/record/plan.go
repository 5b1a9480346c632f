package record

import (
	"github.com/everturn/everturn/workflows/plan"
	"github.com/everturn/everturn/workflows/turn"
)

// PlanEvents returns the changes of a turn's plan: one event for each accepted call of a plan tool, in the order of
// calls. requests are the turn's requests, which may have edits of users.
func PlanEvents(calls []CallRecord, requests []RequestRecord) (events []plan.Event) {
	for _, c := range calls {
		if !plan.Is(c.Call.Tool) || c.Outcome != turn.OutcomeOK {
			continue
		}
		events = append(events, PlanEvent(c.Step, c.Call, requests))
	}
	return events
}

// PlanEvent returns the change of a plan that a call of a plan tool makes, if the call is accepted. step is the step of
// the call. If a user answered the call's request with an edited plan, the event has it as Edit.
func PlanEvent(step int, c turn.ToolCall, requests []RequestRecord) plan.Event {
	e := plan.Event{Tool: c.Tool, Arguments: c.Arguments, Inference: step}
	for _, r := range requests {
		if r.ID == c.ID && r.Decision != nil && r.Decision.Response != nil {
			e.Edit = r.Decision.Response.Content
		}
	}
	return e
}
