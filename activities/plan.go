package activities

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/everturn/everturn/journal"
	"github.com/everturn/everturn/workflows"
	"github.com/everturn/everturn/workflows/plan"
	"github.com/everturn/everturn/workflows/turn"
)

// planTools are the tools with which a model proposes a plan and reflects on its steps. Their calls use only the
// journal.
var planTools = []turn.Descriptor{
	planTool(plan.Tool, plan.Description, plan.Schema),
	planTool(plan.StepTool, plan.StepDescription, plan.StepSchema),
}

// planTool returns the descriptor of one of the planTools.
func planTool(id, description, schema string) turn.Descriptor {
	return turn.Descriptor{
		ID: id, Wire: turn.WireName(id), Description: description, Schema: json.RawMessage(schema),
		Activity: turn.ActivityLocal, Risk: turn.RiskLow, Repeatable: true, Effects: turn.Effects{ReadOnly: true},
		Hash: journal.HashOf([]byte(id + "\n" + description + "\n" + schema)),
	}
}

// addPlanTools adds the planTools to cfg, and returns the descriptors with theirs.
func (a *Activities) addPlanTools(cfg *turn.Config, descriptors []turn.Descriptor) []turn.Descriptor {
	cfg.Tools = append(cfg.Tools, a.toolsOf(planTools)...)
	return append(descriptors, planTools...)
}

// turnPlan is the state of a turn's plan before a step.
type turnPlan struct {
	plan.Progress
	events    []plan.Event // the calls that proposed plans or reflected on steps
	calls     int          // number of calls that the turn has made
	proposals int          // number of plans that the model has proposed, including those that the user denied
	limits    turn.Limits
}

// planBefore reads the calls of the turn before this step, and returns the state of the plan after them.
func (a *Activities) planBefore(ctx context.Context, key journal.StepKey) (p turnPlan, err error) {
	begun, err := a.begunTurn(ctx, key.Turn)
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
	p.events, p.calls, p.limits = journal.PlanEvents(calls, requests), len(calls), begun.limits
	for _, e := range p.events {
		if e.Tool == plan.Tool {
			p.proposals++
		}
	}
	asked := 0 // approvals of plans; a plan that the user has denied has an approval and no call
	for _, r := range requests {
		if r.Kind == turn.RequestApproval && r.Tool == plan.Tool && r.Step < key.Step {
			asked++
		}
	}
	p.Progress, p.proposals = plan.Fold(p.events), max(p.proposals, asked)
	return p, nil
}

// planCheck returns a function that decides by the turn's plan whether a call of this step may run. The function
// returns the permission and the reason, or "" if the plan does not decide and policy does. confirm is what users
// confirm of the plan; "" means that the turn has no plan. If the journal cannot be read, planCheck sets *failed and
// the function refuses no call; the call is checked again when it is claimed.
func (a *Activities) planCheck(ctx context.Context, key journal.StepKey, confirm plan.Confirm,
	failed *error) func(turn.Descriptor, turn.ToolCall) (turn.Permission, string) {
	if confirm == "" {
		return func(turn.Descriptor, turn.ToolCall) (turn.Permission, string) { return "", "" }
	}
	p, err := a.planBefore(ctx, key)
	m, merr := a.stepMessage(ctx, key)
	if err == nil {
		err = merr
	}
	*failed = err
	// A completion that reflects on a step must not change anything else, because the change would belong to no step.
	reflecting := slices.ContainsFunc(m.ToolCalls, reflects)
	return func(d turn.Descriptor, c turn.ToolCall) (turn.Permission, string) {
		refusal := ""
		if err == nil {
			isAgent := strings.HasPrefix(d.ID, turn.AgentTools) // its tool is read-only, but its own calls need not be
			refusal = p.Refuse(plan.Call{Tool: d.ID, Arguments: c.Arguments,
				ReadOnly: d.ReadOnly && !isAgent, Inference: key.Step, Proposals: p.proposals,
				Reflects:      reflecting,
				MaxInferences: p.limits.MaxSteps, MaxCalls: p.limits.MaxToolCalls, Calls: p.calls})
		}
		next := ""
		if d.ID == plan.StepTool {
			next = p.Next(c.Arguments)
		}
		switch {
		case refusal != "":
			return turn.Deny, refusal
		case d.ID == plan.Tool && confirm != plan.ConfirmNever:
			return turn.Ask, "the agent works by this plan once you allow it; you can change it"
		case confirm == plan.ConfirmStep && next != "":
			return turn.Ask, next
		case plan.Is(d.ID):
			return turn.Allow, ""
		}
		return "", ""
	}
}

// reflects reports whether a call reflects on a plan step.
func reflects(c turn.ToolCall) bool { return c.Tool == plan.StepTool }

// changePlan runs a call of one of the planTools. The journal has the call already, and the plan is computed from the
// calls, so changePlan writes nothing. The result tells the model the state of the plan after the call.
func (a *Activities) changePlan(ctx context.Context, in workflows.CallInput,
	call turn.ToolCall) (turn.ToolResult, error) {
	p, err := a.planBefore(ctx, journal.StepKey{Turn: in.Turn, Step: in.Step})
	if err != nil {
		return turn.ToolResult{}, err
	}
	requests, err := a.journal.Tenant(in.Tenant).Requests(ctx, in.Turn)
	if err != nil {
		return turn.ToolResult{}, fmt.Errorf("reading the decision about the plan: %w", err)
	}
	next := p.After(journal.PlanEvent(in.Step, call, requests))
	return turn.ToolResult{Outcome: turn.OutcomeOK, Text: next.Instruction(), Plan: &next}, nil
}

// planInstruction returns the text that tells the model the state of the plan and what to do next, or "" if there is
// no plan yet.
func (a *Activities) planInstruction(ctx context.Context, key journal.StepKey, confirm plan.Confirm) (string, error) {
	if confirm == "" {
		return "", nil
	}
	p, err := a.planBefore(ctx, key)
	if err != nil || len(p.events) == 0 {
		return "", err
	}
	return p.Instruction(), nil
}
