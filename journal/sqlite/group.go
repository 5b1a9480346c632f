package sqlite

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/everturn/everturn/journal/internal/tables"
)

// maxGroup is the maximum number of transactions that share a commit.
const maxGroup = 64

// write is a transaction that waits for the writer. One of the waiting callers runs all waiting transactions in one
// SQLite transaction, each in a savepoint, so that they share a commit. The commit is the expensive part with
// synchronous "full".
type write struct {
	ctx      context.Context
	until    time.Time // how long to wait for another process to unlock the file
	fn       func(tables.Conn) error
	err      error
	panicked any
	done     chan struct{} // closed when err and panicked are set
}

// queue holds the transactions that wait for the writer, in order.
type queue struct {
	mu   sync.Mutex
	list []*write
}

func (q *queue) add(w *write) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.list = append(q.list, w)
}

// take removes and returns the first maxGroup transactions of the queue.
func (q *queue) take() []*write {
	q.mu.Lock()
	defer q.mu.Unlock()
	n := min(len(q.list), maxGroup)
	group := slices.Clone(q.list[:n])
	q.list = slices.Delete(q.list, 0, n)
	return group
}

// leave removes w from the queue and reports whether it was still there. If not, w is already running.
func (q *queue) leave(w *write) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	i := slices.Index(q.list, w)
	if i >= 0 {
		q.list = slices.Delete(q.list, i, i+1)
	}
	return i >= 0
}

// Write implements tables.Database. fn may run in another goroutine.
func (db *database) Write(ctx context.Context, fn func(tables.Conn) error) error {
	if db.readOnly != nil {
		return db.readOnly
	}
	w := &write{ctx: ctx, until: time.Now().Add(db.busy), fn: fn, done: make(chan struct{})}
	db.queue.add(w)
	select {
	case db.writeToken <- struct{}{}:
		if err := db.lead(w); err != nil {
			return err
		}
	case <-w.done:
	case <-ctx.Done():
		if db.queue.leave(w) {
			return ctx.Err()
		}
	}
	<-w.done
	if w.panicked != nil {
		panic(w.panicked)
	}
	return w.err
}

// lead runs the waiting transactions until w has run. It returns an error if it cannot begin a transaction; the other
// callers then try themselves.
func (db *database) lead(w *write) error {
	defer func() { <-db.writeToken }()
	for {
		select {
		case <-w.done:
			return nil
		default:
		}
		if err := db.begin(w); err != nil {
			db.queue.leave(w)
			return err
		}
		db.run(db.queue.take())
	}
}

// begin begins a transaction for w as soon as the file is not locked.
func (db *database) begin(w *write) error {
	if err := db.checkFile(); err != nil {
		return err
	}
	if err := db.openWriter(w.ctx, w.until); err != nil {
		return err
	}
	err := db.retryUntil(w.ctx, w.until, func() error { return db.writer.Exec("BEGIN IMMEDIATE") })
	if err != nil && !isBusy(err) && w.ctx.Err() == nil {
		db.dropWriter()
	}
	return err
}

// run runs a group in the transaction that has begun, and commits it. If one of the group aborts the whole transaction,
// as a full disk does, or the commit fails, each runs again in a transaction of its own.
func (db *database) run(group []*write) {
	if err := db.runGroup(group); err == nil || len(group) == 1 {
		for _, w := range group {
			if err != nil {
				w.err = err
			}
			close(w.done)
		}
		return
	}
	for _, w := range group {
		w.err, w.panicked = db.begin(w), nil
		if w.err != nil {
			close(w.done)
			continue
		}
		db.run([]*write{w})
	}
}

// runGroup runs a group and commits it. If it returns an error, nothing of the group is committed.
func (db *database) runGroup(group []*write) error {
	ok := true
	for _, w := range group {
		var err error
		if len(group) == 1 {
			w.call(db.writer)
			ok = w.err == nil && w.panicked == nil
		} else {
			err = db.runInSavepoint(w)
		}
		if err != nil {
			db.rollback()
			return err
		}
	}
	if !ok {
		db.rollback()
		return nil
	}
	err := db.writer.Exec("COMMIT")
	if err != nil {
		db.rollback()
	}
	return err
}

// runInSavepoint runs one write of a group in a savepoint. Its error concerns the whole transaction; w.err holds the
// error of w alone.
func (db *database) runInSavepoint(w *write) error {
	if err := db.writer.Exec("SAVEPOINT one"); err != nil {
		return err
	}
	w.call(db.writer)
	if w.err != nil || w.panicked != nil {
		if err := db.writer.Exec("ROLLBACK TO one"); err != nil {
			return err
		}
	}
	return db.writer.Exec("RELEASE one")
}

func (w *write) call(c tables.Conn) {
	defer func() { w.panicked = recover() }()
	w.err = w.fn(c)
}

// rollback ends the transaction. ROLLBACK fails if SQLite has rolled back already, as on a full disk.
func (db *database) rollback() {
	if db.writer.Exec("ROLLBACK") != nil {
		db.dropWriter()
	}
}
