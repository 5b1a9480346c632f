package completion

import (
	"cmp"
	"context"
	"math/rand/v2"
	"time"

	"go.temporal.io/sdk/temporal"

	"github.com/everturn/everturn/activities/attempt"
	"github.com/everturn/everturn/activities/capacity"
	"github.com/everturn/everturn/journal"
	"github.com/everturn/everturn/journal/fleet"
	"github.com/everturn/everturn/workflows"
	"github.com/everturn/everturn/workflows/turn"
)

// An attempt that waits for a fleet limit occupies a slot of the worker, so it waits only a short time. Then it ends,
// and the Temporal server begins another attempt after at most maxRetryWait. A turn therefore notices within
// maxRetryWait that an operator has resumed its provider.
const (
	// backgroundWithin is how long an attempt of a background turn waits, in place of workflows.AdmitWithin.
	backgroundWithin = time.Second
	maxRetryWait     = 15 * time.Second
	// guessedOutput is how many output tokens are counted for a completion whose maximum is not configured.
	guessedOutput = 1024
	// rateLimitWait is how long all workers pause after a rate limit without a Retry-After.
	rateLimitWait = time.Second
	// maxRateLimitWait bounds the pause after a rate limit. Then a request is sent to see whether it has ended.
	maxRateLimitWait = time.Minute
)

// admit waits until the fleet limits allow the inference's request, and returns its lease. If they do not allow it
// soon, admit returns an error after which the Temporal server begins another attempt. If waiting is pointless, the
// error ends the inference. The wait does not count as working time, and an event of the turn says what it waits for.
func (r *Runner) admit(ctx context.Context, in workflows.InferInput, inf journal.Inference, p turn.Prompt,
	clock *attempt.Clock) (*capacity.Lease, error) {
	defer clock.Pause()()
	within := workflows.AdmitWithin
	if in.Background {
		within = backgroundWithin
	}
	lease, refusal, err := r.capacity.Admit(ctx, capacity.Request{
		Tenant: in.Tenant, Provider: in.Provider, Model: in.Prompt.Model, Tokens: p.Tokens() + cmp.Or(int64(p.MaxTokens), guessedOutput),
		Background: in.Background, Since: clock.Scheduled,
	}, within, func(refusal fleet.Refusal) { r.showWait(ctx, inf, refusal) })
	switch {
	case err != nil && ctx.Err() != nil:
		return nil, cancelledWaitError(ctx)
	case err != nil: // the journal is unavailable
		return nil, err
	case refusal == nil:
		return lease, nil
	case refusal.Final:
		return nil, turn.NewError(turn.CodeTokensUsedUp, nil, refusal.String())
	case refusal.Limit == fleet.LimitRetryAfter: // the model is away, so a fallback may take over
		e := turn.NewError(turn.CodeLLMRateLimited, nil, refusal.String())
		e.RetryAfter = refusal.Retry
		return nil, r.notAsked(ctx, in, inf, e, jittered(refusal.Retry), clock)
	}
	r.showWait(ctx, inf, *refusal)
	return nil, temporal.NewApplicationErrorWithOptions(refusal.String(), string(turn.CodeLLMRateLimited),
		temporal.ApplicationErrorOptions{NextRetryDelay: jittered(min(refusal.Retry, maxRetryWait)),
			Details: []any{clock.Busy()}, Category: temporal.ApplicationErrorCategoryBenign})
}

// cancelledWaitError returns the error of an inference whose wait for a fleet limit was cancelled, because its turn
// was stopped or its worker shuts down.
func cancelledWaitError(ctx context.Context) error {
	if temporal.IsCanceledError(context.Cause(ctx)) {
		return temporal.NewCanceledError()
	}
	return turn.NewError(turn.CodeWorkerUnavailable, context.Cause(ctx),
		"the worker stopped while the inference waited for a limit")
}

// jittered returns wait, lengthened by a random part of up to a fifth, so that waiting requests do not all come at
// once.
func jittered(wait time.Duration) time.Duration { return wait + rand.N(wait/5+1) }

// endLease ends the lease of a request that has returned answer or err. After a rate limit, all workers pause their
// requests to this model: for the provider's Retry-After, within rateLimitWait and maxRateLimitWait, and a random part
// more.
func (r *Runner) endLease(lease *capacity.Lease, in workflows.InferInput, answer turn.Completion, err error) {
	if err == nil {
		lease.End(answer.Usage.Total())
		return
	}
	e := attempt.AsTurnError(err)
	if e.Code != turn.CodeLLMRateLimited {
		lease.End(-1) // how many tokens were used is unknown
		return
	}
	lease.End(0) // a refused request uses none
	pause := min(max(e.RetryAfter, rateLimitWait), maxRateLimitWait)
	r.capacity.RetryAfter(in.Provider, in.Prompt.Model, jittered(pause))
}

// showWaitEvery is how often the journal gets an event about the same wait, which may last for hours.
const showWaitEvery = time.Minute

// showWait appends an event to the turn's stream that says which fleet limit the inference waits for. On one worker it
// does so at most once in showWaitEvery for the same limit of a turn. A failed append is only logged.
func (r *Runner) showWait(ctx context.Context, inf journal.Inference, refusal fleet.Refusal) {
	key := inf.Key.Turn + " " + string(refusal.Limit) + " " + refusal.Scope
	if shown, ok := r.shownWaits.Get(key); ok && time.Since(shown) < showWaitEvery {
		return
	}
	r.shownWaits.Add(key, time.Now())
	event := attempt.EventOf(turn.EventPhase, turn.Truncate(r.secrets.String(refusal.String()), attempt.MaxFailureText), turn.PhaseEvent{
		Phase: turn.PhaseLlmInfer,
		Wait: &turn.LimitWait{Scope: refusal.Scope, Limit: string(refusal.Limit), Used: refusal.Used, Max: refusal.Max,
			AboutMS: refusal.Retry.Milliseconds()},
	})
	if err := r.journal.AppendEvents(ctx, inf.Key, inf.Attempt, []turn.Event{event}); err != nil {
		attempt.LogFailure(ctx, attempt.AsTurnError(err))
	}
}
