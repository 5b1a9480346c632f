package activities

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

// detachFromAttempt returns ctx without cancellations that do not stop the turn. When Temporal is unreachable for a
// moment, or has given an attempt up, the SDK cancels its context. The work under way then still finishes and is
// settled in the journal, where the next attempt finds it. Only a stop of the turn and a shutdown of the worker cancel
// the returned context. A stopped turn may close before its activities are told; Temporal then no longer knows them, so
// detachFromAttempt asks the journal.
func (a *Activities) detachFromAttempt(ctx context.Context, turnID string) (context.Context, context.CancelFunc) {
	inner, cancel := context.WithCancelCause(context.WithoutCancel(ctx))
	forget := context.AfterFunc(ctx, func() {
		cause := context.Cause(ctx)
		switch {
		case temporal.IsCanceledError(cause), errors.Is(cause, worker.ErrWorkerShutdown):
			cancel(cause)
		case a.stopped(inner, turnID):
			cancel(temporal.NewCanceledError())
		}
	})
	return inner, func() { forget(); cancel(nil) }
}

// stopped reports whether the turn was stopped. It retries while the journal cannot be read.
func (a *Activities) stopped(ctx context.Context, turnID string) bool {
	for {
		t, err := a.journal.TurnConfig(ctx, turnID)
		if err == nil || errors.Is(err, journal.ErrNotFound) {
			return t.State == turn.StateCancelled
		}
		timer := time.NewTimer(time.Second)
		if !wait(ctx, nil, timer.C) {
			timer.Stop()
			return false
		}
	}
}

// running tracks the inferences and calls that this process has under way. An attempt that starts while an earlier
// attempt of the same work still runs waits for it to end, instead of doing the work twice.
type running struct {
	mu sync.Mutex
	m  map[string]chan struct{}
}

// enter waits until key is free and takes it. It fails if ctx ends first.
func (f *running) enter(ctx context.Context, key string) (leave func(), err error) {
	for {
		ended := f.take(key)
		if ended == nil {
			return func() { f.release(key) }, nil
		}
		select {
		case <-ended:
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
	}
}

// take returns nil if key was free. Otherwise it returns a channel that is closed when key becomes free.
func (f *running) take(key string) <-chan struct{} {
	f.mu.Lock()
	defer f.mu.Unlock()
	if ended, ok := f.m[key]; ok {
		return ended
	}
	if f.m == nil {
		f.m = map[string]chan struct{}{}
	}
	f.m[key] = make(chan struct{})
	return nil
}

func (f *running) release(key string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	close(f.m[key])
	delete(f.m, key)
}
