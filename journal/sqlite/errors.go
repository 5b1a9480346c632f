package sqlite

import (
	"database/sql"
	"errors"
	"fmt"
	"time"

	sqlite3 "modernc.org/sqlite/lib"

	"github.com/everturn/everturn/journal"
)

var errClosed = errors.New("the journal is closed")

// errBusy is the error of an operation that found the file locked by another process for longer than it may wait.
type errBusy struct {
	path   string
	waited time.Duration
	cause  error
}

func (e errBusy) Error() string {
	return fmt.Sprintf("another program has held %s locked for %v: end it (a database browser, a backup, a second "+
		"worker that hangs) and try again: %v",
		e.path, e.waited.Round(time.Millisecond), e.cause)
}

func (e errBusy) Unwrap() []error { return []error{e.cause, journal.ErrUnavailable} }

// advice is what the operator can do about SQLite's own errors, by primary result code.
var advice = map[int]string{
	sqlite3.SQLITE_READONLY: "make the file and its folder writable for this user",
	sqlite3.SQLITE_CANTOPEN: "the journal cannot be opened: check that its folder exists and is writable for this user",
	sqlite3.SQLITE_NOTADB:   "the file is not a SQLite database: move it away or choose another path for the journal",
	sqlite3.SQLITE_CORRUPT:  "the journal is damaged: keep a copy of it with its -wal file and restore a backup",
	sqlite3.SQLITE_FULL:     "the disk is full and nothing was written: free some space and try again",
	sqlite3.SQLITE_IOERR:    "the disk reported an error: check it and its free space, then try again",
}

// kinds maps SQLite's primary result codes to the errors of package journal that Explain adds.
var kinds = map[int]error{
	sqlite3.SQLITE_READONLY: journal.ErrReadOnly,
	sqlite3.SQLITE_FULL:     journal.ErrUnavailable,
	sqlite3.SQLITE_IOERR:    journal.ErrUnavailable,
}

// Away implements journal.Database: the file or its disk cannot be used, or another process keeps the file locked.
func (db *database) Away(err error) bool {
	switch codeOf(err) {
	case sqlite3.SQLITE_READONLY, sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_FULL, sqlite3.SQLITE_IOERR:
		return true
	}
	return errors.As(err, new(errBusy))
}

// Explain implements journal.Database. It adds advice for the operator to SQLite's errors, and wraps the error of
// package journal that corresponds to them.
func (db *database) Explain(err error) error {
	if errors.Is(err, sql.ErrNoRows) {
		return journal.ErrNotFound
	}
	if errors.Is(err, sql.ErrConnDone) {
		return errClosed
	}
	if text, ok := advice[codeOf(err)]; ok {
		err = fmt.Errorf("%s: %w", text, err)
	}
	if kind := kinds[codeOf(err)]; kind != nil {
		err = fmt.Errorf("%w: %w", kind, err)
	}
	return err
}
