package postgres

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/everturn/everturn/journal"
)

const (
	// pollEvery is the interval at which the database is polled for changes while there are followers.
	pollEvery = 40 * time.Millisecond
	// forgetAfter is the number of polls after which a topic without a follower is forgotten. A woken follower reads
	// and usually waits again at once.
	forgetAfter = 250
)

// changes wakes followers: at once after this process's own commits, by polling after the commits of other processes.
// One query covers all topics; it runs only while there are followers.
type changes struct {
	db     *database
	ctx    context.Context // ends with close
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

// topic is the state of a topic at the last poll: a number that grows with every change. New topics have 0, so they
// wake their followers at the first poll.
type topic struct {
	seen int64
	idle int // polls without a follower
}

func newChanges(db *database) *changes {
	c := &changes{db: db, followers: map[*follower]struct{}{}, topics: map[journal.Topic]*topic{}}
	c.ctx, c.cancel = context.WithCancel(context.Background())
	return c
}

// Changed implements journal.Database.
func (s *database) Changed(ctx context.Context, topics ...journal.Topic) <-chan struct{} {
	return s.changes.wait(ctx, topics)
}

// Notify implements journal.Database.
func (s *database) Notify(topics ...journal.Topic) {
	s.changes.mu.Lock()
	defer s.changes.mu.Unlock()
	s.changes.wake(topics)
}

func (c *changes) wait(ctx context.Context, topics []journal.Topic) <-chan struct{} {
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

func (c *changes) leave(f *follower) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.followers, f)
}

// wake closes the channels of the followers of the topics. The caller holds mu.
func (c *changes) wake(topics []journal.Topic) {
	for f := range c.followers {
		if len(f.topics) == 0 || slices.ContainsFunc(f.topics, func(t journal.Topic) bool { return slices.Contains(topics, t) }) {
			c.end(f)
		}
	}
}

func (c *changes) end(f *follower) {
	f.forget()
	close(f.changed)
	delete(c.followers, f)
}

// poll looks for changes until there are no followers.
func (c *changes) poll() {
	ticker := time.NewTicker(pollEvery)
	defer ticker.Stop()
	for {
		select {
		case <-c.ctx.Done():
			return
		case <-ticker.C:
		}
		asked, ok := c.asked()
		if !ok {
			return
		}
		seen, err := c.look(asked)
		c.compare(asked, seen, err)
	}
}

// asked returns the topics that have followers. If there are no followers, it returns false and the poller ends; the
// next follower starts another.
func (c *changes) asked() (list []journal.Topic, ok bool) {
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

// compare wakes the followers of the topics that have changed. After an error it wakes all followers: their reads meet
// the error and report it.
func (c *changes) compare(asked []journal.Topic, seen map[journal.Topic]int64, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	var changed []journal.Topic
	for _, name := range asked {
		t := c.topics[name]
		if err != nil || t.seen != seen[name]+1 {
			changed = append(changed, name)
		}
		if err == nil {
			t.seen = seen[name] + 1
		}
	}
	c.wake(changed)
}

// look reads the state of each topic: the chunks of turns, and the turns of sessions.
func (c *changes) look(topics []journal.Topic) (map[journal.Topic]int64, error) {
	ctx, cancel := context.WithTimeout(c.ctx, statementTimeout)
	defer cancel()
	var turns, sessions []string
	for _, t := range topics {
		if t.Turn != "" {
			turns = append(turns, t.Turn)
		} else {
			sessions = append(sessions, t.Session)
		}
	}
	seen := map[journal.Topic]int64{}
	if len(topics) == 0 {
		return seen, nil
	}
	rows, err := c.db.db.QueryContext(ctx, `
		SELECT t.turn_id, '', '', 1 + coalesce((SELECT max(idx) FROM chunks WHERE turn = t.id), 0) FROM turns t WHERE t.turn_id = ANY($1)
		UNION ALL
		SELECT '', s.session_id, s.tenant, 1 + coalesce((SELECT max(id) FROM turns WHERE session = s.id), 0) FROM sessions s WHERE s.session_id = ANY($2)`,
		turns, sessions)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	for rows.Next() {
		var t journal.Topic
		var n int64
		if err := rows.Scan(&t.Turn, &t.Session, &t.Tenant, &n); err != nil {
			return nil, err
		}
		seen[t] = n
	}
	return seen, rows.Err()
}

func (c *changes) close() {
	c.cancel()
	c.mu.Lock()
	for f := range c.followers {
		c.end(f)
	}
	c.mu.Unlock()
	c.poller.Wait()
}
