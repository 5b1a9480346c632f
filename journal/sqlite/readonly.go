package sqlite

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"os"
	"syscall"

	sqlite3 "modernc.org/sqlite/lib"

	"github.com/everturn/everturn/journal"
)

// isUnwritable reports whether an error of opening a journal for writing may leave it readable: the file, its folder or
// the whole disk cannot be written.
func isUnwritable(err error) bool {
	switch codeOf(err) {
	case sqlite3.SQLITE_READONLY, sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_FULL, sqlite3.SQLITE_IOERR:
		return true
	}
	return errors.Is(err, fs.ErrPermission) || errors.Is(err, syscall.EROFS) || errors.Is(err, syscall.ENOSPC)
}

// openForReading opens a file that exists, and changes nothing in its folder. A file without a log is opened as one that
// no process changes, because SQLite would otherwise create the log. With a log, SQLite needs the log's index (-shm).
func (db *database) openForReading(ctx context.Context, _ string) (err error) {
	f, err := os.Open(db.path)
	if err != nil {
		return err
	}
	db.file, err = f.Stat()
	if err := errors.Join(err, f.Close()); err != nil {
		return err
	}
	db.mode = url.Values{"mode": {"ro"}}
	switch {
	case !db.hasLog():
		db.mode.Set("immutable", "1")
	case !exists(db.path + "-shm"):
		return fmt.Errorf("%w, and %s-wal cannot be read without %s-shm: copy the journal with its -wal file to a folder "+
			"that can be written", journal.ErrReadOnly, db.path, db.path)
	}
	if err := db.checkVersion(ctx); err != nil {
		return err
	}
	return db.connectReaders(ctx)
}

// hasLog reports whether the file has a log with transactions that may not be in the file yet.
func (db *database) hasLog() bool {
	info, err := os.Stat(db.path + "-wal")
	return err == nil && info.Size() > 0
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}

// checkUnchanged returns an error if another process has changed a file that was opened as one that does not change,
// because reads could then mix two states.
func (db *database) checkUnchanged(now os.FileInfo) error {
	if !db.mode.Has("immutable") || now.ModTime().Equal(db.file.ModTime()) && !db.hasLog() {
		return nil
	}
	return fmt.Errorf("%w: another process has begun to write to %s: run the command again", journal.ErrUnavailable,
		db.path)
}

// ReadOnly implements tables.Database.
func (db *database) ReadOnly() error { return db.readOnly }
