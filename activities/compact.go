package activities

import (
	"context"
	"errors"
	"time"

	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/temporal"

	"github.com/everturn/everturn/activities/capacity"
	"github.com/everturn/everturn/journal"
	"github.com/everturn/everturn/journal/fleet"
	"github.com/everturn/everturn/workflows"
	"github.com/everturn/everturn/workflows/turn"
)

// Compact compacts the conversation of a session whose turn has ended. If the journal has the request's compaction,
// Compact returns it and does not pay for another.
func (a *Activities) Compact(ctx context.Context, in workflows.CompactInput) (workflows.CompactResult, error) {
	if a.elsewhere.Inference != "" { // this worker runs no inferences
		return workflows.CompactResult{}, workflows.Elsewhere(a.queues)
	}
	clock := startClock(ctx)
	defer clock.stop()
	done, err := a.compactSession(ctx, in)
	if err != nil || done == nil {
		return workflows.CompactResult{Nothing: err == nil}, a.failure(ctx, err)
	}
	return workflows.CompactResult{CompactedEvent: done.Report()}, nil
}

// compactSession returns the compaction that the request made before, or else makes and records one. It returns nil if
// there is nothing to summarize.
func (a *Activities) compactSession(ctx context.Context, in workflows.CompactInput) (*turn.Compaction, error) {
	j := a.journal.Tenant(in.Tenant)
	done, err := j.Compacted(ctx, in.Session, in.Request)
	if err == nil || !errors.Is(err, journal.ErrNotFound) { // compacted before, or the journal cannot be read
		return &done, err
	}
	input, err := a.compactInput(ctx, j, in)
	if err != nil {
		return nil, err
	}
	draft, todo := turn.PlanCompaction(input)
	if draft == nil || len(todo) == 0 {
		return nil, nil
	}
	c := input.CompactionSettings
	err = a.summarize(ctx, c, draft, todo, in.Focus,
		func(ctx context.Context, p turn.Prompt, _ int) (turn.Completion, error) {
			return a.askCompact(ctx, in, c.Model, p)
		})
	if err != nil {
		return nil, err
	}
	spec := turn.PromptSpec{From: input.From}
	after := prompt{messages: input.Window}
	after.apply(&spec, draft)
	draft.After = resized(draft.Before, input.Prompt.Tokens(), after.render(spec).Tokens())
	draft.SettledAt = time.Now()
	settled, err := j.AddCompaction(ctx, in.Session, in.Request, *draft)
	return &settled, err
}

// compactInput reads what the planning of a compaction needs: the messages since the session's last compaction, and
// the settings of a turn of the default agent that would begin now. It returns an error if the session has a running
// turn, if that agent does not compact, or if the messages exceed maxPrompt.
func (a *Activities) compactInput(ctx context.Context, j *journal.DB,
	in workflows.CompactInput) (out turn.CompactionInput, err error) {
	session, err := j.Session(ctx, in.Session)
	if err != nil {
		return out, err
	}
	if last := session.LastTurn; last.ID != "" && !last.State.Terminal() {
		return out, turn.Errorf(turn.CodeSessionBusy, nil,
			"the session has a running turn; compact it when the turn has ended")
	}
	begin := workflows.BeginInput{}
	begin.Tenant = in.Tenant
	cfg, err := a.newConfig(ctx, begin, nil)
	if err != nil {
		return out, err
	}
	promptConfig, err := a.promptConfigs.get(ctx, cfg.PromptConfig)
	if err != nil {
		return out, err
	}
	if promptConfig.Compaction == nil {
		return out, turn.Errorf(turn.CodeConfigInvalid, nil,
			`compacting is turned off: set compaction = "auto" in [prompt] of the workers' agent.toml`)
	}
	list, err := j.Compactions(ctx, in.Session)
	if err != nil {
		return out, err
	}
	spec := turn.PromptSpec{From: 1, Mode: cfg.Mode}
	if len(list) > 0 {
		out.Previous = &list[len(list)-1]
		spec.From = out.Previous.To + 1
	}
	if out.Window, err = j.Messages(ctx, in.Session, spec.From, session.Head.Seq); err != nil {
		return out, err
	}
	if _, over := promptBytes(out.Window); over >= 0 {
		return out, &journal.TooLargeError{Seq: spec.From + int64(over), Max: maxPrompt}
	}
	out.CompactionSettings, out.Reason = *promptConfig.Compaction, turn.CompactionManual
	out.Head, out.From = session.Head, spec.From
	out.Prompt = turn.RenderCompacted(spec, promptConfig, out.Previous, nil, out.Window)
	out.Projected = out.Prompt.Tokens() + out.ReserveTokens
	if out.ContextTokens == 0 {
		out.ContextTokens = max(out.Projected, unknownContext)
	}
	return out, nil
}

