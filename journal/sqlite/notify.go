package sqlite

import (
	"context"
	"database/sql"
	"sync"
	"time"

	"github.com/everturn/everturn/journal"
)

// pollEvery is how often, while there are followers, the file is asked whether another process has written.
const pollEvery = 25 * time.Millisecond

// changes tells waiters that the file may have changed: at once for this process's commits, by polling PRAGMA
// data_version for those of others. It polls only while there are followers.
type changes struct {
	conn *sql.Conn // data_version counts what other connections have written since this one last looked

	mu      sync.Mutex
	closed  bool
	current chan struct{} // closed at the next change
	waiting map[*waiter]struct{}
	stop    chan struct{} // ends the poller; nil while there is none
	poller  sync.WaitGroup
	version int64 // only the poller's, once there is one
}

type waiter struct{ forget func() bool }

func watchChanges(ctx context.Context, s *database) (*changes, error) {
	conn, err := s.readDB.Conn(ctx)
	if err != nil {
		return nil, err
	}
	c := &changes{conn: conn, current: make(chan struct{}), waiting: map[*waiter]struct{}{}}
	return c, s.retry(ctx, func() error { return c.readVersion(&c.version) })
}

// Changed implements journal.Database. All topics are in one file, and a change of the file wakes all.
func (s *database) Changed(ctx context.Context, _ ...journal.Topic) <-chan struct{} {
	return s.changes.wait(ctx)
}

// Notify implements journal.Database.
func (s *database) Notify(...journal.Topic) { s.changes.notify() }

func (c *changes) wait(ctx context.Context) <-chan struct{} {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed || ctx.Err() != nil {
		return c.current // closed already, or nobody is left to hear
	}
	w := &waiter{}
	w.forget = context.AfterFunc(ctx, func() { c.leave(w) })
	c.waiting[w] = struct{}{}
	if c.stop == nil {
		c.stop = make(chan struct{})
		c.poller.Add(1)
		go c.poll(c.stop)
	}
	return c.current
}

func (c *changes) leave(w *waiter) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.waiting, w)
}

func (c *changes) notify() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.closed {
		c.wake()
		c.current = make(chan struct{})
	}
}

// wake is called with mu held.
func (c *changes) wake() {
	close(c.current)
	for w := range c.waiting {
		w.forget()
	}
	clear(c.waiting)
}

// poll looks at the file until there are no followers. A change that came before it started counts too: the version it
// compares with is the last one that was read.
func (c *changes) poll(stop chan struct{}) {
	defer c.poller.Done()
	ticker := time.NewTicker(pollEvery)
	defer ticker.Stop()
	for {
		select {
		case <-stop:
			return
		case <-ticker.C:
		}
		before := c.version
		if err := c.readVersion(&c.version); err != nil || c.version != before {
			c.notify() // on an error too: the reader meets it and reports it
		}
		if c.idle(stop) {
			return
		}
	}
}

// idle ends the poller if there are no followers; the next follower starts another.
func (c *changes) idle(stop chan struct{}) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.waiting) > 0 || c.stop != stop {
		return false
	}
	c.stop = nil
	return true
}

func (c *changes) readVersion(v *int64) error {
	return c.conn.QueryRowContext(context.Background(), "PRAGMA data_version").Scan(v)
}

func (c *changes) close() error {
	c.mu.Lock()
	if c.closed {
		c.mu.Unlock()
		return nil
	}
	c.closed = true
	c.wake()
	if c.stop != nil {
		close(c.stop)
	}
	c.mu.Unlock()
	c.poller.Wait()
	return c.conn.Close()
}
