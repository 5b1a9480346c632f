package main

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/everturn/everturn/journal"
	"github.com/everturn/everturn/journal/sqlite"
)

// database holds the journal of a harness. A schedule breaks it through these methods.
type database interface {
	// section is the configuration's section [journal] without its heading.
	section() string
	open(ctx context.Context) (*journal.DB, error)
	// lock makes every write wait until unlock.
	lock(ctx context.Context) (unlock func() error, err error)
	// fill makes writes of the worker fail as if the disk were full, until free.
	fill(ctx context.Context, worker *process) (free func() error, err error)
	// freeze stops the worker without ending it.
	freeze(ctx context.Context, worker *process) error
	// insert returns the flags of a first worker that dies in the transaction of the nth row that is inserted, and how
	// the schedule waits for its death after ask.
	insert(table string, nth int) (flags []string, act func(ctx context.Context, r *harness) error)
	// dump copies the stored bytes into a folder.
	dump(ctx context.Context, dir string) error
}

func (r *harness) openJournal(ctx context.Context) (err error) {
	if r.database, err = r.newDatabase(ctx); err != nil {
		return err
	}
	if r.journal, err = r.database.open(ctx); err == nil {
		r.onClose(func() { _ = r.journal.Close() }) // everything was read by then
	}
	return err
}

func (r *harness) newDatabase(ctx context.Context) (database, error) {
	if r.programs.postgres == nil {
		return sqliteFile{inDir(r.dir, "journal.db")}, nil
	}
	return newPostgresDatabase(ctx, r)
}

// lockJournal locks the journal, and unlocks it some time after meanwhile.
func (r *harness) lockJournal(ctx context.Context, d time.Duration, meanwhile func() error) error {
	unlock, err := r.database.lock(ctx)
	if err != nil {
		return fmt.Errorf("locking the journal: %w", err)
	}
	return errors.Join(meanwhile(), pause(ctx, d), unlock())
}

// fillDisk fills the journal's disk, and frees it a moment after a write has failed.
func (r *harness) fillDisk(ctx context.Context, meanwhile func() error) error {
	free, err := r.database.fill(ctx, r.first())
	if err != nil {
		return fmt.Errorf("filling the journal's disk: %w", err)
	}
	err = meanwhile()
	full := reach(ctx, "a write that failed", func() bool { return r.first().logged("journal_unavailable") })
	return errors.Join(err, full, pause(ctx, time.Second), free())
}

// sqliteFile is a journal in a file of the harness's folder.
type sqliteFile struct{ path string }

func (f sqliteFile) section() string {
	return fmt.Sprintf("path = %q\nsynchronous = \"normal\"\n", f.path)
}

func (f sqliteFile) open(ctx context.Context) (*journal.DB, error) {
	return sqlite.Open(ctx, f.path, sqlite.Options{Synchronous: "normal"})
}

// lock holds the file's lock, like a database browser that was left inside a transaction.
func (f sqliteFile) lock(ctx context.Context) (unlock func() error, err error) {
	return f.begin(ctx, "BEGIN EXCLUSIVE", 5*time.Second)
}

// begin begins a transaction beside the journal.
func (f sqliteFile) begin(ctx context.Context, statement string, wait time.Duration) (end func() error, err error) {
	db, err := sql.Open("sqlite", fmt.Sprintf("file:%s?_pragma=busy_timeout(%d)", f.path, wait.Milliseconds()))
	if err != nil {
		return nil, err
	}
	db.SetMaxOpenConns(1)
	if _, err := db.ExecContext(ctx, statement); err != nil {
		return nil, errors.Join(err, db.Close())
	}
	return func() error {
		_, err := db.ExecContext(context.WithoutCancel(ctx), "ROLLBACK")
		return errors.Join(err, db.Close())
	}, nil
}

// fill limits the size of the worker's files to that of the journal's log.
func (f sqliteFile) fill(_ context.Context, worker *process) (free func() error, err error) {
	info, err := os.Stat(f.path + "-wal")
	if err != nil {
		return nil, err
	}
	limit := func(n uint64) error {
		var old unix.Rlimit
		if err := unix.Prlimit(worker.pid(), unix.RLIMIT_FSIZE, nil, &old); err != nil {
			return err
		}
		return unix.Prlimit(worker.pid(), unix.RLIMIT_FSIZE, &unix.Rlimit{Cur: min(n, old.Max), Max: old.Max}, nil)
	}
	return func() error { return limit(unix.RLIM_INFINITY) }, limit(uint64(info.Size()))
}

// freeze stops the worker at a moment at which it does not hold the file's lock: a process that is stopped within a
// transaction locks every other process out of a SQLite file, and no program can release the lock.
func (f sqliteFile) freeze(ctx context.Context, worker *process) error {
	return reach(ctx, "a moment without a lock", func() bool {
		worker.signal(unix.SIGSTOP)
		end, err := f.begin(ctx, "BEGIN IMMEDIATE", 100*time.Millisecond)
		if err == nil {
			_ = end() // closing the connection ends the transaction, too
			return true
		}
		worker.signal(unix.SIGCONT)
		return false
	})
}

func (f sqliteFile) insert(table string, nth int) (flags []string, act func(context.Context, *harness) error) {
	return []string{"-kill", fmt.Sprintf("insert:%s:%d", table, nth)}, func(ctx context.Context, r *harness) error {
		return errors.Join(r.ask(ctx), r.died(ctx))
	}
}

// dump copies the database's files and what lies beside them.
func (f sqliteFile) dump(_ context.Context, dir string) error {
	files, err := filepath.Glob(f.path + "*")
	beside, berr := filepath.Glob(f.path + "*/*")
	err = errors.Join(err, berr)
	for _, file := range append(files, beside...) {
		if info, serr := os.Stat(file); serr != nil || info.IsDir() {
			continue // a worker that ends removes its report
		}
		name, rerr := filepath.Rel(filepath.Dir(f.path), file)
		b, berr := os.ReadFile(file)
		name = strings.ReplaceAll(name, string(filepath.Separator), "-")
		err = errors.Join(err, rerr, berr, os.WriteFile(inDir(dir, name), b, 0o600))
	}
	return err
}
