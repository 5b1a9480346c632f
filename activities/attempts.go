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

// detachFromAttempt returns a context that only a stop of the turn and a shutdown of the worker cancel. The SDK also
// cancels ctx if Temporal is unreachable for a moment or has timed the attempt out. The work under way then still
// finishes and is settled in the journal, where the next attempt finds it. If a stopped turn has closed before
// Temporal could cancel the activity, the SDK reports only that the activity is not found, so detachFromAttempt looks
// in the journal whether the turn was stopped. The returned function releases the context's resources.
func (a *Activities) detachFromAttempt(ctx context.Context, turnID string) (context.Context, context.CancelFunc) {
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
	m  map[string]chan struct{} // by the name of the work; closed when the work ends
}

// enter waits until no attempt holds key and takes it. The returned function releases the key. enter fails if ctx ends
// first.
func (r *running) enter(ctx context.Context, key string) (leave func(), err error) {
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

// modelWait returns a copy of the inference's wait for its model.
func (c *clock) modelWait() modelWait {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.wait
}

// beginWait records that an inference waits for its model, and returns the wait. A wait that has begun before keeps
// its time.
func (c *clock) beginWait(now time.Time) modelWait {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.wait.Since.IsZero() {
		c.wait.Since = now
	}
	if c.wait.ModelSince.IsZero() {
		c.wait.ModelSince = now
	}
	return c.wait
}

// endWait resets the wait for a fallback model that takes over. The time since the inference's first wait and the
// number of cut streams stay.
func (c *clock) endWait() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.wait = modelWait{Since: c.wait.Since, CutBefore: c.wait.CutBefore + c.wait.Cuts}
}

// addCut counts a stream that was cut, and returns how many streams of the same model were cut before it.
func (c *clock) addCut() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.wait.Cuts++
	return c.wait.Cuts - 1
}

// addRefusal counts a request for which the model was unavailable, and returns how many there were before.
func (c *clock) addRefusal() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.wait.Refusals++
	return c.wait.Refusals - 1
}

// shown records that a waiting event has announced the next attempt for the time next.
func (c *clock) shown(next time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.wait.Shown = next
}

// countAsPause subtracts d from the working time: the time of a request that found the model unavailable.
func (c *clock) countAsPause(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.paused += d
}
