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

// Compact condenses the conversation of a session whose turn has ended. If the journal has the request's condensation,
// Compact returns it and does not pay for another.
func (a *Activities) Compact(ctx context.Context, in workflows.CompactInput) (workflows.CompactResult, error) {
	if a.elsewhere.Inference != "" {
		return workflows.CompactResult{}, workflows.Elsewhere(a.queues)
	}
	clock := startClock(ctx)
	defer clock.stop()
	done, err := a.compact(ctx, in)
	if err != nil || done == nil {
		return workflows.CompactResult{Nothing: err == nil}, failure(ctx, err)
	}
	return workflows.CompactResult{CondensedChunk: done.Report()}, nil
}

func (a *Activities) compact(ctx context.Context, in workflows.CompactInput) (*turn.Condensation, error) {
	j := a.journal.Tenant(in.Tenant)
	done, err := j.Condensed(ctx, in.Session, in.Request)
	if err == nil || !errors.Is(err, journal.ErrNotFound) {
		return &done, err
	}
	input, err := a.compactInput(ctx, j, in)
	if err != nil {
		return nil, err
	}
	draft, todo := turn.PlanCondensation(input)
	if draft == nil || len(todo) == 0 {
		return nil, nil
	}
	c := input.Condensing
	err = a.summarize(ctx, c, draft, todo, in.Focus, func(ctx context.Context, p turn.Prompt) (turn.Completion, error) {
		return a.askCompact(ctx, in.Tenant, c.Model, p)
	})
	if err != nil {
		return nil, err
	}
	plan := turn.Plan{From: input.From}
	after := prompt{messages: input.Window}
	after.apply(&plan, draft)
	draft.After = resized(draft.Before, input.Prompt.Tokens(), after.render(plan).Tokens())
	draft.SettledAt = time.Now()
	settled, err := j.AddCondensation(ctx, in.Session, in.Request, *draft)
	return &settled, err
}

// compactInput reads the conversation. The model is the one that a turn would get that begins now.
func (a *Activities) compactInput(ctx context.Context, j *journal.DB,
	in workflows.CompactInput) (out turn.CondenseInput, err error) {
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
	cfg, _, err := a.newConfig(ctx, begin)
	if err != nil {
		return out, err
	}
	promptConfig, err := a.promptConfigs.get(ctx, cfg.PromptConfig)
	if err != nil {
		return out, err
	}
	if promptConfig.Condense == nil {
		return out, turn.Errorf(turn.CodeConfigInvalid, nil,
			`condensing is turned off: set condense = "auto" in [prompt] of the workers' agent.toml`)
	}
	list, err := j.Condensations(ctx, in.Session)
	if err != nil {
		return out, err
	}
	plan := turn.Plan{From: 1, Mode: cfg.Mode}
	if len(list) > 0 {
		out.Previous = &list[len(list)-1]
		plan.From = out.Previous.To + 1
	}
	if out.Window, err = j.Messages(ctx, in.Session, plan.From, session.Head.Seq); err != nil {
		return out, err
	}
	if _, over := promptBytes(out.Window); over >= 0 {
		return out, &journal.TooLargeError{Seq: plan.From + int64(over), Max: maxPrompt}
	}
	out.Condensing, out.Reason, out.Head, out.From = *promptConfig.Condense, turn.CondenseManual, session.Head, plan.From
	out.Prompt = turn.RenderCondensed(plan, promptConfig, out.Previous, nil, out.Window)
	out.Projected = out.Prompt.Tokens() + out.ReserveTokens
	if out.ContextTokens == 0 {
		out.ContextTokens = max(out.Projected, unknownContext)
	}
	return out, nil
}

// unknownContext is taken for a context window that is not known, in tokens.
const unknownContext = 32_000

// askCompact sends the request for a summary within the fleet limits. A failure that may pass ends the attempt, as long
// as there is another one.
func (a *Activities) askCompact(ctx context.Context, tenant string, m turn.Model,
	p turn.Prompt) (turn.Completion, error) {
	lease, refusal, err := a.capacity.Admit(ctx, capacity.Request{
		Tenant: tenant, Provider: m.Provider, Model: m.Name, Tokens: estimate(p), Since: scheduled(ctx),
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
	defer lease.End(-1) // the first end counts
	answer, err := a.model.Infer(ctx, p, silent{})
	if err == nil {
		lease.End(answer.Usage.Total())
		return answer, nil
	}
	if ctx.Err() != nil || turn.CodeOf(err).Retryable() && activity.GetInfo(ctx).Attempt < workflows.CompactAttempts {
		return answer, fatalError{err}
	}
	return answer, err
}
