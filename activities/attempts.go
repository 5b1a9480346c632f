package activities

import (
	"context"
	"errors"
	"sync"
	"time"

	"go.temporal.io/sdk/activity"
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

// heartbeatEvery is how often an activity heartbeats. The SDK forwards only what the heartbeat timeout needs.
const heartbeatEvery = time.Second

// clock measures how long an activity has worked over all its attempts, and heartbeats meanwhile: the heartbeat's
// details preserve the measurement across a crash.
type clock struct {
	before time.Duration // working time of earlier attempts
	// refused counts the attempts that ended in a turn.Error with Refused set, including this one once it has ended. It
	// is not written while the clock runs.
	refused int
	began   time.Time
	cancel  context.CancelFunc
	done    sync.WaitGroup

	mu     sync.Mutex
	paused time.Duration // time that does not count as work, such as waiting for memory
	pauses int           // pauses under way
	since  time.Time     // the first of them began
	wait   modelWait
}

func startClock(ctx context.Context) *clock {
	c := &clock{began: time.Now()}
	if !activity.IsActivity(ctx) || local(ctx) {
		c.cancel = func() {}
		return c
	}
	if activity.HasHeartbeatDetails(ctx) {
		// Details of another shape count as no working time.
		if err := activity.GetHeartbeatDetails(ctx, &c.before, &c.refused, &c.wait); err != nil {
			c.before, c.refused, c.wait = 0, 0, modelWait{}
		}
	}
	beat, cancel := context.WithCancel(ctx)
	c.cancel = cancel
	c.done.Go(func() { c.heartbeat(beat, ctx) })
	return c
}

// heartbeat skips the first heartbeatEvery: most activities end sooner, and the Temporal server writes each heartbeat
// to the run, which delays the activity's own completion.
func (c *clock) heartbeat(stop, ctx context.Context) {
	ticker := time.NewTicker(heartbeatEvery)
	defer ticker.Stop()
	for {
		select {
		case <-stop.Done():
			return
		case <-ticker.C:
			activity.RecordHeartbeat(ctx, c.busy(), c.refused, c.modelWait())
		}
	}
}

// busy returns the working time so far, earlier attempts included.
func (c *clock) busy() time.Duration {
	c.mu.Lock()
	defer c.mu.Unlock()
	rested := c.paused
	if c.pauses > 0 {
		rested += time.Since(c.since)
	}
	return c.before + time.Since(c.began) - rested
}

// pause stops the clock; the function that it returns restarts it. Overlapping pauses count once.
func (c *clock) pause() (goOn func()) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.pauses++; c.pauses == 1 {
		c.since = time.Now()
	}
	return func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		if c.pauses--; c.pauses == 0 {
			c.paused += time.Since(c.since)
		}
	}
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

func (c *clock) stop() {
	c.cancel()
	c.done.Wait()
}

// scheduled returns when the activity was first scheduled, or the zero time outside an activity.
func scheduled(ctx context.Context) time.Time {
	if !activity.IsActivity(ctx) {
		return time.Time{}
	}
	return activity.GetInfo(ctx).ScheduledTime
}

// local reports whether the activity is a local activity, which runs inside its workflow task.
func local(ctx context.Context) bool {
	return activity.IsActivity(ctx) && activity.GetInfo(ctx).IsLocalActivity
}
