package sqlite

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"modernc.org/sqlite"
	sqlite3 "modernc.org/sqlite/lib"

	"github.com/everturn/everturn/journal"
)

// openWriter opens the write connection if it is not open. The caller holds the write token, or is opening the journal.
// It returns errClosed after Close.
func (db *database) openWriter(ctx context.Context, until time.Time) error {
	if db.closed {
		return errClosed
	}
	if db.writer != nil {
		return nil
	}
	return db.retryUntil(ctx, until, func() error {
		raw, err := db.writeDB.Conn(ctx)
		if err == nil {
			db.writer = newConn(raw)
		}
		return err
	})
}

// dropWriter discards the write connection, which may still be in a transaction. The next write opens a new one.
func (db *database) dropWriter() {
	db.writer.discard()
	db.writer = nil
}

// Read implements journal.Database. Unless once is true, it runs fn again while the file is locked.
func (db *database) Read(ctx context.Context, once bool, fn func(journal.Conn) error) error {
	if once {
		return db.readSnapshot(ctx, fn)
	}
	return db.retry(ctx, func() error { return db.readSnapshot(ctx, fn) })
}

// readSnapshot runs fn in a read transaction, which sees one snapshot, on a connection of the pool.
func (db *database) readSnapshot(ctx context.Context, fn func(journal.Conn) error) error {
	if err := db.checkFile(); err != nil {
		return err
	}
	c, err := db.readers.take(ctx)
	if err != nil {
		return err
	}
	if err := c.Exec("BEGIN"); err != nil {
		db.readers.replace(c)
		return err
	}
	defer func() { db.readers.put(c, c.Exec("ROLLBACK")) }()
	return fn(c)
}

// retry calls fn, and again while its error is that another process has the file locked, until ctx ends or the busy
// timeout has passed.
func (db *database) retry(ctx context.Context, fn func() error) error {
	return db.retryUntil(ctx, time.Now().Add(db.busy), fn)
}

// retryUntil is retry with a deadline in place of the busy timeout. It calls fn at least once, unless ctx has ended.
func (db *database) retryUntil(ctx context.Context, deadline time.Time, fn func() error) error {
	for began := time.Now(); ; {
		if err := ctx.Err(); err != nil {
			return err
		}
		err := fn()
		if !isBusy(err) {
			return err
		}
		if time.Now().After(deadline) {
			return errBusy{path: db.path, waited: db.busy, cause: err}
		}
		select {
		case <-time.After(time.Millisecond + rand.N(4*time.Millisecond)):
		case <-ctx.Done():
			return fmt.Errorf("%w (%w)", errBusy{path: db.path, waited: time.Since(began), cause: err}, ctx.Err())
		}
	}
}

// isBusy reports whether an error means that another process has the file locked.
func isBusy(err error) bool {
	code := codeOf(err)
	return code == sqlite3.SQLITE_BUSY || code == sqlite3.SQLITE_LOCKED
}

// codeOf returns SQLite's primary result code of err, 0 if err does not come from SQLite.
func codeOf(err error) int {
	var e *sqlite.Error
	if errors.As(err, &e) {
		return e.Code() & 0xff
	}
	return 0
}
