package statedir_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/everturn/everturn/internal/statedir"
)

func mode(t *testing.T, path string) os.FileMode {
	t.Helper()
	info, err := os.Stat(path)
	require.NoError(t, err)
	return info.Mode().Perm()
}

func TestTheFolderIsForItsUserAlone(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "new", statedir.Name)
	require.NoError(t, statedir.Secure(dir))
	assert.EqualValues(t, 0o700, mode(t, dir))

	for name, was := range map[string]os.FileMode{"temporal.db": 0o644, "tool": 0o755, "journal.db": 0o600} {
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), nil, 0o600))
		require.NoError(t, os.Chmod(filepath.Join(dir, name), was))
	}
	require.NoError(t, os.Mkdir(filepath.Join(dir, "folder"), 0o700))
	require.NoError(t, os.Chmod(filepath.Join(dir, "folder"), 0o755))
	require.NoError(t, os.Chmod(dir, 0o755))
	require.NoError(t, statedir.Secure(dir))
	for name, want := range map[string]os.FileMode{
		"": 0o700, "temporal.db": 0o600, "tool": 0o700, "journal.db": 0o600, "folder": 0o700,
	} {
		assert.Equal(t, want, mode(t, filepath.Join(dir, name)), name)
	}
}

func TestLinksAndOtherUsersFoldersAreRefused(t *testing.T) {
	at, elsewhere := t.TempDir(), t.TempDir()
	dir := filepath.Join(at, statedir.Name)
	for _, target := range []string{elsewhere, filepath.Join(elsewhere, "missing")} {
		require.NoError(t, os.Symlink(target, dir))
		assert.ErrorContains(t, statedir.Secure(dir), "does not write through links")
		require.NoError(t, os.Remove(dir))
	}
	require.NoError(t, os.WriteFile(dir, nil, 0o600))
	assert.ErrorContains(t, statedir.Secure(dir), "not a folder")
	require.NoError(t, os.Remove(dir))
	require.NoError(t, os.Mkdir(dir, 0o700))
	entry := filepath.Join(dir, "journal.db-wal")
	for _, plant := range []func() error{
		func() error { return os.Symlink(filepath.Join(elsewhere, "target"), entry) },
		func() error { return os.Symlink(elsewhere, entry) },
		func() error { return syscall.Mkfifo(entry, 0o600) },
	} {
		require.NoError(t, plant())
		assert.ErrorContains(t, statedir.Secure(dir), entry)
		require.NoError(t, os.Remove(entry))
	}
	require.NoError(t, statedir.Secure(dir))
	if os.Geteuid() != 0 {
		t.Skip("only root can give a folder away")
	}
	require.NoError(t, os.Chown(dir, 65534, 65534))
	assert.ErrorContains(t, statedir.Secure(dir), "belongs to user 65534 and this is user 0")
}

// TestAFolderThatWasMadeElsewhereIsRefused checks that a state folder that came with a cloned repository is refused: it
// may hold grants and running turns.
func TestAFolderThatWasMadeElsewhereIsRefused(t *testing.T) {
	at := t.TempDir()
	dir, moved, clone := filepath.Join(at, statedir.Name), filepath.Join(at, "moved"), filepath.Join(at, "clone")
	require.NoError(t, statedir.Secure(dir))
	require.NoError(t, os.WriteFile(filepath.Join(dir, "journal.db"), []byte("x"), 0o600))
	require.NoError(t, statedir.Secure(dir))
	require.NoError(t, os.Rename(dir, moved))
	assert.NoError(t, statedir.Secure(moved))

	require.NoError(t, os.CopyFS(clone, os.DirFS(moved)))
	err := statedir.Secure(clone)
	require.ErrorContains(t, err, "was not made here")
	require.NoError(t, os.Remove(filepath.Join(clone, "origin")))
	require.ErrorContains(t, statedir.Secure(clone), "was not made here")
	_, command, _ := strings.Cut(err.Error(), "trust it with: ")
	require.NoError(t, exec.CommandContext(t.Context(), "sh", "-c", command).Run())
	assert.NoError(t, statedir.Secure(clone))
}