// unknownContext is the context window, in tokens, that compaction assumes for a model whose window is unknown.
const unknownContext = 32_000

// askCompact sends a request of Compact for a summary, within the budget and the fleet limits. The budget is only
// checked, because a reservation belongs to a turn. An error that is a fatalError ends the attempt: the request was not
// allowed, or it failed and another attempt of the activity may succeed. After another error the caller goes on with
// its next request, or without a summary.
func (a *Activities) askCompact(ctx context.Context, in workflows.CompactInput, m turn.Model,
	p turn.Prompt) (turn.Completion, error) {
	if !a.budget.Empty() {
		over, err := a.journal.Tenant(in.Tenant).CheckBudget(ctx, in.Session, summaryReserve(a.budget, p, m.Price))
		if err != nil {
			return turn.Completion{}, fatalError{err}
		}
		if over != nil {
			return turn.Completion{}, fatalError{turn.Errorf(turn.CodeBudgetUsedUp, nil, over.String())}
		}
	}
	lease, refusal, err := a.capacity.Admit(ctx, capacity.Request{
		Tenant: in.Tenant, Provider: m.Provider, Model: m.Name, Tokens: estimateTokens(p), Since: scheduled(ctx),
	}, workflows.AdmitWithin, func(fleet.Refusal) {})
	switch {
	case err != nil:
		return turn.Completion{}, fatalError{err}
	case refusal != nil && refusal.Final:
		return turn.Completion{}, fatalError{turn.Errorf(turn.CodeTokensUsedUp, nil, refusal.String())}
	case refusal != nil:
		return turn.Completion{}, fatalError{temporal.NewApplicationErrorWithOptions(refusal.String(),
			string(turn.CodeLLMRateLimited), temporal.ApplicationErrorOptions{NextRetryDelay: refusal.Retry})}
	}
	defer lease.End(-1) // no effect after another End
	answer, err := a.model.Infer(ctx, p, &byteCounter{})
	if err == nil {
		lease.End(answer.Usage.Total())
		return answer, nil
	}
	if ctx.Err() != nil || turn.CodeOf(err).Retryable() && activity.GetInfo(ctx).Attempt < workflows.CompactAttempts {
		return answer, fatalError{err}
	}
	return answer, err
}

// failedSummary describes a request for a summary that failed, or was not sent.
type failedSummary struct {
	wait     time.Duration // until the model may be asked again
	notAsked bool          // no request was sent, because the model is unavailable
}

// reserveSummary reserves the most that the n-th request for a summary may cost, and then sets *reserved. Without a
// budget it reserves nothing. If the turn, its session or its tenant has less than that left, it returns an ordinary
// error, and the prompt is truncated without a summary; if the journal fails, the error is a fatalError. The
// reservation ends when the compaction is settled, or in summarizeFor if that fails.
func (a *Activities) reserveSummary(ctx context.Context, in workflows.InferInput, inf journal.Inference,
	p turn.Prompt, price *turn.Price, n int, reserved *bool) error {
	t, err := a.begunTurn(ctx, in.Turn)
	if err != nil {
		return fatalError{err}
	}
	budget := a.budget
	if budget.Turn = t.maxCost; budget.Empty() {
		return nil
	}
	reserve := summaryReserve(budget, p, price)
	reserve.Key, reserve.Attempt, reserve.Summary = inf.Key, inf.Attempt, n
	reserve.Provider, reserve.Model = in.Provider, in.Prompt.Model
	_, refusal, err := a.journal.ReserveUsage(ctx, reserve)
	switch {
	case err != nil:
		return fatalError{err}
	case refusal != nil:
		return turn.Errorf(turn.CodeBudgetUsedUp, nil, refusal.String())
	}
	*reserved = true
	return nil
}

// summaryReserve returns the reservation of the most that a request for a summary may use.
func summaryReserve(budget journal.Budget, p turn.Prompt, price *turn.Price) journal.ReserveInput {
	return journal.ReserveInput{Price: price, Output: int64(p.MaxTokens), Least: int64(p.MaxTokens), Budget: budget,
		AttemptUsage: journal.AttemptUsage{At: time.Now(), Usage: turn.Usage{InputTokens: maxInput(p)}}}
}
