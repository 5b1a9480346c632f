package call

import (
	"context"

	"github.com/everturn/everturn/journal"
	"github.com/everturn/everturn/workflows"
	"github.com/everturn/everturn/workflows/turn"
)

// changePlan runs a call of one of the planTools. The journal has the call already, and the plan is computed from the
// calls, so changePlan writes nothing. The result tells the model the state of the plan after the call.
func (r *Runner) changePlan(ctx context.Context, in workflows.CallInput,
	call turn.ToolCall) (turn.ToolResult, error) {
	p, err := r.authorizer.Plan(ctx, journal.StepKey{Turn: in.Turn, Step: in.Step})
	if err != nil {
		return turn.ToolResult{}, err
	}
	next := p.AfterCall(in.Step, call)
	return turn.ToolResult{Outcome: turn.OutcomeOK, Text: next.Instruction(), Plan: &next}, nil
}
