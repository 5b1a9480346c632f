package activities

import (
	"context"
	"errors"
	"fmt"
	"strings"
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
		return workflows.CompactResult{Nothing: err == nil}, a.failure(ctx, err)
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
	err = a.summarize(ctx, c, draft, todo, in.Focus,
		func(ctx context.Context, p turn.Prompt, _ int) (turn.Completion, error) {
			return a.askCompact(ctx, in, c.Model, p)
		})
	if err != nil {
		return nil, err
	}
	plan := turn.PromptPlan{From: input.From}
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
	cfg, err := a.newConfig(ctx, begin, nil)
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
	plan := turn.PromptPlan{From: 1, Mode: cfg.Mode}
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

// askCompact sends the request for a summary within the budget and the fleet limits. A failure that may pass ends the
// attempt, as long as there is another one.
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
		Tenant: in.Tenant, Provider: m.Provider, Model: m.Name, Tokens: estimate(p), Since: scheduled(ctx),
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
	answer, err := a.model.Infer(ctx, p, &silent{})
	if err == nil {
		lease.End(answer.Usage.Total())
		return answer, nil
	}
	if ctx.Err() != nil || turn.CodeOf(err).Retryable() && activity.GetInfo(ctx).Attempt < workflows.CompactAttempts {
		return answer, fatalError{err}
	}
	return answer, err
}

// silent is the sink of a summary, which no reader follows.
type silent struct{ received int64 }

func (s *silent) Text(delta string)      { s.received += int64(len(delta)) }
func (s *silent) Reasoning(delta string) { s.received += int64(len(delta)) }

// tightness are the attempts of a summary: the second one shows the model a third of the text and asks for less.
var tightness = []int{1, 3}

// summaryBytes is how much of the conversation a request for a summary may contain, in bytes for each token of the
// context window. With four bytes to a token, that is half of it.
const summaryBytes = 2

// summarize adds a summary of the messages to the draft. If none can be made, the draft keeps what it has: it is
// truncated, and the warning says why. ask sends the n-th request, from 1; an error that it wraps in fatalError ends
// the attempt.
func (a *Activities) summarize(ctx context.Context, c turn.Condensing, draft *turn.Condensation, todo []turn.Message,
	focus string, ask func(ctx context.Context, p turn.Prompt, n int) (turn.Completion, error)) error {
	previous := *draft
	tokens := turn.SummaryTokens(int64(float64(c.ContextTokens) * c.TargetRatio))
	draft.Provider = c.Model.Provider
	why := ""
	for i, tight := range tightness {
		request := turn.SummaryPrompt(c.Model, &previous, todo, focus, tokens/int64(tight),
			int(c.ContextTokens)*summaryBytes/tight)
		answer, err := ask(ctx, request, i+1)
		if fatal := (fatalError{}); errors.As(err, &fatal) {
			return fatal.error
		}
		if answer.Usage != (turn.Usage{}) {
			draft.Usage = draft.Usage.Add(spending{model: c.Model}.priced(answer.Usage))
		}
		if err == nil {
			draft.Model, draft.Summary, why = answer.Model, strings.TrimSpace(a.redact(answer.Text)), refusalOf(answer)
		} else {
			why = asTurnError(err).Message
		}
		if why == "" {
			if draft.Model == "" {
				draft.Model = c.Model.Name
			}
			// A model that ignores the bound must not undo the condensation.
			draft.Summary = turn.Truncate(draft.Summary, int(2*tokens)*4)
			return nil
		}
	}
	draft.Method, draft.Summary = turn.CondenseTruncated, previous.Summary
	draft.Warning = turn.Truncate(a.redact("no summary: "+why), maxFailureText)
	return nil
}

// refusalOf says why a completion is no summary, or "". A summary that was cut at its limit of tokens is one.
func refusalOf(answer turn.Completion) string {
	switch stop := answer.Stop(); {
	case stop != "" && stop != turn.StopLength:
		return "the model's answer ended with " + string(stop)
	case strings.TrimSpace(answer.Text) == "":
		return "the model's answer was empty"
	}
	return ""
}

// fatalError ends an attempt to condense: the turn was stopped, the worker stops, or the attempt is repeated later.
type fatalError struct{ error }

