package watch

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/everturn/everturn/journal"
)

// forgetAfter is the number of polls without a follower after which a topic is forgotten. It is not forgotten at once,
// because a follower that was woken usually waits again after its read.
const forgetAfter = 250

// Look reads the state of each topic: a number above 0 that changes whenever the topic changes. A topic that does not
// exist yet has no entry in the result.
type Look func(ctx context.Context, topics []journal.Topic) (map[journal.Topic]int64, error)

// Changes wakes followers when their topics may have changed. A goroutine polls while there are followers.
type Changes struct {
	look   Look
	every  time.Duration   // between polls
	ctx    context.Context // ends with Close
	cancel context.CancelFunc
	poller sync.WaitGroup // the polling goroutine, if there is one

	mu        sync.Mutex
	polling   bool // the polling goroutine runs
	followers map[*follower]struct{}
	topics    map[journal.Topic]*topic // of the followers, and of recent ones
}

// follower is one call of Changes.Wait. It is woken once.
type follower struct {
	topics    []journal.Topic // empty: every change and every poll wakes it
	changed   chan struct{}   // closed to wake it
	stopWatch func() bool     // ends the watch of its context
}

// topic is the state of a topic at the last poll.
type topic struct {
	known bool  // it was polled; the first poll wakes the followers, because it has nothing to compare with
	seen  int64 // the number that Look returned
	idle  int   // polls without a follower
}

// New returns Changes that call look at this interval while there are followers.
func New(every time.Duration, look Look) *Changes {
	c := &Changes{look: look, every: every, followers: map[*follower]struct{}{}, topics: map[journal.Topic]*topic{}}
	c.ctx, c.cancel = context.WithCancel(context.Background())
	return c
}

// Wait returns a channel that is closed when one of the topics may have changed, or anything if there are no topics.
// After Close, the channel is closed already. After ctx ends, the channel may never be closed: the caller must also
// wait for ctx.
func (c *Changes) Wait(ctx context.Context, topics ...journal.Topic) <-chan struct{} {
	c.mu.Lock()
	defer c.mu.Unlock()
	f := &follower{topics: topics, changed: make(chan struct{})}
	if c.ctx.Err() != nil {
		close(f.changed)
		return f.changed
	}
	f.stopWatch = context.AfterFunc(ctx, func() { c.remove(f) })
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

// remove removes a follower whose context has ended.
func (c *Changes) remove(f *follower) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.followers, f)
}

// Notify wakes the followers of the topics, and all followers without topics.
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

// wake closes the follower's channel and removes the follower. The caller holds c.mu.
func (c *Changes) wake(f *follower) {
	f.stopWatch()
	close(f.changed)
	delete(c.followers, f)
}

// poll is the polling goroutine. It ends when there are no followers, or with Close.
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

// followed returns the topics that have followers, and forgets topics that have had none for long. If there are no
// followers at all, it returns false and the polling goroutine must end; the next follower starts another one.
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

// compare records the states of the topics, which look has returned, and returns the topics whose states have changed
// or were not known before. If look returned an error, it returns all topics: their followers then read the journal,
// and report its error.
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

// Close ends the polling and wakes all followers.
func (c *Changes) Close() {
	c.cancel()
	c.mu.Lock()
	for f := range c.followers {
		c.wake(f)
	}
	c.mu.Unlock()
	c.poller.Wait()
}
