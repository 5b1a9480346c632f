package attempt

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
// no inference is paid for twice and no call runs twice. Both waits end after JournalRetryFor. They do not count as
// working time of the turn.

// journalDelay returns the delay until the next attempt of an activity that has found the journal unavailable with
// err. If the delay is 0, the activity's retry policy decides. The second result reports whether there is a next
// attempt. There is none after retryFor, counted from when the activity was scheduled or the outage began, whichever
// is later, and none if neither time is known. After an ErrBehind there is always a next attempt, because an operator
// must act.
func journalDelay(ctx context.Context, err error, retryFor time.Duration) (time.Duration, bool) {
	since, delay := Scheduled(ctx), time.Duration(0)
	var away *journal.AwayError
	if errors.As(err, &away) {
		delay = away.Retry
		if away.Since.After(since) {
			since = away.Since
		}
	}
	// The journal was restored from an older copy: the operator restores a later one or stops the turn.
	behind := errors.Is(err, journal.ErrBehind)
	return delay, behind || !since.IsZero() && time.Since(since) < retryFor
}

// Failure converts an error of an activity to the application error that the worker returns to Temporal. Its type is
// the turn.Code and its message is for the user; the cause goes only to the log. An application error stays as it is.
// If the turn was stopped, any error becomes a canceled error. If the journal is unavailable, the activity is retried
// for retryFor.
func Failure(ctx context.Context, retryFor time.Duration, err error, details ...any) error {
	switch {
	case err == nil:
		return nil
	case temporal.IsCanceledError(context.Cause(ctx)):
		return temporal.NewCanceledError()
	case temporal.IsApplicationError(err):
		return err
	}
	e := AsTurnError(err)
	LogFailure(ctx, e)
	options := temporal.ApplicationErrorOptions{NonRetryable: !e.Code.Retryable(), NextRetryDelay: e.RetryAfter,
		Details: details}
	if e.Code == turn.CodeJournalUnavailable {
		delay, mayRetry := journalDelay(ctx, err, retryFor)
		if mayRetry {
			options.Category = temporal.ApplicationErrorCategoryBenign
		}
		options.NonRetryable = !mayRetry
		if !IsLocal(ctx) { // the workflow itself makes the pauses between attempts of a local activity
			options.NextRetryDelay = delay
		}
	}
	return temporal.NewApplicationErrorWithOptions(e.Message, string(e.Code), options)
}

// JournalDelay returns the delay until the next attempt of an activity that has found the journal unavailable with
// err, and reports whether there is a next attempt. If the delay is 0, the activity's retry policy decides.
func (a *Attempts) JournalDelay(ctx context.Context, err error) (time.Duration, bool) {
	return journalDelay(ctx, err, a.retryFor)
}

// Failure is the function Failure with this worker's JournalRetryFor.
func (a *Attempts) Failure(ctx context.Context, err error, details ...any) error {
	return Failure(ctx, a.retryFor, err, details...)
}

// clockKey is the key of a context's clock, which PauseClock pauses.
type clockKey struct{}

// PauseClock pauses the clock of the attempt that has ctx. The returned function resumes it. If ctx is not that of an
// attempt, PauseClock does nothing.
func PauseClock(ctx context.Context) (resume func()) {
	if c, ok := ctx.Value(clockKey{}).(*Clock); ok {
		return c.Pause()
	}
	return func() {}
}

// RetryUntilAvailable calls write until the journal is available again, for at most the time within, and returns the
// last result. It does not wait for a journal that was replaced, because only a restart of the worker helps. The write
// must be idempotent. It is for what would be lost if the activity failed, such as a completion. The clock of ctx is
// paused meanwhile.
func RetryUntilAvailable[T any](ctx context.Context, within time.Duration,
	write func(context.Context) (T, error)) (T, error) {
	defer PauseClock(ctx)()
	ctx, cancel := context.WithTimeout(ctx, within)
	defer cancel()
	const firstPause = 50 * time.Millisecond
	for pause := firstPause; ; pause = min(2*pause, time.Second) {
		out, err := write(ctx)
		if err == nil || !Unavailable(err) || errors.Is(err, journal.ErrReplaced) {
			return out, err
		}
		if pause == firstPause {
			e := AsTurnError(err)
			Warn(ctx, "the write is repeated until the journal is available",
				"code", e.Code, "message", e.Message, "cause", e.Cause)
		}
		if !AwaitJournal(ctx, err, pause) {
			return out, err
		}
	}
}

// Unavailable reports whether an error, which must not be nil, means that the journal is unavailable.
func Unavailable(err error) bool { return AsTurnError(err).Code == turn.CodeJournalUnavailable }

// AwaitJournal waits before the next try after err. If err is a journal.AwayError, it waits until the journal is
// available again, but at most AwayError.Retry; otherwise it waits for pause. It returns false if ctx ends first.
func AwaitJournal(ctx context.Context, err error, pause time.Duration) bool {
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

// SettleWithin returns how long an activity may try to record what it has done: until shortly before its deadline. For
// a local activity it is the time that the journal is retried, although the workflow may attempt the activity again
// before that. The next attempt then finds what this one has recorded.
func (a *Attempts) SettleWithin(ctx context.Context) time.Duration {
	if !activity.IsActivity(ctx) || IsLocal(ctx) {
		return max(workflows.SettleWithin, a.retryFor)
	}
	return max(workflows.SettleWithin, time.Until(activity.GetInfo(ctx).Deadline)-workflows.CallRoom)
}
