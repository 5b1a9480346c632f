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
}

// Plan reads the calls of the turn before this step, and returns the state of the plan after them.
func (a *Authorizer) Plan(ctx context.Context, key journal.StepKey) (p TurnPlan, err error) {
	begun, err := a.frozen.Turn(ctx, key.Turn)
	if err != nil {
		return p, err
	}
	tenantJournal := a.journal.Tenant(begun.Tenant)
	calls, err := tenantJournal.Calls(ctx, key.Turn)
	if err != nil {
		return p, fmt.Errorf("reading the turn's calls: %w", err)
	}
	requests, err := tenantJournal.Requests(ctx, key.Turn)
	if err != nil {
		return p, fmt.Errorf("reading the turn's requests: %w", err)
	}
	calls = slices.DeleteFunc(calls, func(c journal.CallRecord) bool { return c.Step >= key.Step })
	p.Progress, p.calls, p.limits = journal.PlanOf(calls, requests), len(calls), begun.Limits
	for _, c := range calls {
		if c.Call.Tool == plan.Tool && c.Outcome == turn.OutcomeOK {
			p.proposals++
		}
	}
	asked := 0 // approvals of plans; a plan that the user has denied has an approval and no call
	for _, r := range requests {
		if r.Kind == turn.RequestApproval && r.Tool == plan.Tool && r.Step < key.Step {
			asked++
		}
	}
	p.proposals = max(p.proposals, asked)
	return p, nil
}

// planCheck returns a function that decides by the turn's plan whether a call of this step may run. The function
// returns the zero Permit if the plan does not decide and policy does. confirm is what users confirm of the plan; ""
// means that the turn has no plan. If the journal cannot be read, planCheck sets *failed and
// the function refuses no call; the call is checked again when it is claimed.
func (a *Authorizer) planCheck(ctx context.Context, key journal.StepKey, confirm plan.Confirm,
	failed *error) func(turn.Descriptor, turn.ToolCall) turn.Permit {
	if confirm == "" {
		return func(turn.Descriptor, turn.ToolCall) turn.Permit { return turn.Permit{} }
	}
	p, err := a.Plan(ctx, key)
	m, merr := a.frozen.StepMessage(ctx, key)
	if err == nil {
		err = merr
	}
	*failed = err
	// A completion that reflects on a step must not change anything else, because the change would belong to no step.
	at := plan.Turn{Inference: key.Step, Reflects: slices.ContainsFunc(m.ToolCalls, reflects), Proposals: p.proposals,
		MaxInferences: p.limits.MaxSteps, MaxCalls: p.limits.MaxToolCalls, Calls: p.calls}
	return func(d turn.Descriptor, c turn.ToolCall) turn.Permit {
		refusal := ""
		if err == nil {
			isAgent := strings.HasPrefix(d.ID, turn.AgentTools) // its tool is read-only, but its own calls need not be
			refusal = p.Refuse(at, d.ID, c.Arguments, d.ReadOnly && !isAgent)
		}
		next := ""
		if d.ID == plan.StepTool {
			next = p.Next(c.Arguments)
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
