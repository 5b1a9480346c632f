package authorize

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/everturn/everturn/journal"
	"github.com/everturn/everturn/workflows/plan"
	"github.com/everturn/everturn/workflows/turn"
)

// TurnPlan is the state of a turn's plan before a step.
type TurnPlan struct {
	plan.Progress
	calls     int // number of calls that the turn has made
	proposals int // number of plans that the model has proposed, including those that the user denied
	limits    turn.Limits
	requests  []turn.Request
}

// AfterCall returns the state of the plan after a call of a plan tool in this step.
func (p TurnPlan) AfterCall(step int, call turn.ToolCall) plan.Progress {
	return journal.PlanAfter(p.Progress, step, call, p.requests)
}

// Plan reads the calls of the turn before this step, and returns the state of the plan after them.
func (a *Authorizer) Plan(ctx context.Context, key journal.StepKey) (TurnPlan, error) {
	found, err := a.journal.CallContext(ctx, journal.CallContextInput{Turn: key.Turn, Planned: true})
	if err != nil {
		return TurnPlan{}, fmt.Errorf("reading the plan: %w", err)
	}
	return a.planOf(ctx, key, found)
}

// planOf returns the state of the plan before this step.
func (a *Authorizer) planOf(ctx context.Context, key journal.StepKey, c journal.CallContext) (p TurnPlan, err error) {
	begun, err := a.frozen.Turn(ctx, key.Turn)
	if err != nil {
		return p, err
	}
	calls := slices.DeleteFunc(c.Calls, func(c journal.CallRecord) bool { return c.Step >= key.Step })
	p.Progress, p.calls, p.limits, p.requests = journal.PlanOf(calls, c.Requests), len(calls), begun.Limits, c.Requests
	for _, c := range calls {
		if c.Call.Tool == plan.Tool && c.Outcome == turn.OutcomeOK {
			p.proposals++
		}
	}
	asked := 0 // approvals of plans; a plan that the user has denied has an approval and no call
	for _, r := range c.Requests {
		if r.Kind == turn.RequestApproval && r.Tool == plan.Tool && r.Step < key.Step {
			asked++
		}
	}
	p.proposals = max(p.proposals, asked)
	return p, nil
}

// planContext returns the plan before this step, and whether a call of the step reflects on a plan step.
func (a *Authorizer) planContext(ctx context.Context, key journal.StepKey,
	c journal.CallContext) (*TurnPlan, bool, error) {
	p, err := a.planOf(ctx, key, c)
	if err != nil {
		return nil, false, err
	}
	m, err := a.frozen.StepMessage(ctx, key)
	if err != nil {
		return nil, false, err
	}
	return &p, slices.ContainsFunc(m.ToolCalls, reflects), nil
}

// byPlan decides by the turn's plan whether a call of the step may run. It returns the zero Permit if the plan does not
// decide and policy does. confirm is what users confirm of the plan; "" means that the turn has no
// plan. If the plan cannot be read, byPlan refuses no call; the call is checked again when it is claimed.
func (c callContext) byPlan(d turn.Descriptor, call turn.ToolCall, confirm plan.Confirm) turn.Permit {
	if confirm == "" {
		return turn.Permit{}
	}
	refusal, next := "", ""
	if p := c.plan; p != nil {
		isAgent := strings.HasPrefix(d.ID, turn.AgentTools) // its tool is read-only, but its own calls need not be
		at := plan.Turn{Inference: c.key.Step, Reflects: c.reflecting, Proposals: p.proposals,
			MaxInferences: p.limits.MaxSteps, MaxCalls: p.limits.MaxToolCalls, Calls: p.calls}
		refusal = p.Refuse(at, d.ID, call.Arguments, d.ReadOnly && !isAgent)
		if d.ID == plan.StepTool {
			next = p.Next(call.Arguments)
		}
	}
	switch {
	case refusal != "":
		return turn.Permit{Permission: turn.Deny, Why: refusal, Retry: true}
	case d.ID == plan.Tool && confirm != plan.ConfirmNever:
		return turn.Permit{Permission: turn.Ask, MaxGrant: turn.GrantNever,
			Why: "the agent works by this plan once you allow it; you can change it"}
	case confirm == plan.ConfirmStep && next != "":
		return turn.Permit{Permission: turn.Ask, MaxGrant: turn.GrantNever, Why: next}
	case plan.Is(d.ID):
		return turn.Permit{Permission: turn.Allow}
	}
	return turn.Permit{}
}

// reflects reports whether a call reflects on a plan step.
func reflects(c turn.ToolCall) bool { return c.Tool == plan.StepTool }

// PlanInstruction returns the text that tells the model the state of the plan and what to do next, or "" if there is
// no plan yet.
func (a *Authorizer) PlanInstruction(ctx context.Context, key journal.StepKey, confirm plan.Confirm) (string, error) {
	if confirm == "" {
		return "", nil
	}
	p, err := a.Plan(ctx, key)
	if err != nil || len(p.Steps) == 0 {
		return "", err
	}
	return p.Instruction(), nil
}
