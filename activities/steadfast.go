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

// steadfast is ctx without the ends that are no stop. When Temporal is away for a moment, or has given an attempt up,
// the SDK cancels its context; what is under way then comes to its end all the same and is settled in the journal,
// where the next attempt finds it. Only a stop of the turn and the end of the worker stop it. A stopped turn closes
// before its activities hear of the stop, and then the server no longer knows them: so the journal is asked.
func (a *Activities) steadfast(ctx context.Context, turnID string) (context.Context, context.CancelFunc) {
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

// stopped reports whether the turn was stopped, and asks again while the journal does not tell.
func (a *Activities) stopped(ctx context.Context, turnID string) bool {
	for {
		t, err := a.journal.Turn(ctx, turnID)
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

// flights are the inferences and calls that this process has under way. An attempt that comes while an earlier one of
// the same is still in the air waits for it to land, instead of doing the same beside it.
type flights struct {
	mu sync.Mutex
	m  map[string]chan struct{}
}

// enter waits until key is free and takes it. It fails where ctx ends first.
func (f *flights) enter(ctx context.Context, key string) (leave func(), err error) {
	for {
		landed := f.take(key)
		if landed == nil {
			return func() { f.release(key) }, nil
		}
		select {
		case <-landed:
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
	}
}

// take returns nil where key was free, and otherwise what is closed when it will be.
func (f *flights) take(key string) <-chan struct{} {
	f.mu.Lock()
	defer f.mu.Unlock()
	if landed, ok := f.m[key]; ok {
		return landed
	}
	if f.m == nil {
		f.m = map[string]chan struct{}{}
	}
	f.m[key] = make(chan struct{})
	return nil
}

func (f *flights) release(key string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	close(f.m[key])
	delete(f.m, key)
}
