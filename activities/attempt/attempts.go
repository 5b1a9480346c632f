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
	running
}

// New returns the attempts of a worker whose activities retry for retryFor while the journal is unavailable.
func New(j Journal, retryFor time.Duration) *Attempts {
	return &Attempts{journal: j, retryFor: retryFor}
}

// Detach returns a context that only a stop of the turn and a shutdown of the worker cancel. The SDK also
// cancels ctx if Temporal is unreachable for a moment or has timed the attempt out. The work under way then still
// finishes and is settled in the journal, where the next attempt finds it. If a stopped turn has closed before
// Temporal could cancel the activity, the SDK reports only that the activity is not found, so Detach looks
// in the journal whether the turn was stopped. The returned function releases the context's resources.
func (a *Attempts) Detach(ctx context.Context, turnID string) (context.Context, context.CancelFunc) {
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
	return detached, func() { stopWatching(); cancel(nil) }
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

// running tracks the inferences and calls that this process has under way. An attempt that starts while an earlier
// attempt of the same work still runs waits for it to end, instead of doing the work twice.
type running struct {
	mu sync.Mutex
	m  map[string]chan struct{} // by the name of the work; closed when the work ends
}

// Enter waits until no attempt holds key and takes it. The returned function releases the key. Enter fails if ctx ends
// first.
func (r *running) Enter(ctx context.Context, key string) (leave func(), err error) {
	for {
		ended := r.take(key)
		if ended == nil {
			return func() { r.release(key) }, nil
		}
		select {
		case <-ended:
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
	}
}

// take takes key and returns nil if key is free. Otherwise it returns a channel that is closed when key becomes free.
func (r *running) take(key string) <-chan struct{} {
	r.mu.Lock()
	defer r.mu.Unlock()
	if ended, ok := r.m[key]; ok {
		return ended
	}
	if r.m == nil {
		r.m = map[string]chan struct{}{}
	}
	r.m[key] = make(chan struct{})
	return nil
}

// release frees key and wakes the attempts that wait for it.
func (r *running) release(key string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	close(r.m[key])
	delete(r.m, key)
}
