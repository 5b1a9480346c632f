package activities

import (
	"context"
	"sync"
	"time"

	"go.temporal.io/sdk/activity"
)

// beatEvery is how often an activity shows that it lives. The SDK passes on what the heartbeat timeout needs.
const beatEvery = time.Second

// clock measures how long an activity has worked over all its attempts, and heartbeats while it does: the details of
// the heartbeat carry the measure over a crash.
type clock struct {
	before time.Duration // worked in attempts before this one
	// refused counts the attempts, this one included when it has ended, that were refused: see turn.Error. It is not
	// written while the clock runs.
	refused int
	began   time.Time
	cancel  context.CancelFunc
	done    sync.WaitGroup

	mu     sync.Mutex
	rested time.Duration // no work: somebody was waited for
	rests  int           // that go on
	since  time.Time     // the first of them began
}

func startClock(ctx context.Context) *clock {
	c := &clock{began: time.Now()}
	if !activity.IsActivity(ctx) || local(ctx) {
		c.cancel = func() {}
		return c
	}
	if activity.HasHeartbeatDetails(ctx) {
		// Details of another shape count as nothing worked.
		if err := activity.GetHeartbeatDetails(ctx, &c.before, &c.refused); err != nil {
			c.before, c.refused = 0, 0
		}
	}
	beat, cancel := context.WithCancel(ctx)
	c.cancel = cancel
	c.done.Go(func() { c.beat(beat, ctx) })
	return c
}

// beat leaves the first moment out: most activities are over by then, and each heartbeat is a write of the server's to
// the run that the activity's own completion then waits for.
func (c *clock) beat(stop, ctx context.Context) {
	ticker := time.NewTicker(beatEvery)
	defer ticker.Stop()
	for {
		select {
		case <-stop.Done():
			return
		case <-ticker.C:
			activity.RecordHeartbeat(ctx, c.busy(), c.refused)
		}
	}
}

// busy is the working time so far, earlier attempts included.
func (c *clock) busy() time.Duration {
	c.mu.Lock()
	defer c.mu.Unlock()
	rested := c.rested
	if c.rests > 0 {
		rested += time.Since(c.since)
	}
	return c.before + time.Since(c.began) - rested
}

// rest stops the clock; the function that it returns lets it go on. What rests side by side counts once.
func (c *clock) rest() (goOn func()) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.rests++; c.rests == 1 {
		c.since = time.Now()
	}
	return func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		if c.rests--; c.rests == 0 {
			c.rested += time.Since(c.since)
		}
	}
}

func (c *clock) stop() {
	c.cancel()
	c.done.Wait()
}

// scheduled is when the activity was scheduled first; the zero time outside of one.
func scheduled(ctx context.Context) time.Time {
	if !activity.IsActivity(ctx) {
		return time.Time{}
	}
	return activity.GetInfo(ctx).ScheduledTime
}

// local reports whether the activity runs inside its workflow's task.
func local(ctx context.Context) bool {
	return activity.IsActivity(ctx) && activity.GetInfo(ctx).IsLocalActivity
}
