package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"net/url"
	"os"
	"path/filepath"
	"time"

	_ "modernc.org/sqlite" // the driver

	"github.com/everturn/everturn/internal/statedir"
	"github.com/everturn/everturn/journal"
)

// Options configures a journal. The zero value is ready to use.
type Options struct {
	// Synchronous is SQLite's setting: "full" (default) or "normal". See the package documentation.
	Synchronous string
	// BusyTimeout is how long an operation waits for another process to unlock the file, if its context does not end
	// earlier. 0 means 10 s.
	BusyTimeout time.Duration
}

const (
	defaultBusyTimeout = 10 * time.Second
	// stepTimeout is how long SQLite itself waits before retry checks the context again.
	stepTimeout = 30 * time.Millisecond
	// readers is the number of concurrent reads.
	readers = 4
	// walPages is the size of the log, in pages of 4 KiB, at which SQLite writes it back into the file; walLimit is the
	// size in bytes to which the log is truncated then.
	walPages = 512
	// writerCache and readerCache are the sizes of the page caches of the connections, in KiB. SQLite's default is 2,000,
	// and the kernel's cache has the same pages.
	writerCache = 1000
	readerCache = 256
	walLimit    = 2 << 20
)

// database is a SQLite file.
type database struct {
	path       string
	file       os.FileInfo // the file that was opened
	busy       time.Duration
	readOnly   error      // why the file is open for reading only; nil if it is open for writing
	mode       url.Values // SQLite's parameters for a file that is open for reading only
	writeDB    *sql.DB
	readDB     *sql.DB
	writer     *conn         // the only connection of writeDB; nil if the next write must open it
	closed     bool          // no further write may begin
	readers    *pool         // connections of readDB
	writeToken chan struct{} // holds one token: its sender may write
	queue      queue
	changes    *changes
}

// Open opens the journal at path. It creates the file (0600) and the folder (0700) if they do not exist. A file that
// exists must have been created by Open on this machine, because one that came with a clone or an archive may contain
// grants and running turns: see package statedir. A file that cannot be opened for writing is opened for reading: see
// journal.DB.ReadOnly. Open returns an error that wraps journal.ErrNewer if the file's schema is too new for this
// program.
func Open(ctx context.Context, path string, opts Options) (*journal.DB, error) {
	db, err := openFile(ctx, path, opts)
	if err != nil {
		return nil, err
	}
	return journal.New(db), nil
}

// openFile opens the file for writing or, if it cannot be written, for reading. If it cannot be read either, because it
// does not exist or may not be read, the error is that of opening it for writing.
func openFile(ctx context.Context, path string, opts Options) (*database, error) {
	absolute, err := filepath.Abs(path)
	if err != nil {
		return nil, fmt.Errorf("opening the journal %q: %w", path, err)
	}
	db, err := openAs(ctx, &database{path: absolute}, opts, (*database).openForWriting)
	if err == nil || !isUnwritable(err) {
		return db, err
	}
	db, readErr := openAs(ctx, &database{path: absolute, readOnly: fmt.Errorf("%w: %w", journal.ErrReadOnly, err)}, opts,
		(*database).openForReading)
	if errors.Is(readErr, fs.ErrNotExist) || errors.Is(readErr, fs.ErrPermission) {
		return nil, err
	}
	return db, readErr
}

// openAs applies the options to db and opens it with open: openForWriting or openForReading. If that fails, openAs
// closes the connections that open has opened.
func openAs(ctx context.Context, db *database, opts Options,
	open func(db *database, ctx context.Context, synchronous string) error) (*database, error) {
	db.busy, db.writeToken = opts.BusyTimeout, make(chan struct{}, 1)
	if db.busy <= 0 {
		db.busy = defaultBusyTimeout
	}
	synchronous, err := opts.synchronous()
	if err == nil {
		err = db.Explain(open(db, ctx, synchronous))
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("opening the journal %s: %w", db.path, err), db.Close())
	}
	return db, nil
}

// openForWriting creates the file and its tables if they are missing, and connects to it.
func (db *database) openForWriting(ctx context.Context, synchronous string) (err error) {
	if db.file, err = createFile(db.path); err != nil {
		return err
	}
	if err := db.migrate(ctx); err != nil {
		return err
	}
	return db.connect(ctx, synchronous)
}

