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
// another attempt after a delay: meanwhile it holds no slot of a worker. What is done and not recorded yet, a
// completion or the result of a call, stays in the memory of the activity until the journal takes it, so that nothing
// is paid for or run twice. Both end after journal.retry_for. The wait is no working time of the turn.

// journalDelay returns the time until an activity that has found the journal unavailable is tried again; 0 leaves it to
// the activity's retry policy. The result is false if the activity has waited for retryFor.
func journalDelay(ctx context.Context, err error, retryFor time.Duration) (time.Duration, bool) {
	since, delay := scheduled(ctx), time.Duration(0)
	var away *journal.AwayError
	if errors.As(err, &away) {
		delay = away.Retry
		if away.Since.After(since) {
			since = away.Since
		}
	}
	behind := errors.Is(err, journal.ErrBehind) // until a later copy is restored, or the turn is stopped
	return delay, behind || !since.IsZero() && time.Since(since) < retryFor
}

// failure maps an error to the application error that leaves the worker. Its type is the turn.Code and its message is
// for the user; its cause goes only to the log. An application error stays as it is. An activity that has found the
// journal unavailable is retried for retryFor.
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
		delay, more := journalDelay(ctx, err, retryFor)
		if more {
			options.Category = temporal.ApplicationErrorCategoryBenign
		}
		if options.NonRetryable = !more; !local(ctx) { // which has pauses of its own: see workflows
			options.NextRetryDelay = delay
		}
	}
	return temporal.NewApplicationErrorWithOptions(e.Message, string(e.Code), options)
}

func (a *Activities) failure(ctx context.Context, err error, details ...any) error {
	return failure(ctx, a.journalRetryFor, err, details...)
}

type clockKey struct{}

// withClock returns ctx for work whose waits for the journal do not count as working time.
func withClock(ctx context.Context, c *clock) context.Context {
	return context.WithValue(ctx, clockKey{}, c)
}

// rest stops the clock of ctx; the function that it returns restarts it.
func pauseClock(ctx context.Context) (goOn func()) {
	if c, ok := ctx.Value(clockKey{}).(*clock); ok {
		return c.pause()
	}
	return func() {}
}

// retryUntilAvailable repeats an idempotent write while the journal is unavailable, for instance because its disk is
// full, until its time is over. It is for what would be lost if the activity failed.
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

// unavailable reports whether an error means that the journal is unavailable.
func unavailable(err error) bool {
	return err != nil && asTurnError(err).Code == turn.CodeJournalUnavailable
}

// awaitJournal waits until the journal may be asked again after an error: when it is back, or after the pause if it
// cannot tell. The result is false if ctx has ended.
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

// settleWithin returns how long what is done waits for the journal: as long as its activity may run. A local activity
// may be over by then; another attempt then finds what it has recorded.
func (a *Activities) settleWithin(ctx context.Context) time.Duration {
	if !activity.IsActivity(ctx) || local(ctx) {
		return max(workflows.SettleWithin, a.journalRetryFor)
	}
	return max(workflows.SettleWithin, time.Until(activity.GetInfo(ctx).Deadline)-workflows.CallRoom)
}
