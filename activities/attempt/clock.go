package attempt

import (
	"context"
	"sync"
	"time"

	"go.temporal.io/sdk/activity"
)

// heartbeatEvery is how often an activity heartbeats. The SDK forwards only what the heartbeat timeout needs.
const heartbeatEvery = time.Second

// Clock measures how long an activity has worked over all its attempts, and sends heartbeats meanwhile. The
// heartbeat's details carry the measurement to the next attempt, even after a crash. The clock also carries to the next
// attempt what earlier ones met: refusals of a tool's server, and the wait for a model.
type Clock struct {
	Before time.Duration // working time of earlier attempts
	// Refused counts the attempts that ended in a turn.Error with Refused set, including this one once it has ended. It
	// changes only after the clock has stopped, so it needs no lock.
	Refused int
	Began   time.Time // this attempt
	// Scheduled is when the activity was first scheduled, or the zero time outside an activity.
	Scheduled time.Time
	cancel    context.CancelFunc
	done      sync.WaitGroup

	mu     sync.Mutex
	paused time.Duration // time that does not count as work, such as waiting for memory
	pauses int           // pauses under way
	since  time.Time     // when the first pause under way began
	wait   ModelWait
}

// StartClock starts the clock of an activity's attempt, with the measurements of its earlier attempts. Outside an
// activity and in a local activity, which cannot heartbeat, the clock only measures. The caller stops the clock.
func StartClock(ctx context.Context) *Clock {
	c := &Clock{Began: time.Now()}
	if activity.IsActivity(ctx) {
		c.Scheduled = activity.GetInfo(ctx).ScheduledTime
	}
	if !activity.IsActivity(ctx) || IsLocal(ctx) {
		c.cancel = func() {}
		return c
	}
	if activity.HasHeartbeatDetails(ctx) {
		// Another version of the worker may have recorded other details. They count as no working time.
		if err := activity.GetHeartbeatDetails(ctx, &c.Before, &c.Refused, &c.wait); err != nil {
			c.Before, c.Refused, c.wait = 0, 0, ModelWait{}
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
func (c *Clock) heartbeat(stop, ctx context.Context) {
	ticker := time.NewTicker(heartbeatEvery)
	defer ticker.Stop()
	for {
		select {
		case <-stop.Done():
			return
		case <-ticker.C:
			activity.RecordHeartbeat(ctx, c.Busy(), c.Refused, c.ModelWait())
		}
	}
}

// Busy returns the working time so far, earlier attempts included.
func (c *Clock) Busy() time.Duration {
	c.mu.Lock()
	defer c.mu.Unlock()
	paused := c.paused
	if c.pauses > 0 {
		paused += time.Since(c.since)
	}
	return c.Before + time.Since(c.Began) - paused
}

// Pause stops the clock; the function that it returns restarts it. Overlapping pauses count once.
func (c *Clock) Pause() (resume func()) {
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

// Stop ends the heartbeats. When it returns, none is under way.
func (c *Clock) Stop() {
	c.cancel()
	c.done.Wait()
}

// Scheduled returns when the activity was first scheduled, or the zero time outside an activity.
func Scheduled(ctx context.Context) time.Time {
	if !activity.IsActivity(ctx) {
		return time.Time{}
	}
	return activity.GetInfo(ctx).ScheduledTime
}

// IsLocal reports whether the activity is a local activity, which runs inside its workflow task.
func IsLocal(ctx context.Context) bool {
	return activity.IsActivity(ctx) && activity.GetInfo(ctx).IsLocalActivity
}

// Number returns the number of the activity's attempt, from 1.
func Number(ctx context.Context) int32 {
	if !activity.IsActivity(ctx) {
		return 1
	}
	return activity.GetInfo(ctx).Attempt
}

// RoundDuration formats a duration, rounded to seconds, or to tenths of a second below one second.
func RoundDuration(d time.Duration) string {
	if d < time.Second {
		return d.Round(100 * time.Millisecond).String()
	}
	return d.Round(time.Second).String()
}
