package completion

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"time"

	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/temporal"

	"github.com/everturn/everturn/activities/attempt"
	"github.com/everturn/everturn/internal/outage"
	"github.com/everturn/everturn/journal"
	"github.com/everturn/everturn/workflows"
	"github.com/everturn/everturn/workflows/turn"
)

// When a provider is unavailable, an attempt of an inference fails with a delay, after which the Temporal server begins
// the next attempt on any worker. Between attempts the inference occupies no slot of a worker, counts against no limit
// of the fleet and reserves no money. An attempt passes its attempt.ModelWait to the next one in the heartbeat's
// details. Of the inferences on a worker that wait for the same model, one at a time sends a request to see whether it
// is back. Waiting does not count as working time of the turn. An inference waits at most retry_for; then it fails, or
// a fallback model takes over. A fallback model may take over earlier, after llm.fallback_after.

const (
	maxModelPause = time.Minute
	// maxCuts bounds the retries after a stream was cut, because its tokens are paid for.
	maxCuts = 5
	// showNextAfter bounds how often the journal gets a waiting event: only if the next attempt is this much later than
	// the last event said.
	showNextAfter = 10 * time.Second
)

// isNews reports whether the journal should get another waiting event, because the next attempt is later than the last
// one said.
func isNews(w attempt.ModelWait, next time.Time) bool { return next.Sub(w.Shown) >= showNextAfter }

// patience returns how much longer the inference may wait for its model before a fallback model takes over or it fails.
func (m modelInUse) patience(w attempt.ModelWait, e *turn.Error, now time.Time) time.Duration {
	left := m.retryFor - now.Sub(w.Since)
	if m.canFallBack(e) {
		left = min(left, m.fallbackAfter-now.Sub(w.ModelSince))
	}
	return left
}

// refusedRequest is the error that a session's request got. Other sessions get only its code and status, because the
// provider's text may quote what the session sent.
type refusedRequest struct {
	tenant, session string
	err             *turn.Error
}

func (r refusedRequest) Error() string { return r.err.Error() }

// Unwrap returns the error.
func (r refusedRequest) Unwrap() error { return r.err }

// lastError returns the error with which the last request to an unavailable model failed. Its RetryAfter is cleared,
// because it counted from that request. If the request was of another session, its message is replaced: see
// refusedRequest.
func lastError(o outage.Outage, in workflows.InferInput) *turn.Error {
	e := *attempt.AsTurnError(o.Cause)
	e.RetryAfter = 0
	var refused refusedRequest
	if errors.As(o.Cause, &refused) && (refused.tenant != in.Tenant || refused.session != in.Session) {
		e.Message = fmt.Sprintf("model %s of provider %s is unavailable: a request of another session failed with %s",
			turn.Truncate(in.Prompt.Model, 200), in.Provider, e.Code)
		if e.Status != 0 {
			e.Message += fmt.Sprintf(" (HTTP status %d)", e.Status)
		}
	}
	return &e
}

// stillAway returns the error of an attempt that only continues the wait, because its model is still unavailable and
// the journal already says so: an earlier attempt waited, too. It returns nil if the attempt must send a request,
// change the model or write another waiting event. It does not use the journal.
func (r *Runner) stillAway(ctx context.Context, in workflows.InferInput, m modelInUse, clock *attempt.Clock) error {
	w, away := clock.ModelWait(), r.outages.Look(m.Provider+"/"+m.Name, clock.ModelWait().Refusals == 0)
	if away == nil || m.retryFor == 0 {
		return nil
	}
	now, e := time.Now(), lastError(away.Outage, in)
	left := m.patience(w, e, now)
	delay := min(away.For, max(left, 0))
	switch {
	case left <= 0 && m.canFallBack(e), left > 0 && isNews(w, now.Add(delay)):
		return nil // to record the change of the model, or another waiting event, the attempt needs the journal
	case left <= 0:
		return failedForGood(clock, e, gaveUpWaiting(e, m, w, 0, now), "")
	}
	return retryLater(ctx, clock, e.Code, waitingText(e, now.Add(delay), now.Add(left)), delay)
}

