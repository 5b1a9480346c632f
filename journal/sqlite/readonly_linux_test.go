package sqlite_test

import (
	"os"
	"path/filepath"
	"runtime"
	"syscall"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/everturn/everturn/journal/sqlite"
)

// TestOpenNamesAFileThatCannotBeWritten accesses the file as a user without permissions, even if the tests run as root:
// on Linux, file system IDs belong to a thread.
func TestOpenNamesAFileThatCannotBeWritten(t *testing.T) {
	dir := t.TempDir()
	for d := dir; d != os.TempDir() && d != "/"; d = filepath.Dir(d) {
		require.NoError(t, os.Chmod(d, 0o755))
	}
	path := filepath.Join(dir, "journal.db")
	require.NoError(t, open(t, path, sqlite.Options{}).Close())
	require.NoError(t, os.Chmod(path, 0o444))
	require.NoError(t, os.Chmod(dir, 0o555))
	errs := make(chan error, 2)
	go func() {
		runtime.LockOSThread() // never unlocked: the thread, with its ID, ends with the goroutine
		if os.Geteuid() == 0 {
			_ = syscall.Setfsuid(65534)
		}
		for _, p := range []string{path, filepath.Join(dir, "new.db")} {
			_, err := sqlite.Open(t.Context(), p, sqlite.Options{})
			errs <- err
		}
	}()
	for range 2 {
		err := <-errs
		require.ErrorIs(t, err, os.ErrPermission)
		assert.ErrorContains(t, err, "make the file and its folder writable")
	}
	require.NoError(t, os.Chmod(dir, 0o755))
}
