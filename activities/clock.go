package activities

import (
	"context"
	"sync"
	"time"

	"go.temporal.io/sdk/activity"
)

// heartbeatEvery is how often an activity heartbeats. The SDK forwards only what the heartbeat timeout needs.
const heartbeatEvery = time.Second

// clock measures how long an activity has worked over all its attempts, and sends heartbeats meanwhile. The
// heartbeat's details carry the measurement to the next attempt, even after a crash.
type clock struct {
	before time.Duration // working time of earlier attempts
	// refused counts the attempts that ended in a turn.Error with Refused set, including this one once it has ended. It
	// changes only after the clock has stopped, so it needs no lock.
	refused int
	began   time.Time // this attempt
	cancel  context.CancelFunc
	done    sync.WaitGroup

	mu     sync.Mutex
	paused time.Duration // time that does not count as work, such as waiting for memory
	pauses int           // pauses under way
	since  time.Time     // when the first pause under way began
	wait   modelWait
}

// startClock starts the clock of an activity's attempt, with the measurements of its earlier attempts. Outside an
// activity and in a local activity, which cannot heartbeat, the clock only measures. The caller stops the clock.
func startClock(ctx context.Context) *clock {
	c := &clock{began: time.Now()}
	if !activity.IsActivity(ctx) || local(ctx) {
		c.cancel = func() {}
		return c
	}
	if activity.HasHeartbeatDetails(ctx) {
		// Another version of the worker may have recorded other details. They count as no working time.
		if err := activity.GetHeartbeatDetails(ctx, &c.before, &c.refused, &c.wait); err != nil {
			c.before, c.refused, c.wait = 0, 0, modelWait{}
		}
	}
	beat, cancel := context.WithCancel(ctx)
	c.cancel = cancel
	c.done.Go(func() { c.heartbeat(beat, ctx) })
	return c
}

// heartbeat records a heartbeat every heartbeatEvery until stop ends. ctx is the activity's context. The first one
// comes only after heartbeatEvery, because most activities end sooner, and the Temporal server writes each heartbeat
// to the workflow run, which would delay the activity's completion.
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
	paused := c.paused
	if c.pauses > 0 {
		paused += time.Since(c.since)
	}
	return c.before + time.Since(c.began) - paused
}

// pause stops the clock; the function that it returns restarts it. Overlapping pauses count once.
func (c *clock) pause() (resume func()) {
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

// stop ends the heartbeats. When it returns, none is under way.
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
