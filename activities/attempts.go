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

// take returns nil if key was free. Otherwise it returns a channel that is closed when key becomes free.
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

func (r *running) release(key string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	close(r.m[key])
	delete(r.m, key)
}

// modelWait returns how long an inference has waited for its model, as far as is known.
func (c *clock) modelWait() modelWait {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.wait
}

// beginWait records that an inference waits for its model, since now unless it does already.
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

// endWait records that another model takes over.
func (c *clock) endWait() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.wait = modelWait{Since: c.wait.Since, CutBefore: c.wait.CutBefore + c.wait.Cuts}
}

// addCut counts a stream that was cut, and returns how many there were before.
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

// shown records that the turn's readers know when the next attempt begins.
func (c *clock) shown(next time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.wait.Shown = next
}

// discount takes back working time that turned out to be a wait.
func (c *clock) discount(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.paused += d
}