// beginRequest begins a request to the inference's model. If the model is unavailable, it returns the error of an
// attempt that sent no request, except for an inference with a retry_for of 0, which always sends its request.
func (r *Runner) beginRequest(ctx context.Context, in workflows.InferInput, inf journal.Inference,
	clock *attempt.Clock) (*outage.Try, error) {
	m, err := r.modelOf(ctx, in)
	if err != nil {
		return nil, err
	}
	key := in.Provider + "/" + in.Prompt.Model
	if m.retryFor == 0 {
		return r.outages.Insist(key), nil
	}
	try, away := r.outages.Begin(key, clock.ModelWait().Refusals == 0)
	if away != nil {
		return nil, r.notAsked(ctx, in, inf, lastError(away.Outage, in), away.For, clock)
	}
	return try, nil
}

// notAsked returns the error of an attempt that sent no request to its model. The next attempt begins after wait.
func (r *Runner) notAsked(ctx context.Context, in workflows.InferInput, inf journal.Inference, e *turn.Error,
	wait time.Duration, clock *attempt.Clock) error {
	m, err := r.modelOf(ctx, in)
	if err != nil {
		return err
	}
	return r.afterFailure(ctx, inf, m, e, failedAttempt{wait: wait}, clock)
}

// noteFailure records in r.outages and the clock what the failure err of a request says about the model, and returns
// the delay until the next attempt: 0 if the failure is not one of the model's availability. The request was sent at
// asked, and received bytes of its answer had arrived.
func (r *Runner) noteFailure(asking context.Context, in workflows.InferInput, try *outage.Try, received int64, err error,
	clock *attempt.Clock, asked time.Time) time.Duration {
	e := attempt.AsTurnError(err)
	switch {
	case asking.Err() != nil, e.Code == turn.CodeJournalUnavailable: // this says nothing about the model
	case !e.Code.Retryable():
		if e.Status != 0 { // the provider has answered, although with an error
			try.Up()
		}
	case e.Code == turn.CodeLLMTruncated || received > 0: // the stream was cut: the pause grows with each cut
		try.Up()
		return ownPause(clock.AddCut())
	default: // the model is unavailable
		clock.CountAsPause(time.Since(asked))
		wait := try.Down(refusedRequest{in.Tenant, in.Session, r.redacted(e)}, e.RetryAfter).For
		return max(wait, ownPause(clock.AddRefusal()))
	}
	return 0
}

// ownPause returns a random pause of an inference after a number of its own failures: up to a second, doubled by each.
// A provider that fails on one prompt but answers others is asked with that prompt ever less often, because each of its
// failures makes the other sessions wait.
func ownPause(failures int) time.Duration {
	return rand.N(min(time.Second<<min(failures, 16), maxModelPause))
}

// failedAttempt describes an attempt that failed, or that sent no request.
type failedAttempt struct {
	wait     time.Duration // until the next attempt
	failures int           // number of failed attempts of the step with this model
	partial  string        // the text that arrived
}

// Every failed attempt ends here: send calls inferenceError, and beginRequest and admit call notAsked.
//
// afterFailure decides what follows a failed attempt (another attempt, a fallback model, or the end of the inference)
// and returns the activity's error for it.
func (r *Runner) afterFailure(ctx context.Context, inf journal.Inference, m modelInUse, e *turn.Error,
	f failedAttempt, clock *attempt.Clock) error {
	now := time.Now()
	w := clock.BeginWait(now)
	left := m.patience(w, e, now)
	hasTime := left > 0 && e.RetryAfter <= left
	hasTries := w.Cuts <= maxCuts && (m.max == nil || f.failures <= *m.max)
	if e.Code.Retryable() && hasTime && hasTries {
		delay := min(max(f.wait, e.RetryAfter), left)
		r.showModelWait(ctx, inf, m, e, now.Add(delay), left, clock)
		return retryLater(ctx, clock, e.Code, waitingText(e, now.Add(delay), now.Add(left)), delay)
	}
	if e.NoTools && m.Guessed && m.Mode == turn.ModeNative {
		return r.withoutTools(ctx, inf, m, e, clock)
	}
	if err := r.fallBack(ctx, inf, m, e, clock); err != nil {
		return err
	}
	r.attempts.ShowFailure(ctx, inf.Key, inf.Attempt, e.Message, turn.ErrorEvent{Code: e.Code, Final: true})
	return failedForGood(clock, e, gaveUpWaiting(e, m, w, f.failures, now), f.partial)
}

