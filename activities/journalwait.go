package activities

import (
	"context"
	"errors"
	"time"

	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/temporal"

	"github.com/everturn/everturn/journal"
	"github.com/everturn/everturn/workflows"
	"github.com/everturn/everturn/workflows/turn"
)

// An activity that finds the journal unavailable before it has done anything fails, and the Temporal server begins
// another attempt after a delay. Between attempts the activity occupies no slot of a worker. An activity that has a
// completion or the result of a call to record does not fail: it keeps them in memory and repeats the write, so that
// no inference is paid for twice and no call runs twice. Both waits end after journal.retry_for. They do not count as
// working time of the turn.

// journalDelay returns the delay until the next attempt of an activity that has found the journal unavailable with
// err. A delay of 0 means that of the activity's retry policy. The second result reports whether there is a next
// attempt. There is none after retryFor, counted from when the activity was scheduled or the outage began, whichever
// is later, and none if neither time is known. A journal that lacks what was recorded before has no limit.
func journalDelay(ctx context.Context, err error, retryFor time.Duration) (time.Duration, bool) {
	since, delay := scheduled(ctx), time.Duration(0)
	var away *journal.AwayError
	if errors.As(err, &away) {
		delay = away.Retry
		if away.Since.After(since) {
			since = away.Since
		}
	}
	// It was restored from an older copy: the operator restores a later one or stops the turn.
	behind := errors.Is(err, journal.ErrBehind)
	return delay, behind || !since.IsZero() && time.Since(since) < retryFor
}

// failure converts an error of an activity to the application error that the worker returns to Temporal. Its type is
// the turn.Code and its message is for the user; the cause goes only to the log. An application error stays as it is.
// If the turn was stopped, any error becomes a canceled error. If the journal is unavailable, the activity is retried
// for retryFor.
func failure(ctx context.Context, retryFor time.Duration, err error, details ...any) error {
	switch {
	case err == nil:
		return nil
	case temporal.IsCanceledError(context.Cause(ctx)):
		return temporal.NewCanceledError()
	case temporal.IsApplicationError(err):
		return err
	}
	e := asTurnError(err)
	logFailure(ctx, e)
	options := temporal.ApplicationErrorOptions{NonRetryable: !e.Code.Retryable(), NextRetryDelay: e.RetryAfter,
		Details: details}
	if e.Code == turn.CodeJournalUnavailable {
		delay, mayRetry := journalDelay(ctx, err, retryFor)
		if mayRetry {
			options.Category = temporal.ApplicationErrorCategoryBenign
		}
		options.NonRetryable = !mayRetry
		if !local(ctx) { // the workflow itself makes the pauses between attempts of a local activity
			options.NextRetryDelay = delay
		}
	}
	return temporal.NewApplicationErrorWithOptions(e.Message, string(e.Code), options)
}

// failure is the function failure with this worker's JournalRetryFor.
func (a *Activities) failure(ctx context.Context, err error, details ...any) error {
	return failure(ctx, a.journalRetryFor, err, details...)
}

type clockKey struct{}

// withClock returns ctx with the clock that pauseClock pauses while the journal is unavailable.
func withClock(ctx context.Context, c *clock) context.Context {
	return context.WithValue(ctx, clockKey{}, c)
}

// pauseClock pauses the clock of ctx, if it has one. The returned function resumes it.
func pauseClock(ctx context.Context) (resume func()) {
	if c, ok := ctx.Value(clockKey{}).(*clock); ok {
		return c.pause()
	}
	return func() {}
}

// retryUntilAvailable calls write until the journal is available again, for at most the time within, and returns the
// last result. It does not wait for a journal that was replaced, because only a restart of the worker helps. The write
// must be idempotent. It is for what would be lost if the activity failed, such as a completion. The clock of ctx is
// paused meanwhile.
func retryUntilAvailable[T any](ctx context.Context, within time.Duration,
	write func(context.Context) (T, error)) (T, error) {
	defer pauseClock(ctx)()
	ctx, cancel := context.WithTimeout(ctx, within)
	defer cancel()
	const firstPause = 50 * time.Millisecond
	for pause := firstPause; ; pause = min(2*pause, time.Second) {
		out, err := write(ctx)
		if !unavailable(err) || errors.Is(err, journal.ErrReplaced) {
			return out, err
		}
		if pause == firstPause {
			e := asTurnError(err)
			warn(ctx, "the write is repeated until the journal is available",
				"code", e.Code, "message", e.Message, "cause", e.Cause)
		}
		if !awaitJournal(ctx, err, pause) {
			return out, err
		}
	}
}

// unavailable reports whether an error means that the journal is unavailable. It returns false for nil.
func unavailable(err error) bool {
	return err != nil && asTurnError(err).Code == turn.CodeJournalUnavailable
}

// awaitJournal waits before the next try after err. If err is a journal.AwayError, it waits until the journal is
// available again, but at most AwayError.Retry; otherwise it waits for pause. It returns false if ctx ends first.
func awaitJournal(ctx context.Context, err error, pause time.Duration) bool {
	var away *journal.AwayError
	var back <-chan struct{}
	if errors.As(err, &away) {
		pause, back = away.Retry, away.Back
	}
	timer := time.NewTimer(pause)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-back:
	case <-timer.C:
	}
	return true
}

// settleWithin returns how long an activity may try to record what it has done: until shortly before its deadline. For
// a local activity it is the time that the journal is retried, although the workflow may attempt the activity again
// before that. The next attempt then finds what this one has recorded.
func (a *Activities) settleWithin(ctx context.Context) time.Duration {
	if !activity.IsActivity(ctx) || local(ctx) {
		return max(workflows.SettleWithin, a.journalRetryFor)
	}
	return max(workflows.SettleWithin, time.Until(activity.GetInfo(ctx).Deadline)-workflows.CallRoom)
}
