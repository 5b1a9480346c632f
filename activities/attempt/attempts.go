package attempt

import (
	"context"
	"errors"
	"sync"
	"time"

	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/worker"

	"github.com/everturn/everturn/journal"
	"github.com/everturn/everturn/workflows/turn"
)

// Journal is what the attempts need of a journal.DB, which documents the methods.
type Journal interface {
	TurnConfig(ctx context.Context, turnID string) (journal.TurnConfig, error)
	AppendEvents(ctx context.Context, key journal.StepKey, attempt int, events []turn.Event) error
}

// Attempts has what all attempts of a worker's activities share.
type Attempts struct {
	journal  Journal
	retryFor time.Duration // how long an activity is retried while the journal is unavailable
	mu       sync.Mutex
	underWay map[work]chan struct{} // what this process works on; each channel is closed when the work ends
}

// New returns the attempts of a worker whose activities retry for retryFor while the journal is unavailable.
func New(j Journal, retryFor time.Duration) *Attempts {
	return &Attempts{journal: j, retryFor: retryFor, underWay: map[work]chan struct{}{}}
}

// Begin begins an attempt to work on a call of a turn, or on a step if call is "". It starts the attempt's clock and
// waits until this process has no earlier attempt of the same work under way; a local activity, which continues beside
// the next attempt when its time is over, does not wait. The first to settle counts then.
//
// Only a stop of the turn and a shutdown of the worker cancel the context that Begin returns. The SDK also cancels ctx
// if Temporal is unreachable for a moment or has timed the attempt out. The work under way then still finishes and is
// settled in the journal, where the next attempt finds it. If a stopped turn has closed before Temporal could cancel
// the activity, the SDK reports only that the activity is not found, so Begin looks in the journal whether the turn was
// stopped.
//
// The caller calls end, also after an error, which means that ctx ended while an earlier attempt was under way.
func (a *Attempts) Begin(ctx context.Context, turnID string, step int, call string) (
	detached context.Context, clock *Clock, end func(), err error) {
	clock = StartClock(ctx)
	names, leave := work{turnID, step, call}, func() {}
	ctx = context.WithValue(context.WithValue(ctx, workKey{}, names), clockKey{}, clock)
	if !IsLocal(ctx) {
		if leave, err = a.enter(ctx, names); err != nil {
			return ctx, clock, clock.Stop, turn.NewError(turn.CodeWorkerUnavailable, err, "the previous attempt is still running")
		}
	}
	detached, cancel := context.WithCancelCause(context.WithoutCancel(ctx))
	stopWatching := context.AfterFunc(ctx, func() {
		cause := context.Cause(ctx)
		switch {
		case temporal.IsCanceledError(cause), errors.Is(cause, worker.ErrWorkerShutdown):
			cancel(cause)
		case a.stopped(detached, turnID):
			cancel(temporal.NewCanceledError())
		}
	})
	return detached, clock, func() { stopWatching(); cancel(nil); leave(); clock.Stop() }, nil
}

// stopped reports whether the journal has the turn as stopped by a user. While the journal cannot be read, it tries
// again every second, until ctx ends. It returns false if ctx has ended, or if the journal does not have the turn.
func (a *Attempts) stopped(ctx context.Context, turnID string) bool {
	for {
		t, err := a.journal.TurnConfig(ctx, turnID)
		if err == nil || errors.Is(err, journal.ErrNotFound) {
			return t.State == turn.StateCancelled
		}
		timer := time.NewTimer(time.Second)
		select {
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
			return false
		}
	}
}

// enter waits until this process has no attempt of the work w under way, and counts this one as under way until leave
// is called. It fails if ctx ends first.
func (a *Attempts) enter(ctx context.Context, w work) (leave func(), err error) {
	for {
		a.mu.Lock()
		ended, busy := a.underWay[w]
		if !busy {
			ended = make(chan struct{})
			a.underWay[w] = ended
			a.mu.Unlock()
			return func() {
				a.mu.Lock()
				defer a.mu.Unlock()
				delete(a.underWay, w)
				close(ended)
			}, nil
		}
		a.mu.Unlock()
		select {
		case <-ended:
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
	}
}