// TestAnythingInAFolderThatWasMadeElsewhereCounts checks that any file in such a folder counts, because the
// configuration chooses the names of journals.
func TestAnythingInAFolderThatWasMadeElsewhereCounts(t *testing.T) {
	for _, name := range []string{"journal.sqlite", "journal", "state/journal.db", "bin/temporal"} {
		dir := filepath.Join(t.TempDir(), statedir.Name)
		require.NoError(t, os.MkdirAll(filepath.Dir(filepath.Join(dir, name)), 0o700))
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), []byte("x"), 0o600))
		assert.ErrorContains(t, statedir.Secure(dir), "was not made here", name)
	}
}

func TestAFileThatWasMadeElsewhereIsRefused(t *testing.T) {
	at := t.TempDir()
	file, clone := filepath.Join(at, "state", "journal.db"), filepath.Join(at, "clone")
	require.NoError(t, statedir.SecureFile(file))
	require.NoError(t, statedir.SecureFile(file))
	require.NoError(t, os.WriteFile(file, []byte("SQLite format 3\x00"), 0o600))
	require.NoError(t, statedir.SecureFile(file))
	assert.EqualValues(t, 0o600, mode(t, file))

	require.NoError(t, os.CopyFS(clone, os.DirFS(filepath.Join(at, "state"))))
	assert.ErrorContains(t, statedir.SecureFile(filepath.Join(clone, "journal.db")), "was not made here")
}

// TestNamesOfOriginsHideNoState checks that a journal counts if it has the name of a file that Secure
// otherwise ignores.
func TestNamesOfOriginsHideNoState(t *testing.T) {
	for _, name := range []string{"origin-j.db", "origin.d/j.db", ".gitignore", "origin"} {
		dir := filepath.Join(t.TempDir(), statedir.Name)
		require.NoError(t, os.MkdirAll(filepath.Dir(filepath.Join(dir, name)), 0o700))
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), make([]byte, 512), 0o600))
		assert.ErrorContains(t, statedir.Secure(dir), "was not made here", name)
		assert.False(t, statedir.Made(dir))
	}
}

// TestFilesBesideAForeignDatabaseAreRefused checks the files that SQLite reads together with a database: a log holds
// grants even if the database itself holds none.
func TestFilesBesideAForeignDatabaseAreRefused(t *testing.T) {
	for _, database := range []string{"", "x", strings.Repeat("x", 4096)} {
		for _, suffix := range []string{"-wal", "-shm", "-journal"} {
			file := filepath.Join(t.TempDir(), "data.db")
			require.NoError(t, os.WriteFile(file, []byte(database), 0o600))
			require.NoError(t, os.WriteFile(file+suffix, []byte("x"), 0o600))
			assert.ErrorContains(t, statedir.SecureFile(file), "was not made here", suffix)
		}
	}
	file := filepath.Join(t.TempDir(), "data.db")
	require.NoError(t, statedir.SecureFile(file))
	require.NoError(t, os.WriteFile(file+"-wal", []byte("x"), 0o600))
	assert.NoError(t, statedir.SecureFile(file), "a process that has died leaves its log")
}

func TestLinksBesideADatabaseAreRefused(t *testing.T) {
	for _, suffix := range []string{"", "-wal", "-shm", "-journal", ".lock", ".origin"} {
		at := t.TempDir()
		file, target := filepath.Join(at, "data.db"), filepath.Join(at, "target")
		require.NoError(t, os.Symlink(target, file+suffix))
		assert.ErrorContains(t, statedir.SecureFile(file), "does not write through links", suffix)
		assert.NoFileExists(t, target)
	}
}

func TestTheCommandThatTrustsAFileRunsNothingElse(t *testing.T) {
	t.Chdir(t.TempDir())
	file := "it's $(touch ran);touch ran;.db"
	require.NoError(t, os.WriteFile(file, []byte("SQLite format 3\x00"), 0o600))
	err := statedir.SecureFile(file)
	require.ErrorContains(t, err, "was not made here")
	_, command, _ := strings.Cut(err.Error(), "trust it with: ")
	require.NoError(t, exec.CommandContext(t.Context(), "sh", "-c", command).Run())
	assert.NoFileExists(t, "ran")
	assert.NoError(t, statedir.SecureFile(file))
}

func TestHardLinksAreRefused(t *testing.T) {
	at := t.TempDir()
	dir, mine := filepath.Join(at, statedir.Name), filepath.Join(at, "mine")
	require.NoError(t, statedir.Secure(dir))
	require.NoError(t, os.WriteFile(mine, nil, 0o600))
	require.NoError(t, os.Link(mine, filepath.Join(dir, "temporal.log")))
	assert.ErrorContains(t, statedir.Secure(dir), "hard link")
}
