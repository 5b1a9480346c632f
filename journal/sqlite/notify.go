package sqlite

import (
	"context"
	"database/sql"
	"sync"
	"time"

	"github.com/everturn/everturn/journal"
)

// pollEvery is the interval at which the file is polled for writes by other processes while there are followers.
const pollEvery = 25 * time.Millisecond

// changes tells waiters that the file may have changed: at once for this process's commits, and for commits of other
// processes by polling PRAGMA data_version. It polls only while there are followers.
type changes struct {
	conn *sql.Conn // data_version counts writes by other connections since this one last read it

	mu      sync.Mutex
	closed  bool
	current chan struct{} // closed at the next change
	waiting map[*waiter]struct{}
	stop    chan struct{} // ends the poller; nil while there is none
	poller  sync.WaitGroup
	version int64 // owned by the poller once it runs
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

// Changed implements journal.Database. All topics are in one file, so a change of the file wakes the followers of every
// topic.
func (s *database) Changed(ctx context.Context, _ ...journal.Topic) <-chan struct{} {
	return s.changes.wait(ctx)
}

// Notify implements journal.Database.
func (s *database) Notify(...journal.Topic) { s.changes.notify() }

func (c *changes) wait(ctx context.Context) <-chan struct{} {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed || ctx.Err() != nil {
		return c.current // closed already, or the caller's context has ended
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

// wake closes the current channel. The caller holds mu.
func (c *changes) wake() {
	close(c.current)
	for w := range c.waiting {
		w.forget()
	}
	clear(c.waiting)
}

// poll polls the file until there are no followers. It also notices a change from before it started, because it
// compares with the version that was read last.
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
			c.notify() // on an error too: the follower's read meets it and reports it
		}
		if c.idle(stop) {
			return
		}
	}
}

// idle reports that the poller must end, because there are no followers. The next follower starts another poller.
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