// summarizeFor summarizes for an inference. What it has paid for is in the draft or, if it returns an error, in the
// ledger.
func (a *Activities) summarizeFor(ctx context.Context, in workflows.InferInput, inf journal.Inference,
	c turn.Condensing, draft *turn.Condensation, todo []turn.Message, clock *clock) error {
	model, err := a.modelOf(ctx, in)
	if err != nil {
		return err
	}
	in.Provider, in.Plan.Model = c.Model.Provider, c.Model.Name
	reserved := false
	err = a.summarize(ctx, c, draft, todo, "", func(ctx context.Context, p turn.Prompt, n int) (turn.Completion, error) {
		answer, failed, err := a.askSummary(ctx, in, inf, p, c.Model.Price, n, &reserved, clock)
		if err == nil || ctx.Err() == nil && errors.As(err, new(fatalError)) {
			return answer, err
		}
		if ctx.Err() != nil {
			return answer, fatalError{a.inferenceError(ctx, ctx, in, inf, clock, "", err, 0)}
		}
		return answer, a.summaryError(ctx, in, inf, model, clock, err, failed)
	})
	if err != nil {
		for n := range tightness {
			s := spending{model: c.Model, reserved: reserved, attempt: journal.AttemptUsage{Key: inf.Key, Attempt: inf.Attempt,
				Summary: n + 1, Provider: in.Provider, Model: in.Plan.Model}}
			a.record(ctx, s, draft.Usage)
			draft.Usage = turn.Usage{}
		}
	}
	return err
}

// askSummary reserves what the n-th summary may cost and sends the request. It may take half of the time that the turn
// has left. If it fails, askSummary also returns when the model may be asked again.
func (a *Activities) askSummary(ctx context.Context, in workflows.InferInput, inf journal.Inference, p turn.Prompt,
	price *turn.Price, n int, reserved *bool, clock *clock) (turn.Completion, failedSummary, error) {
	try, away := a.outages.Begin(modelKey(in.Provider, in.Plan.Model))
	if away != nil {
		return turn.Completion{}, failedSummary{wait: away.For, notAsked: true}, lastError(away.Outage)
	}
	defer try.Drop() // the first end counts
	if err := a.reserveSummary(ctx, in, inf, p, price, n, reserved); err != nil {
		return turn.Completion{}, failedSummary{}, err
	}
	lease, err := a.admit(ctx, in, inf, p, clock)
	if err != nil {
		return turn.Completion{}, failedSummary{}, fatalError{err}
	}
	defer lease.End(-1) // the first end counts
	budget := max((in.Budget-clock.busy())/2, time.Second)
	limited, cancel := context.WithTimeoutCause(ctx, budget, turn.Errorf(turn.CodeGuardExceeded, nil,
		fmt.Sprintf("the model did not answer within %s", budget.Round(time.Second))))
	defer cancel()
	asked, sink := time.Now(), &silent{}
	answer, err := a.model.Infer(limited, p, answering{sink, try})
	a.endLease(lease, in, answer, err)
	if err == nil {
		try.Up()
		return answer, failedSummary{}, nil
	}
	failed := failedSummary{wait: a.endTry(limited, try, sink.received, err, clock, asked)}
	if limited.Err() != nil {
		err = context.Cause(limited)
	}
	return answer, failed, err
}

// failedSummary is a request for a summary that failed, or was not sent.
type failedSummary struct {
	wait     time.Duration // until the next attempt
	notAsked bool
}

// reserveSummary reserves the most that a summary may cost, and sets reserved. It returns an error if that is more than
// the turn, its session or its tenant has left; the prompt is truncated then. The reservation ends when the condensation
// is settled.
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
	reserve.Provider, reserve.Model = in.Provider, in.Plan.Model
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

// summaryReserve returns the most that a request for a summary may use.
func summaryReserve(budget journal.Budget, p turn.Prompt, price *turn.Price) journal.ReserveInput {
	return journal.ReserveInput{Price: price, Output: int64(p.MaxTokens), Least: int64(p.MaxTokens), Budget: budget,
		AttemptUsage: journal.AttemptUsage{At: time.Now(), Usage: turn.Usage{InputTokens: maxInput(p)}}}
}

// summaryError decides what follows a failed summary. If its model is unavailable, the whole attempt is repeated, for
// as long as a fallback would be waited for: what the provider refuses now, it would most likely refuse for the
// inference too. Then the prompt is condensed without a summary.
func (a *Activities) summaryError(ctx context.Context, in workflows.InferInput, inf journal.Inference,
	model modelInUse, clock *clock, err error, f failedSummary) error {
	e := a.redacted(asTurnError(err))
	if !e.Code.Retryable() {
		return e
	}
	failures := 0
	if f.notAsked {
		err = a.journal.ReleaseInference(ctx, inf.Key, inf.Attempt)
	} else {
		failures, err = a.journal.FailInference(ctx, inf.Key, inf.Attempt, e.Code, e.Message)
		failures -= model.failures
	}
	if err != nil {
		return fatalError{err}
	}
	now := time.Now()
	w := clock.beginWait(now)
	left := min(model.retryFor, model.fallbackAfter) - now.Sub(w.ModelSince)
	if left <= 0 || e.RetryAfter > left || w.Cuts > maxCuts || model.max != nil && failures > *model.max {
		return e
	}
	delay := min(max(f.wait, e.RetryAfter), left)
	asking := model
	asking.Provider, asking.Name = in.Provider, in.Plan.Model
	a.showModelWait(ctx, inf, asking, e, now.Add(delay), left, clock)
	return fatalError{tryAgain(ctx, clock, e.Code, waitingText(e, now.Add(delay), now.Add(left)), delay)}
}