// synchronous returns the value for SQLite's PRAGMA synchronous, or an error if the option is not valid.
func (o Options) synchronous() (string, error) {
	switch o.Synchronous {
	case "", "full":
		return "full", nil
	case "normal":
		return "normal", nil
	}
	return "", fmt.Errorf("synchronous is %q: use \"full\" or \"normal\"", o.Synchronous)
}

// createFile creates the file and its folder if they do not exist, checks that they were made here and that this
// process can write the file, and returns its FileInfo. Its errors say more than those that SQLite would return.
func createFile(path string) (os.FileInfo, error) {
	var err error
	if dir := filepath.Dir(path); filepath.Base(dir) == statedir.Name {
		err = statedir.Secure(dir)
	} else {
		err = statedir.SecureFile(path)
	}
	if err != nil {
		return nil, err
	}
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, fmt.Errorf("%w: make the file and its folder writable, or choose another path", err)
	}
	info, err := f.Stat()
	return info, errors.Join(err, f.Close())
}

// checkFile returns an error that wraps journal.ErrReplaced if db.path no longer names the file that was opened: a
// write would be lost with the old file. If it names that file, checkFile returns the error of checkUnchanged.
func (db *database) checkFile() error {
	now, err := os.Stat(db.path)
	if err == nil && os.SameFile(now, db.file) {
		return db.checkUnchanged(now)
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil // it is not known whether the file was replaced, and SQLite still has it open
	}
	return fmt.Errorf("%w: %s", journal.ErrReplaced, db.path)
}

// connect opens the write connection and the connections for reads of a file that has its tables.
func (db *database) connect(ctx context.Context, synchronous string) (err error) {
	write := []string{"foreign_keys(1)", "synchronous(" + synchronous + ")",
		fmt.Sprintf("cache_size(-%d)", writerCache), fmt.Sprintf("wal_autocheckpoint(%d)", walPages),
		fmt.Sprintf("journal_size_limit(%d)", walLimit)}
	if db.writeDB, err = sql.Open("sqlite", db.dsn(write...)); err != nil {
		return err
	}
	if err := db.openWriter(ctx, time.Now().Add(db.busy)); err != nil {
		return err
	}
	return db.connectReaders(ctx)
}

// connectReaders opens the pool of connections for reads, and the connection that polls for changes.
func (db *database) connectReaders(ctx context.Context) (err error) {
	read := db.dsn("query_only(1)", fmt.Sprintf("cache_size(-%d)", readerCache))
	if db.readDB, err = sql.Open("sqlite", read); err != nil {
		return err
	}
	db.readers = newPool(db.readDB, readers)
	db.changes, err = watchChanges(ctx, db)
	return err
}

// dsn returns the data source name of the file, with pragmas such as "query_only(1)" that are set for every connection.
// The path is escaped, because it may contain '?' and '%'.
func (db *database) dsn(pragmas ...string) string {
	query := url.Values{"_pragma": {fmt.Sprintf("busy_timeout(%d)", stepTimeout.Milliseconds())}}
	query["_pragma"] = append(query["_pragma"], pragmas...)
	maps.Copy(query, db.mode)
	u := url.URL{Scheme: "file", Path: filepath.ToSlash(db.path), RawQuery: query.Encode()}
	return u.String()
}

// Renumber implements journal.Database. It does nothing, because SQLite numbers new rows from the highest ID on.
func (db *database) Renumber(journal.Conn, string) error { return nil }

// TempDir implements journal.Database. It is the journal's own folder: the temporary file of an import is as large as
// the data that the import adds there.
func (db *database) TempDir() string { return filepath.Dir(db.path) }

// Close ends all operations that wait on the journal and closes the file. The last process to close it writes the log
// back into the file.
func (d *database) Close() error {
	var errs []error
	if d.changes != nil {
		errs = append(errs, d.changes.close())
	}
	d.writeToken <- struct{}{} // waits for the running transaction; after closed is set, no other one begins
	defer func() { <-d.writeToken }()
	d.closed = true
	if d.writer != nil {
		errs = append(errs, d.writer.close())
		d.writer = nil
	}
	if d.readers != nil {
		errs = append(errs, d.readers.close())
	}
	for _, db := range []*sql.DB{d.readDB, d.writeDB} {
		if db != nil {
			errs = append(errs, db.Close())
		}
	}
	return errors.Join(errs...)
}
