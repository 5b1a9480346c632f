package mcp

import (
	"context"
	"sync"
	"time"

	"github.com/everturn/everturn/workflows/turn"
)

// lookPause is the pause between two looks at a server.
const lookPause = 200 * time.Millisecond

// Bounds of the pause after a list that a server requested with list_changed. The pause doubles while the server keeps
// requesting lists.
const (
	relistPause    = 5 * time.Second
	maxRelistPause = time.Minute
	relistShare    = 20 // the pause is at least this many times as long as the list took
)

// spacing keeps lists that a server requests apart. A spacing is a plain value without a clock.
type spacing struct {
	pause time.Duration
	next  time.Time // the earliest time of the next list
}

// listed records a list that ended at now.
func (s *spacing) listed(now time.Time, took time.Duration) {
	if now.Sub(s.next) > s.pause {
		s.pause = 0
	}
	s.pause = min(max(2*s.pause, relistPause), maxRelistPause)
	s.next = now.Add(max(s.pause, relistShare*took))
}

// follow reports the server's catalogue whenever it changes, until ctx ends.
func (c *connector) follow(ctx context.Context, report func(turn.Catalogue)) {
	var last *turn.Catalogue
	var settled time.Time // when the pause after the last report ended
	var between time.Duration
	refresh := time.NewTicker(c.opts.RefreshEvery)
	defer refresh.Stop()
	for {
		now := c.currentCatalogue(ctx)
		if ctx.Err() != nil || c.ctx.Err() != nil {
			return
		}
		wait := lookPause
		if last == nil || last.Hash != now.Hash || (last.Problem == "") != (now.Problem == "") {
			last = &now
			report(now)
			between = changePause(between, time.Since(settled))
			wait, settled = between, time.Now().Add(between)
		}
		if !c.pause(ctx, wait) || !c.awaitEvent(ctx, refresh.C) {
			return
		}
	}
}

// changePause returns the pause after a report, from the pause after the previous one and the time since that ended. It
// doubles while changes follow each other, because a server may offer other tools in each short session.
func changePause(previous, quiet time.Duration) time.Duration {
	if quiet > maxRelistPause {
		return lookPause
	}
	return min(2*previous, maxRelistPause)
}

// currentCatalogue returns what the server offers. If the connector ended the connection because it was idle, look
// returns the last known catalogue: it does not start the server only to ask.
func (c *connector) currentCatalogue(ctx context.Context) turn.Catalogue {
	c.mu.Lock()
	known := c.known
	c.mu.Unlock()
	if known != nil && c.pool.Resting() {
		return *known
	}
	return c.catalogue(ctx)
}

// awaitEvent waits for a reason to look at the server: a notification, the connection's end, the time of the next
// attempt or of the next refresh. It returns false when ctx or the connector ends.
func (c *connector) awaitEvent(ctx context.Context, refresh <-chan time.Time) bool {
	var due <-chan time.Time
	if wait, ok := c.pool.UntilRetry(); ok {
		timer := time.NewTimer(wait)
		defer timer.Stop()
		due = timer.C
	}
	select {
	case <-c.events:
		return true
	case <-due:
		return true
	case <-refresh:
		c.refresh(ctx)
		return true
	case <-ctx.Done():
	case <-c.ctx.Done():
	}
	return false
}

// refresh lists a connected server again, on each shared connection, because not every server announces changes.
// Meanwhile calls use the previous catalogue.
func (c *connector) refresh(ctx context.Context) {
	var asked sync.WaitGroup
	defer asked.Wait()
	for _, conn := range c.pool.Shared() {
		s := conn.Link().(*session)
		asked.Go(func() {
			defer s.leave()
			_ = s.listAgain(ctx, true) // a session that cannot be listed is retired, and the server is looked at again
		})
	}
}

func (c *connector) pause(ctx context.Context, d time.Duration) bool { return pause(ctx, c.ctx, d) }

// pause waits for d; false if one of the contexts ended first.
func pause(ctx, host context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
	case <-host.Done():
	}
	return false
}
