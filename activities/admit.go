package activities

import (
	"context"
	"math/rand/v2"
	"time"

	"go.temporal.io/sdk/temporal"

	"github.com/everturn/everturn/activities/capacity"
	"github.com/everturn/everturn/journal"
	"github.com/everturn/everturn/journal/fleet"
	"github.com/everturn/everturn/workflows"
	"github.com/everturn/everturn/workflows/turn"
)

// Waiting for a fleet limit uses a slot of the worker, so an attempt waits only a short time. Then it ends, and the
// Temporal server begins another one after at most maxRetryWait, which is also how long a turn may take to notice that
// its provider was resumed.
const (
	backgroundWithin = time.Second
	maxRetryWait     = 15 * time.Second
	// guessedOutput are the output tokens that are reserved for a completion whose maximum is not configured.
	guessedOutput = 1024
	// rateLimitWait is the pause of all workers after a rate limit that names none.
	rateLimitWait = time.Second
	// maxRateLimitWait bounds that pause: then a request asks again.
	maxRateLimitWait = time.Minute
)

// admit waits until the fleet limits let the inference be sent. The wait is not working time, and the turn's readers
// see what it waits for.
func (a *Activities) admit(ctx context.Context, in workflows.InferInput, inf journal.Inference, p turn.Prompt,
	clock *clock) (*capacity.Lease, error) {
	defer clock.pause()()
	within := workflows.AdmitWithin
	if in.Background {
		within = backgroundWithin
	}
	lease, refusal, err := a.capacity.Admit(ctx, capacity.Request{
		Tenant: in.Tenant, Provider: in.Provider, Model: in.Prompt.Model, Tokens: estimate(p), Background: in.Background,
		Since: scheduled(ctx),
	}, within, func(r fleet.Refusal) { a.showWait(ctx, inf, r) })
	switch {
	case err != nil && ctx.Err() != nil:
		return nil, leftWaiting(ctx)
	case err != nil:
		return nil, err
	case refusal == nil:
		return lease, nil
	case refusal.Final:
		return nil, turn.Errorf(turn.CodeTokensUsedUp, nil, refusal.String())
	case refusal.Limit == fleet.LimitRetryAfter: // the provider has told another worker
		e := turn.Errorf(turn.CodeLLMRateLimited, nil, refusal.String())
		e.RetryAfter = refusal.Retry
		return nil, a.notAsked(ctx, in, inf, e, jittered(refusal.Retry), clock)
	}
	a.showWait(ctx, inf, *refusal)
	return nil, temporal.NewApplicationErrorWithOptions(refusal.String(), string(turn.CodeLLMRateLimited),
		temporal.ApplicationErrorOptions{NextRetryDelay: jittered(min(refusal.Retry, maxRetryWait)),
			Details: []any{clock.busy()}, Category: temporal.ApplicationErrorCategoryBenign})
}

// leftWaiting returns the error of an inference whose wait was cancelled: its turn was stopped, or its worker stops.
func leftWaiting(ctx context.Context) error {
	if temporal.IsCanceledError(context.Cause(ctx)) {
		return temporal.NewCanceledError()
	}
	return turn.Errorf(turn.CodeWorkerUnavailable, context.Cause(ctx),
		"the worker stopped while the inference waited for a limit")
}

// jittered returns a wait that is up to a fifth longer.
func jittered(wait time.Duration) time.Duration { return wait + rand.N(wait/5+1) }

// endLease settles an inference with the tokens that it used. A rate limit stops all workers until the provider accepts
// requests again.
func (a *Activities) endLease(lease *capacity.Lease, in workflows.InferInput, answer turn.Completion, err error) {
	if err == nil {
		lease.End(answer.Usage.Total())
		return
	}
	e := asTurnError(err)
	if e.Code != turn.CodeLLMRateLimited {
		lease.End(-1)
		return
	}
	lease.End(0)
	pause := min(max(e.RetryAfter, rateLimitWait), maxRateLimitWait)
	a.capacity.RetryAfter(in.Provider, in.Prompt.Model, jittered(pause))
}

// showWaitEvery is how often a turn shows the same wait again, which may last for hours.
const showWaitEvery = time.Minute

// showWait shows the turn's readers what the inference waits for.
func (a *Activities) showWait(ctx context.Context, inf journal.Inference, r fleet.Refusal) {
	wait := inf.Key.Turn + " " + string(r.Limit) + " " + r.Scope
	if shown, ok := a.times.Get(wait); ok && time.Since(shown) < showWaitEvery {
		return
	}
	a.times.Add(wait, time.Now())
	event := eventOf(turn.EventPhase, turn.Truncate(a.redact(r.String()), maxFailureText), turn.PhaseEvent{
		Phase: turn.PhaseLlmInfer,
		Wait: &turn.LimitWait{Scope: r.Scope, Limit: string(r.Limit), Used: r.Used, Max: r.Max,
			AboutMS: r.Retry.Milliseconds()},
	})
	if err := a.journal.AppendEvents(ctx, inf.Key, inf.Attempt, []turn.Event{event}); err != nil {
		logFailure(ctx, asTurnError(err))
	}
}

// estimate returns about how many tokens an inference will use, at four bytes per token.
func estimate(p turn.Prompt) int64 {
	output := int64(p.MaxTokens)
	if output == 0 {
		output = guessedOutput
	}
	return inputBytes(p)/4 + output
}

// inputBytes returns the size of a prompt's texts and schemas.
func inputBytes(p turn.Prompt) int64 {
	bytes := int64(len(p.System) + len(p.Note))
	for _, m := range p.Messages {
		bytes += messageBytes(m)
	}
	for _, t := range p.Tools {
		bytes += int64(len(t.Name) + len(t.Description) + len(t.Schema))
	}
	return bytes
}
