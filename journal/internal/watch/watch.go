package watch

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/everturn/everturn/journal"
)

// forgetAfter is the number of polls after which a topic without a follower is forgotten. A woken follower reads and
// usually waits again at once.
const forgetAfter = 250

// Look reads the state of each topic: a number above 0 that changes with every change, and 0 for a topic that does not
// exist yet.
type Look func(ctx context.Context, topics []journal.Topic) (map[journal.Topic]int64, error)

// Changes wakes followers when their topics may have changed.
type Changes struct {
	look   Look
	every  time.Duration
	ctx    context.Context // ends with Close
	cancel context.CancelFunc
	poller sync.WaitGroup

	mu        sync.Mutex
	polling   bool
	followers map[*follower]struct{}
	topics    map[journal.Topic]*topic
}

// follower waits for any of its topics, or for anything if it has none.
type follower struct {
	topics  []journal.Topic
	changed chan struct{}
	forget  func() bool
}

// topic is a topic at the last poll. New topics wake their followers at the first poll.
type topic struct {
	known bool
	seen  int64
	idle  int // polls without a follower
}

// New returns Changes that call look every so often.
func New(every time.Duration, look Look) *Changes {
	c := &Changes{look: look, every: every, followers: map[*follower]struct{}{}, topics: map[journal.Topic]*topic{}}
	c.ctx, c.cancel = context.WithCancel(context.Background())
	return c
}

// Wait returns a channel that is closed when one of the topics may have changed. When ctx ends, the follower is
// forgotten.
func (c *Changes) Wait(ctx context.Context, topics ...journal.Topic) <-chan struct{} {
	c.mu.Lock()
	defer c.mu.Unlock()
	f := &follower{topics: topics, changed: make(chan struct{})}
	if c.ctx.Err() != nil {
		close(f.changed)
		return f.changed
	}
	f.forget = context.AfterFunc(ctx, func() { c.leave(f) })
	c.followers[f] = struct{}{}
	for _, t := range topics {
		if c.topics[t] == nil {
			c.topics[t] = &topic{}
		}
	}
	if !c.polling {
		c.polling = true
		c.poller.Go(c.poll)
	}
	return f.changed
}

func (c *Changes) leave(f *follower) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.followers, f)
}

// Notify wakes the followers of the topics.
func (c *Changes) Notify(topics ...journal.Topic) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for f := range c.followers {
		follows := func(t journal.Topic) bool { return slices.Contains(f.topics, t) }
		if len(f.topics) == 0 || slices.ContainsFunc(topics, follows) {
			c.wake(f)
		}
	}
}

func (c *Changes) wake(f *follower) {
	f.forget()
	close(f.changed)
	delete(c.followers, f)
}

// poll looks for changes until there are no followers.
func (c *Changes) poll() {
	ticker := time.NewTicker(c.every)
	defer ticker.Stop()
	for {
		select {
		case <-c.ctx.Done():
			return
		case <-ticker.C:
		}
		topics, ok := c.followed()
		if !ok {
			return
		}
		seen, err := c.look(c.ctx, topics)
		c.Notify(c.compare(topics, seen, err)...)
	}
}

// followed returns the topics that have followers. If there are no followers, it returns false and the poller ends; the
// next follower starts another.
func (c *Changes) followed() (list []journal.Topic, ok bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.followers) == 0 {
		c.polling = false
		return nil, false
	}
	followed := map[journal.Topic]bool{}
	for f := range c.followers {
		for _, t := range f.topics {
			followed[t] = true
		}
	}
	for name, t := range c.topics {
		t.idle++
		if followed[name] {
			t.idle = 0
			list = append(list, name)
		} else if t.idle > forgetAfter {
			delete(c.topics, name)
		}
	}
	return list, true
}

// compare returns the topics that have changed. After an error these are all topics: the followers' reads meet the
// error and report it.
func (c *Changes) compare(topics []journal.Topic, seen map[journal.Topic]int64, err error) (changed []journal.Topic) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, name := range topics {
		t := c.topics[name]
		if err != nil || !t.known || t.seen != seen[name] {
			changed = append(changed, name)
		}
		if err == nil {
			t.known, t.seen = true, seen[name]
		}
	}
	return changed
}

// Close wakes all followers and waits for the poller to end.
func (c *Changes) Close() {
	c.cancel()
	c.mu.Lock()
	for f := range c.followers {
		c.wake(f)
	}
	c.mu.Unlock()
	c.poller.Wait()
}
