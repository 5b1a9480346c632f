package toolbox

import (
	"context"
	"time"

	"github.com/everturn/everturn/workflows/turn"
)

// settle is the pause between two looks at a server: one that announces changes without end is asked five times a
// second at most.
const settle = 200 * time.Millisecond

// follow reports the server's catalogue whenever it changes, until ctx ends.
func (c *connector) follow(ctx context.Context, report func(turn.Catalogue)) {
	var last *turn.Catalogue
	for {
		now := c.catalogue(ctx)
		if ctx.Err() != nil || c.ctx.Err() != nil {
			return
		}
		if last == nil || last.Hash != now.Hash || (last.Problem == "") != (now.Problem == "") {
			last = &now
			report(now)
		}
		if !c.pause(ctx, settle) || !c.awaitEvent(ctx) {
			return
		}
	}
}

// awaitEvent waits for something to look at: the server's word, the connection's end, the time of the next attempt.
func (c *connector) awaitEvent(ctx context.Context) bool {
	var due <-chan time.Time
	if wait, ok := c.untilRetry(); ok {
		timer := time.NewTimer(wait)
		defer timer.Stop()
		due = timer.C
	}
	select {
	case <-c.events:
		return true
	case <-due:
		return true
	case <-ctx.Done():
	case <-c.ctx.Done():
	}
	return false
}

// untilRetry is how long to wait for the next attempt; false where the server is connected.
func (c *connector) untilRetry() (time.Duration, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.current != nil {
		return 0, false
	}
	return max(time.Until(c.retryAt), 0), true
}

func (c *connector) pause(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
	case <-c.ctx.Done():
	}
	return false
}
