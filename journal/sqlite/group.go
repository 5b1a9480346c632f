package sqlite

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/everturn/everturn/journal"
)

// maxGroup is the maximum number of transactions that share a commit.
const maxGroup = 64

// write is the transaction of a call of Write. While one of the callers has the write connection, the
// transactions of the others wait in the queue. That caller runs them together in one SQLite transaction, each in a
// savepoint, so that they share a commit: with synchronous "full", the commit is the expensive part.
type write struct {
	ctx      context.Context
	until    time.Time // how long to wait for another process to unlock the file
	fn       func(journal.Conn) error
	err      error         // the result of fn, or of the transaction
	panicked any           // the value with which fn panicked; nil if it did not
	done     chan struct{} // closed when err and panicked are set
}

// queue holds the transactions that wait for the writer, in order.
type queue struct {
	mu   sync.Mutex
	list []*write
}

// add appends w to the queue.
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

// remove removes w from the queue and reports whether it was still there. If not, another caller runs w already.
func (q *queue) remove(w *write) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	i := slices.Index(q.list, w)
	if i >= 0 {
		q.list = slices.Delete(q.list, i, i+1)
	}
	return i >= 0
}

// Write implements journal.Database. fn may run in the goroutine of another caller: see write. A panic of fn is passed
// on to fn's own caller.
func (db *database) Write(ctx context.Context, fn func(journal.Conn) error) error {
	if db.readOnly != nil {
		return db.readOnly
	}
	w := &write{ctx: ctx, until: time.Now().Add(db.busy), fn: fn, done: make(chan struct{})}
	db.queue.add(w)
	select {
	case db.writeToken <- struct{}{}:
		if err := db.runQueue(w); err != nil {
			return err
		}
	case <-w.done:
	case <-ctx.Done():
		if db.queue.remove(w) {
			return ctx.Err()
		}
	}
	<-w.done // also after ctx ends: a transaction that runs is not abandoned
	if w.panicked != nil {
		panic(w.panicked)
	}
	return w.err
}

// runQueue runs the queued transactions in groups until w has run. The caller holds the write token, which runQueue
// releases. If no transaction can begin, runQueue removes w from the queue and returns the error. The other callers
// then get the token, and try themselves.
func (db *database) runQueue(w *write) error {
	defer func() { <-db.writeToken }()
	for {
		select {
		case <-w.done:
			return nil
		default:
		}
		if err := db.begin(w); err != nil {
			db.queue.remove(w)
			return err
		}
		db.run(db.queue.take())
	}
}

// begin begins an SQLite transaction. It waits until no other process has the file locked, until w.ctx ends or w.until
// has passed.
func (db *database) begin(w *write) error {
	if err := db.checkFile(); err != nil {
		return err
	}
	if err := db.openWriter(w.ctx, w.until); err != nil {
		return err
	}
	err := db.retryUntil(w.ctx, w.until, func() error { return db.writer.Exec("BEGIN IMMEDIATE") })
	if err != nil && !isBusy(err) && w.ctx.Err() == nil {
		db.dropWriter() // the connection may be broken
	}
	return err
}

// run runs a group of writes in the SQLite transaction that has begun, commits it, and wakes their callers. If the
// whole transaction fails, because the disk is full or the commit fails, each write runs again in a transaction of
// its own, so that it gets its own result.
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

// runGroup runs the writes of a group and commits them. An error means that nothing of the group is committed. A write
// that fails alone is rolled back, its own error is in w.err, and runGroup returns nil.
func (db *database) runGroup(group []*write) error {
	commit := true
	for _, w := range group {
		var err error
		if len(group) == 1 { // needs no savepoint: the whole transaction can be rolled back
			w.call(db.writer)
			commit = w.err == nil && w.panicked == nil
		} else {
			err = db.runInSavepoint(w)
		}
		if err != nil {
			db.rollback()
			return err
		}
	}
	if !commit {
		db.rollback()
		return nil
	}
	err := db.writer.Exec("COMMIT")
	if err != nil {
		db.rollback()
	}
	return err
}

// runInSavepoint runs one write of a group in a savepoint, and rolls back to it if the write fails. The returned error
// means that the whole transaction fails; an error of the write alone is in w.err.
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

// call runs w.fn and sets w.err and w.panicked.
func (w *write) call(c journal.Conn) {
	defer func() { w.panicked = recover() }()
	w.err = w.fn(c)
}

// rollback ends the transaction without a commit. If ROLLBACK fails, the connection is replaced, because it may still
// be in the transaction. ROLLBACK also fails if SQLite has rolled back by itself, as on a full disk.
func (db *database) rollback() {
	if db.writer.Exec("ROLLBACK") != nil {
		db.dropWriter()
	}
}
