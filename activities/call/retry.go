package call

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
	"github.com/everturn/everturn/journal"
	"github.com/everturn/everturn/workflows"
	"github.com/everturn/everturn/workflows/turn"
)

// A call that was not sent waits for its server: the activity fails with tool_not_sent and a delay, and the Temporal
// server retries it after the delay on any worker. Each activity attempt claims the call and releases the
// claim. The heartbeat's details carry the working time, with the delays, and the number of refused activity attempts
// from one activity attempt to the next. So the
// wait counts as working time of the turn, and time in which no worker ran does not count. For a call that could not
// be claimed, see attempt.JournalDelay.

// Bounds of a retry delay. The upper bound is shorter than the pauses of a server's breaker, because another worker
// may reach the server before this worker tries again.
const (
	retryAtLeast = 100 * time.Millisecond
	retryAtMost  = 2 * time.Second
)

// repeats reports whether a call of unknown outcome is attempted again, so that the outcome must not be recorded yet:
// the workflow would do it, and the call has had fewer than workflows.Repeats attempts or has time left.
func repeats(in workflows.CallInput, clock *attempt.Clock) bool {
	return in.RepeatIfUnknown && (in.Attempt < workflows.Repeats || clock.Busy() < in.ServerWait)
}

// callFailure converts the error of a call to the application error that the worker returns to Temporal. Its details
// are the working time so far and whether the call may have reached its tool. Temporal retries the activity only if
// the call was not sent, or not claimed because the journal is unavailable, and has time left; it never retries a local
// activity. If the turn was stopped, the error is a canceled error.
func (r *Runner) callFailure(ctx context.Context, in workflows.CallInput, clock *attempt.Clock, err error) error {
	if err == nil {
		return nil
	}
	if temporal.IsCanceledError(context.Cause(ctx)) {
		return temporal.NewCanceledError()
	}
	clock.Stop() // no heartbeat may follow the one recorded here
	e, busy, reached := attempt.AsTurnError(err), clock.Busy(), errors.As(err, new(reachedError))
	options := temporal.ApplicationErrorOptions{NonRetryable: true, Details: []any{busy, reached}}
	delay, mayRetry, message := time.Duration(0), false, e.Message
	switch {
	case attempt.IsLocal(ctx), reached: // not retried here: the workflow decides
	case e.Code == turn.CodeToolNotSent:
		delay, mayRetry = retryDelay(e, in.ServerWait, in.ServerWait-busy, attempt.Number(ctx))
		if !mayRetry {
			message = gaveUpText(e, busy)
		}
		busy += delay // the wait counts as working time
	case e.Code == turn.CodeJournalUnavailable:
		delay, mayRetry = r.attempts.JournalDelay(ctx, err)
	}
	if !mayRetry || e.Code == turn.CodeJournalUnavailable {
		attempt.LogFailure(ctx, e)
	}
	if !mayRetry {
		return temporal.NewApplicationErrorWithOptions(message, string(e.Code), options)
	}
	if activity.IsActivity(ctx) {
		if e.Refused {
			clock.Refused++
		}
		activity.RecordHeartbeat(ctx, busy, clock.Refused)
	}
	options.NonRetryable, options.NextRetryDelay, options.Category = false, delay, temporal.ApplicationErrorCategoryBenign
	return temporal.NewApplicationErrorWithOptions(message, string(e.Code), options)
}

// retryDelay returns how long a call waits before the next attempt of its activity. That is e.RetryAfter (the server's
// Retry-After, or the time until its breaker tries it again), but at least retryAtLeast, doubled with each attempt, and
// at most retryAtMost. The maximum is longer for a long wait, and for a server that refused the call and named a time.
// A random part is added, within left. wait is the call's whole wait for the server, and left is what remains of it.
// The result is false if less than retryAtLeast remains.
func retryDelay(e *turn.Error, wait, left time.Duration, attempt int32) (time.Duration, bool) {
	if left < retryAtLeast {
		return 0, false
	}
	upper := max(retryAtMost, wait/100) // a long wait must not exceed the retry policy's maximum of attempts
	if e.Refused {
		upper = max(upper, e.RetryAfter)
	}
	delay := min(max(e.RetryAfter, retryAtLeast<<min(attempt-1, 16)), upper)
	return min(delay+rand.N(delay/4), left), true // a random part, so that waiting calls do not all come at once
}

// gaveUpText returns the text that tells the model why a call was not made and when the server is tried again. waited
// is how long the call has waited.
func gaveUpText(e *turn.Error, waited time.Duration) string {
	text := fmt.Sprintf("%s; tried for %s", strings.TrimSuffix(e.Message, "."), attempt.RoundDuration(waited))
	if e.RetryAfter > 0 {
		text += "; next try in " + attempt.RoundDuration(e.RetryAfter)
	}
	return text + ". It may be called again later."
}

// showRetry appends an error event if err means that the call will be attempted again. A call that is not attempted
// again has the error in its event tool_call_completed. A call that waits for its server gets one event, not one for
// each attempt of its activity; a call that waits for the journal gets none.
func (r *Runner) showRetry(ctx context.Context, in workflows.CallInput, err error) {
	var app *temporal.ApplicationError
	if !errors.As(err, &app) || ctx.Err() != nil {
		return
	}
	code := turn.Code(app.Type())
	first := activity.IsActivity(ctx) && activity.GetInfo(ctx).Attempt == 1
	beginsToWait := code == turn.CodeToolNotSent && !app.NonRetryable() && first
	isRepeated := code == turn.CodeToolOutcomeUnknown && in.RepeatIfUnknown || // the workflow attempts the call again
		code == turn.CodeToolFailed && in.RetryIfError
	if !beginsToWait && !isRepeated {
		return
	}
	key := journal.StepKey{Turn: in.Turn, Step: in.Step}
	r.attempts.ShowFailure(ctx, key, 0, app.Message(), turn.ErrorEvent{Code: code, CallID: in.Call.ID, Tool: in.Tool.ID})
}