// retryLater stops the clock, records its measurements for the next attempt, and returns the error after which the
// Temporal server begins that attempt.
func retryLater(ctx context.Context, clock *attempt.Clock, code turn.Code, message string, delay time.Duration) error {
	clock.Stop() // no heartbeat may follow the one recorded here
	if activity.IsActivity(ctx) {
		activity.RecordHeartbeat(ctx, clock.Busy(), clock.Refused, clock.ModelWait())
	}
	return temporal.NewApplicationErrorWithOptions(message, string(code), temporal.ApplicationErrorOptions{
		NextRetryDelay: delay, Details: []any{clock.Busy()}, Category: temporal.ApplicationErrorCategoryBenign})
}

// failedForGood returns the error of an inference that has failed permanently.
func failedForGood(clock *attempt.Clock, e *turn.Error, message, partial string) error {
	if e.Code != turn.CodeLimitExceeded { // when the turn's time is up, the text so far is its partial result
		partial = ""
	}
	return temporal.NewApplicationErrorWithOptions(message, string(e.Code), temporal.ApplicationErrorOptions{
		NonRetryable: true, Details: []any{clock.Busy(), turn.Truncate(partial, turn.AnswerInline)}})
}

const clockTime = "15:04:05 UTC"

// waitingText describes a wait to operators, who see it with the pending activity.
func waitingText(e *turn.Error, next, end time.Time) string {
	return fmt.Sprintf("%s; next attempt %s, gives up %s", strings.TrimSuffix(e.Message, "."),
		next.UTC().Format(clockTime), end.UTC().Format(clockTime))
}

// gaveUpWaiting says why an inference has failed permanently: e's message and, if trying again might have helped, what
// ended the retries. failures is the number of failed attempts with this model; 0 if it is not known.
func gaveUpWaiting(e *turn.Error, m modelInUse, w attempt.ModelWait, failures int, now time.Time) string {
	message := strings.TrimSuffix(e.Message, ".")
	waited := now.Sub(w.Since)
	switch {
	case !e.Code.Retryable():
		return e.Message
	case m.retryFor > 0 && e.RetryAfter > 0 && e.RetryAfter > m.retryFor-waited:
		return fmt.Sprintf("%s. It accepts requests again at %s, which is later than retry_for (%s) allows", message,
			now.Add(e.RetryAfter).UTC().Format("2006-01-02 15:04 UTC"), m.retryFor)
	case m.retryFor > 0 && waited >= m.retryFor:
		return fmt.Sprintf("%s; waited %s, which is retry_for", message, attempt.RoundDuration(waited))
	case failures > 1:
		return fmt.Sprintf("%s (tried %d times)", message, failures)
	}
	return e.Message
}

// showModelWait writes a waiting event to the journal: what the inference waits for, and until when. It writes none if
// the last one still holds. A failed write is only logged, and the next attempt writes the event.
func (r *Runner) showModelWait(ctx context.Context, inf journal.Inference, m modelInUse, e *turn.Error,
	next time.Time, left time.Duration, clock *attempt.Clock) {
	w := clock.ModelWait()
	if !isNews(w, next) {
		return
	}
	waited := time.Since(w.ModelSince)
	event := attempt.EventOf(turn.EventInferenceWaiting, turn.Truncate(e.Message, attempt.MaxFailureText), turn.WaitingEvent{
		Provider: m.Provider, Model: m.Name, Code: e.Code, Status: e.Status, Attempt: int(attempt.Number(ctx)), NextAt: next.UTC(),
		WaitedMS: waited.Milliseconds(), LimitMS: (waited + left).Milliseconds(),
	})
	if err := r.journal.AppendEvents(ctx, inf.Key, inf.Attempt, []turn.Event{event}); err != nil {
		attempt.LogFailure(ctx, attempt.AsTurnError(err))
		return
	}
	clock.Shown(next)
}
