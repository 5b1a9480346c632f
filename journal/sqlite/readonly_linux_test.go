package sqlite_test

import (
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"syscall"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/everturn/everturn/journal"
	"github.com/everturn/everturn/journal/sqlite"
)

// asStranger runs do as a user without permissions, even if the tests run as root: on Linux, file system IDs belong to
// a thread.
func asStranger(do func()) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		runtime.LockOSThread() // never unlocked: the thread, with its ID, ends with the goroutine
		if os.Geteuid() == 0 {
			_ = syscall.Setfsuid(65534)
		}
		do()
	}()
	<-done
}

// readOnlyDir returns a folder that anyone can read, and a function that takes away the permissions to write to it and
// to its files.
func readOnlyDir(t *testing.T) (dir string, protect func()) {
	t.Helper()
	dir = t.TempDir()
	for d := dir; d != os.TempDir() && d != "/"; d = filepath.Dir(d) {
		require.NoError(t, os.Chmod(d, 0o755))
	}
	t.Cleanup(func() { _ = os.Chmod(dir, 0o755) })
	return dir, func() {
		t.Helper()
		entries, err := os.ReadDir(dir)
		require.NoError(t, err)
		for _, e := range entries {
			require.NoError(t, os.Chmod(filepath.Join(dir, e.Name()), 0o444))
		}
		require.NoError(t, os.Chmod(dir, 0o555))
	}
}

func TestOpenNamesAFileThatCannotBeCreated(t *testing.T) {
	dir, protect := readOnlyDir(t)
	protect()
	asStranger(func() {
		_, err := sqlite.Open(t.Context(), filepath.Join(dir, "new.db"), sqlite.Options{})
		assert.ErrorIs(t, err, os.ErrPermission)
		assert.ErrorContains(t, err, "make the file and its folder writable")
	})
}

// TestAJournalThatCannotBeWrittenIsRead reads a journal in a folder that cannot be written: closed, in use by another
// process, and a snapshot that was taken while it was in use.
func TestAJournalThatCannotBeWrittenIsRead(t *testing.T) {
	for name, prepare := range map[string]func(t *testing.T, path string){
		"closed": func(t *testing.T, path string) {
			require.NoError(t, begun(t, path, "t").Close())
		},
		"in use": func(t *testing.T, path string) { begun(t, path, "t") },
		"snapshot": func(t *testing.T, path string) {
			live := filepath.Join(t.TempDir(), "journal.db")
			begun(t, live, "t")
			for _, suffix := range []string{"", "-wal", "-shm"} {
				b, err := os.ReadFile(live + suffix)
				require.NoError(t, err)
				require.NoError(t, os.WriteFile(path+suffix, b, 0o600))
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			dir, protect := readOnlyDir(t)
			path := filepath.Join(dir, "journal.db")
			prepare(t, path)
			protect()
			asStranger(func() { readsOnly(t, path) })
		})
	}
}

// begun opens a journal and begins a turn in it.
func begun(t *testing.T, path, id string) *journal.DB {
	t.Helper()
	db := open(t, path, sqlite.Options{})
	_, err := db.Begin(t.Context(), beginOf("s", id))
	require.NoError(t, err)
	return db
}

func readsOnly(t *testing.T, path string) {
	before, err := os.ReadDir(filepath.Dir(path))
	assert.NoError(t, err)
	db, err := sqlite.Open(t.Context(), path, sqlite.Options{})
	if !assert.NoError(t, err) {
		return
	}
	defer db.Close()
	list, err := db.Sessions(t.Context(), 10)
	assert.NoError(t, err)
	assert.Len(t, list, 1)
	assert.ErrorIs(t, db.ReadOnly(), journal.ErrReadOnly)
	_, err = db.Begin(t.Context(), beginOf("s", "t2"))
	assert.ErrorIs(t, err, journal.ErrReadOnly)
	assert.ErrorIs(t, err, os.ErrPermission, "the cause is named")
	after, err := os.ReadDir(filepath.Dir(path))
	assert.NoError(t, err)
	assert.Len(t, after, len(before), "nothing was created")
}

func TestALogWithoutItsIndexIsNamed(t *testing.T) {
	live, _ := readOnlyDir(t)
	begun(t, filepath.Join(live, "journal.db"), "t")
	dir, protect := readOnlyDir(t)
	path := filepath.Join(dir, "journal.db")
	for _, suffix := range []string{"", "-wal"} {
		b, err := os.ReadFile(filepath.Join(live, "journal.db"+suffix))
		require.NoError(t, err)
		require.NoError(t, os.WriteFile(path+suffix, b, 0o600))
	}
	protect()
	asStranger(func() {
		_, err := sqlite.Open(t.Context(), path, sqlite.Options{})
		assert.ErrorIs(t, err, journal.ErrReadOnly)
		assert.ErrorContains(t, err, "-wal file to a folder that can be written")
	})
}

// TestAReaderEndsWhenAnotherProcessBeginsToWrite checks that a file that was opened as unchanging is not read while it
// changes: a read could mix two states.
func TestAReaderEndsWhenAnotherProcessBeginsToWrite(t *testing.T) {
	dir, protect := readOnlyDir(t)
	path := filepath.Join(dir, "journal.db")
	require.NoError(t, begun(t, path, "t").Close())
	protect()
	asStranger(func() {
		db, err := sqlite.Open(t.Context(), path, sqlite.Options{})
		if !assert.NoError(t, err) {
			return
		}
		defer db.Close()
		written := make(chan error)
		go func() { written <- writeAsOwner(t, dir, path) }()
		assert.NoError(t, <-written)
		_, err = db.Sessions(t.Context(), 10)
		assert.ErrorIs(t, err, journal.ErrUnavailable)
	})
}

func writeAsOwner(t *testing.T, dir, path string) error {
	if err := errors.Join(os.Chmod(dir, 0o755), os.Chmod(path, 0o644)); err != nil {
		return err
	}
	db, err := sqlite.Open(t.Context(), path, sqlite.Options{})
	if err != nil {
		return err
	}
	t.Cleanup(func() { assert.NoError(t, db.Close()) })
	_, err = db.Begin(t.Context(), beginOf("s", "t2"))
	return err
}
