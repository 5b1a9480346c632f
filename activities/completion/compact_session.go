package completion

import (
	"cmp"
	"context"
	"time"

	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/temporal"

	"github.com/everturn/everturn/activities/attempt"
	"github.com/everturn/everturn/activities/capacity"
	"github.com/everturn/everturn/journal/fleet"
	"github.com/everturn/everturn/workflows"
	"github.com/everturn/everturn/workflows/turn"
)

// Compact returns the compaction of a session at its user's request, with its summary; the caller records it. It
// returns nil if there is nothing to summarize.
func (r *Runner) Compact(ctx context.Context, in workflows.CompactInput,
	input turn.CompactionInput) (*turn.Compaction, error) {
	draft, todo := turn.PlanCompaction(input)
	if draft == nil || len(todo) == 0 {
		return nil, nil
	}
	c := input.CompactionSettings
	err := r.summarize(ctx, c, draft, todo, in.Focus,
		func(ctx context.Context, p turn.Prompt, _ int) (turn.Completion, error) {
			return r.askCompact(ctx, in, c.Model, p)
		})
	if err != nil {
		return nil, err
	}
	spec := turn.PromptSpec{From: input.From}
	after := prompt{messages: input.Window}
	after.apply(&spec, draft)
	draft.After = resized(draft.Before, input.Prompt.Tokens(), after.render(spec).Tokens())
	draft.SettledAt = time.Now()
	return draft, nil
}

// askCompact sends a request of Compact for a summary, within the budget and the fleet limits. The budget is only
// checked, because a reservation belongs to a turn. An error that is a fatalError ends the attempt: the request was not
// allowed, or it failed and another attempt of the activity may succeed. After another error the caller goes on with
// its next request, or without a summary.
func (r *Runner) askCompact(ctx context.Context, in workflows.CompactInput, m turn.Model,
	p turn.Prompt) (turn.Completion, error) {
	if !r.budget.Empty() {
		over, err := r.journal.Tenant(in.Tenant).CheckBudget(ctx, in.Session, summaryReserve(r.budget, p, m.Price))
		if err != nil {
			return turn.Completion{}, fatalError{err}
		}
		if over != nil {
			return turn.Completion{}, fatalError{turn.NewError(turn.CodeBudgetUsedUp, nil, over.String())}
		}
	}
	lease, refusal, err := r.capacity.Admit(ctx, capacity.Request{
		Tenant: in.Tenant, Provider: m.Provider, Model: m.Name, Since: attempt.Scheduled(ctx),
		Tokens: p.Tokens() + cmp.Or(int64(p.MaxTokens), guessedOutput),
	}, workflows.AdmitWithin, func(fleet.Refusal) {})
	switch {
	case err != nil:
		return turn.Completion{}, fatalError{err}
	case refusal != nil && refusal.Final:
		return turn.Completion{}, fatalError{turn.NewError(turn.CodeTokensUsedUp, nil, refusal.String())}
	case refusal != nil:
		return turn.Completion{}, fatalError{temporal.NewApplicationErrorWithOptions(refusal.String(),
			string(turn.CodeLLMRateLimited), temporal.ApplicationErrorOptions{NextRetryDelay: refusal.Retry})}
	}
	defer lease.End(-1) // no effect after another End
	answer, err := r.model.Infer(ctx, p, &byteCounter{up: func() {}})
	if err == nil {
		lease.End(answer.Usage.Total())
		return answer, nil
	}
	if ctx.Err() != nil || turn.CodeOf(err).Retryable() && activity.GetInfo(ctx).Attempt < workflows.CompactAttempts {
		return answer, fatalError{err}
	}
	return answer, err
}
