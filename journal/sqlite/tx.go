package sqlite

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"modernc.org/sqlite"
	sqlite3 "modernc.org/sqlite/lib"
)

// tx is one write transaction. Its ctx cannot be cancelled.
type tx struct {
	querier
	emitted bool // chunks were appended: followers are to look
}

// write runs fn in one transaction, which is committed where fn returns nil and leaves no trace otherwise.
func (s *Store) write(ctx context.Context, doing string, fn func(*tx) error) (err error) {
	defer func() {
		if err != nil {
			err = fmt.Errorf("%s: %w", doing, explain(err))
		}
	}()
	select {
	case s.turnstile <- struct{}{}:
		defer func() { <-s.turnstile }()
	case <-ctx.Done():
		return ctx.Err()
	}
	if err := s.openWriter(ctx); err != nil {
		return err
	}
	t := &tx{querier: querier{context.WithoutCancel(ctx), s.writer}}
	if err := s.retry(ctx, func() error { return t.exec("BEGIN IMMEDIATE") }); err != nil {
		if !isBusy(err) && ctx.Err() == nil {
			s.dropWriter()
		}
		return err
	}
	done := false
	defer func() {
		// fn failed or panicked. Where SQLite has rolled back by itself, as on a full disk, this is an error too.
		if !done && t.exec("ROLLBACK") != nil {
			s.dropWriter()
		}
	}()
	if err := fn(t); err != nil {
		return err
	}
	if err := t.exec("COMMIT"); err != nil {
		return err
	}
	done = true
	if t.emitted {
		s.changes.notify()
	}
	return nil
}

// openWriter opens the connection for writes where there is none. It is called with the turnstile held, but by Open.
func (s *Store) openWriter(ctx context.Context) error {
	if s.closed {
		return errClosedStore
	}
	if s.writer != nil {
		return nil
	}
	return s.retry(ctx, func() error {
		raw, err := s.writeDB.Conn(ctx)
		if err == nil {
			s.writer = newConn(raw)
		}
		return err
	})
}

// dropWriter gives the connection for writes up, which may still be in a transaction: the next write opens another.
func (s *Store) dropWriter() {
	s.writer.discard()
	s.writer = nil
}

// read runs fn on a connection of the pool, all of whose queries see one moment's state. fn may run more than once.
func (s *Store) read(ctx context.Context, doing string, fn func(querier) error) error {
	err := s.retry(ctx, func() error { return s.once(ctx, fn) })
	if err != nil {
		return fmt.Errorf("%s: %w", doing, explain(err))
	}
	return nil
}

func (s *Store) once(ctx context.Context, fn func(querier) error) error {
	c, err := s.readers.take(ctx)
	if err != nil {
		return err
	}
	q := querier{context.WithoutCancel(ctx), c}
	if err := q.exec("BEGIN"); err != nil {
		s.readers.drop(c)
		return err
	}
	defer func() { s.readers.give(c, q.exec("ROLLBACK")) }()
	return fn(q)
}

// retry calls fn until it finds the file free, ctx ends or the busy timeout has passed.
func (s *Store) retry(ctx context.Context, fn func() error) error {
	deadline := time.Now().Add(s.busy)
	for {
		if err := ctx.Err(); err != nil {
			return err
		}
		err := fn()
		if !isBusy(err) {
			return err
		}
		if time.Now().After(deadline) {
			return errBusy{path: s.path, waited: s.busy, cause: err}
		}
		if ctxErr := pause(ctx, time.Millisecond+rand.N(4*time.Millisecond)); ctxErr != nil {
			return errors.Join(ctxErr, err)
		}
	}
}

func pause(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func isBusy(err error) bool {
	code := codeOf(err)
	return code == sqlite3.SQLITE_BUSY || code == sqlite3.SQLITE_LOCKED
}

// codeOf returns SQLite's primary result code of err, 0 where it is none of SQLite's.
func codeOf(err error) int {
	var e *sqlite.Error
	if errors.As(err, &e) {
		return e.Code() & 0xff
	}
	return 0
}
