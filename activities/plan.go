package activities

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/everturn/everturn/journal"
	"github.com/everturn/everturn/journal/record"
	"github.com/everturn/everturn/workflows"
	"github.com/everturn/everturn/workflows/plan"
	"github.com/everturn/everturn/workflows/turn"
)

// planTools describe the tools with which a model works by a plan. Their calls only read and write the journal.
var planTools = []turn.Descriptor{
	planTool(plan.Tool, plan.Description, plan.Schema),
	planTool(plan.StepTool, plan.StepDescription, plan.StepSchema),
}

func planTool(id, description, schema string) turn.Descriptor {
	return turn.Descriptor{
		ID: id, Wire: turn.WireName(id), Description: description, Schema: json.RawMessage(schema),
		Activity: turn.ActivityLocal, Risk: turn.RiskLow, Repeatable: true, Effects: turn.Effects{ReadOnly: true},
		Hash: record.HashOf([]byte(id + "\n" + description + "\n" + schema)),
	}
}

// addPlanTools adds the tools with which a model works by a plan.
func (a *Activities) addPlanTools(cfg *turn.Config, descriptors []turn.Descriptor) []turn.Descriptor {
	cfg.Tools = append(cfg.Tools, a.toolsOf(planTools)...)
	return append(descriptors, planTools...)
}

// turnPlan is the plan of a turn as the calls before an inference have left it.
type turnPlan struct {
	plan.Progress
	events    []plan.Event
	calls     int // that the turn has made
	proposals int // of plans
	limits    turn.Limits
}

// planBefore reads the plan as the calls of earlier inferences have left it.
func (a *Activities) planBefore(ctx context.Context, key journal.StepKey) (p turnPlan, err error) {
	pins, err := a.begunTurn(ctx, key.Turn)
	if err != nil {
		return p, err
	}
	own := a.journal.Tenant(pins.Tenant)
	calls, err := own.Calls(ctx, key.Turn)
	if err != nil {
		return p, fmt.Errorf("reading the turn's calls: %w", err)
	}
	requests, err := own.Requests(ctx, key.Turn)
	if err != nil {
		return p, fmt.Errorf("reading the turn's requests: %w", err)
	}
	calls = slices.DeleteFunc(calls, func(c journal.CallRecord) bool { return c.Step >= key.Step })
	p.events, p.calls, p.limits = record.PlanEvents(calls, requests), len(calls), pins.limits
	for _, e := range p.events {
		if e.Tool == plan.Tool {
			p.proposals++
		}
	}
	asked := 0
	for _, w := range requests {
		if w.Kind == turn.RequestApproval && w.Tool == plan.Tool && w.Step < key.Step {
			asked++
		}
	}
	p.Progress, p.proposals = plan.Fold(p.events), max(p.proposals, asked)
	return p, nil
}

// planCheck returns the function that decides whether a call fits the plan by which the turn works: its permission and
// the reason, or "" if the policy decides. If the journal cannot be read, the function sets failed, and the claim of
// the call decides.
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
	reflecting := slices.ContainsFunc(m.ToolCalls, reflects)
	return func(d turn.Descriptor, c turn.ToolCall) (turn.Permission, string) {
		why := ""
		if err == nil {
			why = p.Refuse(plan.Call{Tool: d.ID, Arguments: c.Arguments,
				ReadOnly: d.ReadOnly && !strings.HasPrefix(d.ID, turn.AgentTools), Inference: key.Step, Proposals: p.proposals,
				Reflects:      reflecting,
				MaxInferences: p.limits.MaxSteps, MaxCalls: p.limits.MaxToolCalls, Calls: p.calls})
		}
		next := ""
		if d.ID == plan.StepTool {
			next = p.Next(c.Arguments)
		}
		switch {
		case why != "":
			return turn.Deny, why
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

// reflects reports whether a call reflects on a step.
func reflects(c turn.ToolCall) bool { return c.Tool == plan.StepTool }

// changePlan runs a call of a plan's tool: the journal has the call, so the result only says what it has changed.
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
	next := p.After(record.PlanEvent(in.Step, call, requests))
	return turn.ToolResult{Outcome: turn.OutcomeOK, Text: next.Instruction(), Plan: &next}, nil
}

// planInstruction returns what the model must know of the plan before an inference, or "" if there is no plan.
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
