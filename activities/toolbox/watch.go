package toolbox

import (
	"context"
	"sync"
	"time"

	"github.com/everturn/everturn/workflows/turn"
)

// settle is the pause between two looks at a server, and settleMost what it grows to where the server changes each time:
// one that announces changes without end is asked, and told of, once a minute.
const (
	settle     = 200 * time.Millisecond
	settleMost = time.Minute
)

// restless is the pause after a look at a server. It doubles with each change that comes soon after the one before. It is a
// plain value without a clock.
type restless struct {
	pause   time.Duration
	changed time.Time
}

// next is the pause after a look at now, at which the server had changed or not.
func (r *restless) next(now time.Time, changed bool) time.Duration {
	if !changed {
		return settle
	}
	if now.Sub(r.changed) > 2*r.pause+settle {
		r.pause = settle / 2
	}
	r.pause, r.changed = min(2*r.pause, settleMost), now
	return r.pause
}

// The pause after a list that a server asked for with list_changed. It doubles while the server goes on, up to settleMost.
const (
	relistPause = 5 * time.Second
	relistShare = 20 // the pause is at least so many times as long as the list took
)

// spacing keeps the lists apart that a server asks for. It is a plain value without a clock.
type spacing struct {
	pause time.Duration
	next  time.Time // no list before
}

// listed notes a list that ended now.
func (p *spacing) listed(now time.Time, took time.Duration) {
	if now.Sub(p.next) > p.pause {
		p.pause = 0
	}
	p.pause = min(max(2*p.pause, relistPause), settleMost)
	p.next = now.Add(max(p.pause, relistShare*took))
}

// follow reports the server's catalogue whenever it changes, until ctx ends.
func (c *connector) follow(ctx context.Context, report func(turn.Catalogue)) {
	var last *turn.Catalogue
	var mood restless
	refresh := time.NewTicker(c.opts.RefreshEvery)
	defer refresh.Stop()
	for {
		now := c.look(ctx)
		if ctx.Err() != nil || c.ctx.Err() != nil {
			return
		}
		changed := last == nil || last.Hash != now.Hash || (last.Problem == "") != (now.Problem == "")
		if changed {
			last = &now
			report(now)
		}
		if !c.pause(ctx, mood.next(time.Now(), changed)) || !c.awaitEvent(ctx, refresh.C) {
			return
		}
	}
}

// look is what the server offers. Where its connection was ended because nobody needs it, that is what it offered last:
// it is not started only to be asked.
func (c *connector) look(ctx context.Context) turn.Catalogue {
	c.mu.Lock()
	known, sl := c.known, c.shared().slots[""]
	resting := sl != nil && sl.resting
	c.mu.Unlock()
	if resting && known != nil {
		return *known
	}
	return c.catalogue(ctx)
}

// awaitEvent waits for something to look at: the server's word, the connection's end, the time of the next attempt, or
// of the next refresh.
func (c *connector) awaitEvent(ctx context.Context, refresh <-chan time.Time) bool {
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
	case <-refresh:
		c.doubt(ctx)
		return true
	case <-ctx.Done():
	case <-c.ctx.Done():
	}
	return false
}

// doubt asks a connected server again what it offers, on each connection that turns share: not every server announces
// changes. Calls go on meanwhile with what it offered before.
func (c *connector) doubt(ctx context.Context) {
	if c.local != nil {
		return
	}
	var asked sync.WaitGroup
	defer asked.Wait()
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, p := range c.parties {
		sl := p.slots[""]
		if sl == nil || sl.current == nil || !sl.current.enter() {
			continue
		}
		s := sl.current
		asked.Go(func() {
			defer s.leave()
			_ = s.listAgain(ctx, true) // a server that cannot say is given up, and looked at anew
		})
	}
}

// untilRetry is how long to wait for the next attempt; false where the server is connected, or nobody needs it to be.
func (c *connector) untilRetry() (time.Duration, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if sl := c.shared().slots[""]; sl != nil && (sl.current != nil || sl.resting) {
		return 0, false
	}
	return c.shared().breaker.pause(time.Now()), true
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
