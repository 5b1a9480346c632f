package mcp

import (
	"context"
	"sync"
	"time"

	"github.com/everturn/everturn/workflows/turn"
)

// lookPause is the shortest pause between two requests for a server's catalogue.
const lookPause = 200 * time.Millisecond

// Bounds of the pause after a list of tools that a server caused with list_changed. The pause doubles while the server
// keeps sending list_changed.
const (
	relistPause    = 5 * time.Second
	maxRelistPause = time.Minute
	relistShare    = 20 // the pause is at least this many times as long as the list took, so lists take 5 % of the time
)

// spacing spaces out the lists of tools that a server causes with list_changed. It is a plain value without a clock.
type spacing struct {
	pause time.Duration // after the last list; 0: none yet, or long ago
	next  time.Time     // the earliest time of the next list
}

// listed records a list that ended at now and took that long, and sets the time of the next one. The pause starts again
// at relistPause if the server has been quiet for as long as the last pause.
func (s *spacing) listed(now time.Time, took time.Duration) {
	if now.Sub(s.next) > s.pause {
		s.pause = 0
	}
	s.pause = min(max(2*s.pause, relistPause), maxRelistPause)
	s.next = now.Add(max(s.pause, relistShare*took))
}

// follow reports the server's catalogue, first at once and then whenever its tools have changed since the last report,
// or a Problem has come or gone, until ctx ends or the host closes. It keeps the server connected, except while its
// connection rests because it was idle.
func (c *connector) follow(ctx context.Context, report func(turn.Catalogue)) {
	var last *turn.Catalogue      // the last one reported
	var reportPause time.Duration // the pause after the last report, which ended at pauseEnd
	var pauseEnd time.Time
	refresh := time.NewTicker(c.opts.RefreshEvery)
	defer refresh.Stop()
	for {
		current := c.currentCatalogue(ctx)
		if ctx.Err() != nil || c.ctx.Err() != nil {
			return
		}
		wait := lookPause
		changed := last == nil || last.Hash != current.Hash || (last.Problem == "") != (current.Problem == "")
		if changed {
			last = &current
			report(current)
			reportPause = changePause(reportPause, time.Since(pauseEnd))
			wait, pauseEnd = reportPause, time.Now().Add(reportPause)
		}
		if !c.pause(ctx, wait) || !c.awaitEvent(ctx, refresh.C) {
			return
		}
	}
}

// changePause returns the pause after a report. previous is the pause after the previous report, and quiet is the time
// since that pause ended. The pause doubles while changes follow each other, because a server might offer other tools
// in each of many short sessions; after a quiet time it is lookPause.
func changePause(previous, quiet time.Duration) time.Duration {
	if quiet > maxRelistPause {
		return lookPause
	}
	return min(2*previous, maxRelistPause)
}

// currentCatalogue returns the catalogue of the tools that the server offers now. If its connection ended because it
// was idle, currentCatalogue returns the last known catalogue instead of starting the server only to list it.
func (c *connector) currentCatalogue(ctx context.Context) turn.Catalogue {
	c.mu.Lock()
	known := c.known
	c.mu.Unlock()
	if known != nil && c.pool.Resting() {
		return *known
	}
	return c.catalogue(ctx)
}

// awaitEvent waits until the server's catalogue may have changed: until the watcher is woken, the next attempt to
// connect is due, or a refresh is due, which it then performs. It returns false when ctx ends or the host closes.
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

// refresh lists the server again on each tenant's shared connection, because not every server announces changes with
// list_changed. Meanwhile calls use the previous list.
func (c *connector) refresh(ctx context.Context) {
	var asked sync.WaitGroup
	defer asked.Wait()
	for _, conn := range c.pool.Shared() {
		s := conn.Link().(*session)
		asked.Go(func() {
			defer s.leave()
			_ = s.relist(ctx, true) // on failure relist retires the session, and the watcher connects again
		})
	}
}

// pause waits for d; it returns false if ctx ended or the host closed first.
func (c *connector) pause(ctx context.Context, d time.Duration) bool { return pause(ctx, c.ctx, d) }

// pause waits for d; it returns false if one of the contexts ended first.
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
