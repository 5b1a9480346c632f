package call

import (
	"context"

	"github.com/everturn/everturn/journal"
	"github.com/everturn/everturn/workflows"
	"github.com/everturn/everturn/workflows/plan"
	"github.com/everturn/everturn/workflows/turn"
)

// changePlan runs a call of a plan tool (see plan.Is). The journal has the call already, and the plan is computed from
// the calls, so changePlan writes nothing. The result tells the model the state of the plan after the call.
func (r *Runner) changePlan(ctx context.Context, in workflows.CallInput,
	call turn.ToolCall) (turn.ToolResult, error) {
	p, err := r.authorizer.Plan(ctx, journal.StepKey{Turn: in.Turn, Step: in.Step})
	if err != nil {
		return turn.ToolResult{}, err
	}
	next := p.AfterCall(in.Step, call)
	return turn.ToolResult{Outcome: turn.OutcomeOK, Text: next.Instruction(), Plan: &next}, nil
}

// planAfter returns the progress of the turn's plan after a call of another tool, or nil if the call was not one that
// the plan makes, or if the plan cannot be read: the event of the plan is then left out.
func (r *Runner) planAfter(ctx context.Context, in workflows.CallInput, result turn.ToolResult) *plan.Progress {
	if in.PromptConfig == "" {
		return nil
	}
	begun, err := r.frozen.Turn(ctx, in.Turn)
	if err != nil {
		return nil
	}
	promptConfig, err := r.frozen.PromptConfig(ctx, begun.PromptConfig) // as Authorize has read it
	if err != nil || promptConfig.Plan == "" {
		return nil
	}
	next, changed, err := r.authorizer.PlanAfter(ctx, journal.StepKey{Turn: in.Turn, Step: in.Step}, in.Call.ID, result)
	if err != nil || !changed {
		return nil
	}
	return &next
}
