package activities

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"time"

	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/temporal"

	"github.com/everturn/everturn/workflows"
	"github.com/everturn/everturn/workflows/turn"
)

// A call that was not sent waits for its server: the activity fails with tool_not_sent and a delay, the Temporal server
// retries it after the delay on any worker, and each attempt claims the call and releases the claim. All attempts of a
// attempt share one clock. The heartbeat's details carry it from one attempt to the next, with the delays and the
// number of refused attempts. The wait is therefore bounded by the time in which workers tried, and counts as working
// time of the turn. For a call that was not claimed, see journalDelay.

// Bounds of a retry delay. Another worker may reach the server before this worker tries again, so the delay does not
// wait out the breaker's pause.
const (
	retryAtLeast = 100 * time.Millisecond
	retryAtMost  = 2 * time.Second
)

// withinBudget shortens the timeouts of a call to the turn's remaining time after the call has waited.
func withinBudget(in workflows.CallInput, waited time.Duration) workflows.CallInput {
	left := max(in.Budget-waited, time.Second)
	in.Timeout, in.TotalTimeout = min(in.Timeout, left), min(in.TotalTimeout, left)
	return in
}

// repeats reports whether the workflow attempts a call again instead of recording an unknown outcome.
func repeats(in workflows.CallInput, clock *clock) bool {
	return in.RepeatIfUnknown && (in.Attempt < workflows.Repeats || clock.busy() < in.ServerWait)
}

// callFailure maps the error of a call to the one that leaves the worker. Its details are the working time so far, and
// whether the call may have reached its tool. Only a call that was not sent, or not claimed because the journal is
// unavailable, may be retried, as long as it has time left.
func (a *Activities) callFailure(ctx context.Context, in workflows.CallInput, clock *clock, err error) error {
	if err == nil {
		return nil
	}
	if temporal.IsCanceledError(context.Cause(ctx)) {
		return temporal.NewCanceledError()
	}
	clock.stop() // no heartbeat may follow the one recorded here
	e, busy, reached := asTurnError(err), clock.busy(), errors.As(err, new(reachedError))
	options := temporal.ApplicationErrorOptions{NonRetryable: true, Details: []any{busy, reached}}
	delay, more, message := time.Duration(0), false, e.Message
	switch {
	case local(ctx), reached:
	case e.Code == turn.CodeToolNotSent:
		delay, more = retryDelay(e, in.ServerWait, in.ServerWait-busy, attemptOf(ctx))
		if !more {
			message = gaveUpText(e, busy)
		}
		busy += delay
	case e.Code == turn.CodeJournalUnavailable:
		delay, more = journalDelay(ctx, err, a.journalRetryFor)
	}
	if !more || e.Code == turn.CodeJournalUnavailable {
		logFailure(ctx, e)
	}
	if !more {
		return temporal.NewApplicationErrorWithOptions(message, string(e.Code), options)
	}
	if activity.IsActivity(ctx) {
		if e.Refused {
			clock.refused++
		}
		activity.RecordHeartbeat(ctx, busy, clock.refused)
	}
	options.NonRetryable, options.NextRetryDelay, options.Category = false, delay, temporal.ApplicationErrorCategoryBenign
	return temporal.NewApplicationErrorWithOptions(message, string(e.Code), options)
}

// attemptOf returns the number of the activity's attempt, from 1.
func attemptOf(ctx context.Context) int32 {
	if !activity.IsActivity(ctx) {
		return 1
	}
	return activity.GetInfo(ctx).Attempt
}

// retryDelay returns how long a call waits before its next attempt: the Retry-After of the server's HTTP front, or the
// time until the breaker tries the server again, within the bounds and the time left. The lower bound doubles with each
// attempt. A random part of up to a quarter keeps the waiting calls from hitting a recovered server at once. A long
// wait has longer delays, so that its attempts stay below the retry policy's maximum. The result is false if no time is
// left.
func retryDelay(e *turn.Error, wait, left time.Duration, attempt int32) (time.Duration, bool) {
	if left < retryAtLeast {
		return 0, false
	}
	most := max(retryAtMost, wait/100)
	if e.Refused {
		most = max(most, e.RetryAfter)
	}
	delay := min(max(e.RetryAfter, retryAtLeast<<min(attempt-1, 16)), most)
	return min(delay+rand.N(delay/4), left), true
}

// gaveUpText tells the model why a call was not made, and when the server is tried again.
func gaveUpText(e *turn.Error, waited time.Duration) string {
	text := fmt.Sprintf("%s; tried for %s", strings.TrimSuffix(e.Message, "."), roundDuration(waited))
	if e.RetryAfter > 0 {
		text += "; next try in " + roundDuration(e.RetryAfter)
	}
	return text + ". It may be called again later."
}

// about formats a duration in seconds, or in tenths of a second below one second.
func roundDuration(d time.Duration) string {
	if d < time.Second {
		return d.Round(100 * time.Millisecond).String()
	}
	return d.Round(time.Second).String()
}

// An inference that has failed for good goes on with the turn's next model, if another model may not have the failure.
// The journal records the change; the attempt then ends, and the next attempt of the activity, on any worker, asks the
// model that the journal names. The rest of the turn stays with it: changing back and forth would lose the provider's
// cache each time, and the reasoning that only one model can read.

// retries says how the turn's inferences are retried: see turn.Config and turn.Limits.
type retries struct {
	retryFor, fallbackAfter time.Duration
	max                     *int
}

// compacting returns how prompts for this model are compacted. After a fallback, what was the first model's is this
// model's.
func (m modelInUse) compactionSettings(c *turn.CompactionSettings) *turn.CompactionSettings {
	if c == nil || m.position == 0 {
		return c
	}
	own := *c
	if own.Model.Provider == m.first.Provider && own.Model.Name == m.first.Name {
		own.Model = m.Model
	}
	if own.ContextTokens == m.first.ContextTokens {
		own.ContextTokens = m.ContextTokens
	}
	return &own
}
