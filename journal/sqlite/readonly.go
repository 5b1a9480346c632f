package sqlite

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"syscall"

	sqlite3 "modernc.org/sqlite/lib"

	"github.com/everturn/everturn/internal/statedir"
	"github.com/everturn/everturn/journal"
)

// isUnwritable reports whether the error of opening a journal for writing means that the file, its folder or the disk
// cannot be written. Such a journal may still be readable.
func isUnwritable(err error) bool {
	switch codeOf(err) {
	case sqlite3.SQLITE_READONLY, sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_FULL, sqlite3.SQLITE_IOERR:
		return true
	}
	return errors.Is(err, fs.ErrPermission) || errors.Is(err, syscall.EROFS) || errors.Is(err, syscall.ENOSPC)
}

// openForReading opens an existing file for reading only, and changes nothing in its folder. A file without a log
// (-wal) is opened as immutable, because SQLite would otherwise create the log. A file with a log can be opened only
// if the log's index (-shm) exists too. The second parameter is not used: it makes the method fit openAs.
func (db *database) openForReading(ctx context.Context, _ string) (err error) {
	if dir := filepath.Dir(db.path); filepath.Base(dir) == statedir.Name && !statedir.Made(dir) {
		return fs.ErrPermission // openFile returns the error of opening it for writing
	}
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

// exists reports whether a file exists.
func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}

// checkUnchanged returns an error that wraps journal.ErrUnavailable if the file was opened as immutable and another
// process has changed it since: reads could then mix two states. now is the file's current FileInfo.
func (db *database) checkUnchanged(now os.FileInfo) error {
	if !db.mode.Has("immutable") || now.ModTime().Equal(db.file.ModTime()) && !db.hasLog() {
		return nil
	}
	return fmt.Errorf("%w: another process has begun to write to %s: run the command again", journal.ErrUnavailable,
		db.path)
}

// ReadOnly implements journal.Database.
func (db *database) ReadOnly() error { return db.readOnly }
