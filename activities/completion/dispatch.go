package completion

import (
	"context"
	"time"

	"github.com/everturn/everturn/activities/attempt"
	"github.com/everturn/everturn/journal"
	"github.com/everturn/everturn/workflows"
	"github.com/everturn/everturn/workflows/plan"
	"github.com/everturn/everturn/workflows/turn"
)

// planOf returns the instruction about the turn's plan for the prompt, which is empty if there is no plan, and the
// calls that the plan makes now in place of the model. A user's message that came in meanwhile goes to the model first.
func (r *Runner) planOf(ctx context.Context, in workflows.InferInput, inf journal.Inference,
	promptConfig turn.PromptConfig) (instruction string, due []turn.ToolCall, err error) {
	if promptConfig.Plan == "" {
		return "", nil, nil
	}
	p, err := r.authorizer.Plan(ctx, inf.Key)
	if err == nil && len(in.Messages) == 0 && promptConfig.Plan != plan.Todo {
		due = p.DueCalls(promptConfig, in.Step)
	}
	return p.PlanInstruction(), due, err
}

// dispatch settles the inference with the calls of the plan's written steps, without a request to the model. From here
// on they are calls like those of a model: checked, permitted, claimed and settled in the same way.
func (r *Runner) dispatch(ctx context.Context, in workflows.InferInput, inf journal.Inference,
	promptConfig turn.PromptConfig, due []turn.ToolCall) (journal.Inference, error) {
	answer := turn.Completion{Plan: true, ToolCalls: due}
	m := transcribe(in, promptConfig, answer)
	settled, err := attempt.RetryUntilAvailable(ctx, r.attempts.SettleWithin(ctx), func(ctx context.Context) (journal.Inference, error) {
		return r.journal.SettleInference(ctx, journal.SettleInference{Session: in.Session, Key: inf.Key, Attempt: inf.Attempt,
			Base: inf.Base, Answer: answer, Message: m, At: time.Now()})
	})
	if err == nil {
		r.frozen.AddStep(inf.Key, settled.Head, settled.Message)
	}
	return settled, err
}
