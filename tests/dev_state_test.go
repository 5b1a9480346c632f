package tests

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// TestDevKeepsItsStateToItsUser checks that only its user can read what a turn leaves behind, even in a folder that was
// world-readable before.
func TestDevKeepsItsStateToItsUser(t *testing.T) {
	t.Parallel()
	h := newDevUserFolder(t)
	require.NoError(t, os.Mkdir(h.path(".everturn"), 0o700))
	require.NoError(t, os.Chmod(h.path(".everturn"), 0o755))
	dev := h.begin(nil, "dev")
	dev.says("press Ctrl-C to exit")
	h.everturn("run", "Who is in notes.txt?").exits(0)
	files := 0
	err := filepath.WalkDir(h.path(".everturn"), func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		files++
		assert.Zero(t, info.Mode().Perm()&0o077, "%s: %v", path, info.Mode())
		return nil
	})
	require.NoError(t, err)
	assert.Greater(t, files, 5)
}

// TestCommandsDoNotWriteThroughPlantedLinks checks that no command writes through symbolic links in a state folder,
// which a repository can bring along.
func TestCommandsDoNotWriteThroughPlantedLinks(t *testing.T) {
	t.Parallel()
	for _, planted := range []string{
		".everturn", ".everturn/.gitignore", ".everturn/start.lock", ".everturn/stack.lock", ".everturn/temporal.log",
		".everturn/temporal.db",
		".everturn/temporal.version", ".everturn/worker.log", ".everturn/journal.db", ".everturn/journal.db-wal",
	} {
		h := newDevUserFolder(t)
		require.NoError(t, os.MkdirAll(filepath.Dir(h.path(planted)), 0o700))
		target := filepath.Join(t.TempDir(), "target")
		require.NoError(t, os.WriteFile(target, []byte("mine"), 0o600))
		if planted == ".everturn" {
			require.NoError(t, os.Symlink(filepath.Dir(target), h.path(planted)))
		} else {
			require.NoError(t, os.Symlink(target, h.path(planted)))
		}
		commands := []*command{h.everturn("run", "--dev", "hello")}
		if planted == ".everturn" {
			commands = append(commands, h.everturn("import", "notes.txt"), h.worker().wait())
		}
		for _, c := range commands {
			assert.NotZero(t, c.code(), planted)
			assert.Contains(t, c.err.String(), "does not write through links", planted)
		}
		kept, err := os.ReadFile(target)
		require.NoError(t, err)
		assert.Equal(t, "mine", string(kept), planted)
		entries, err := os.ReadDir(filepath.Dir(target))
		require.NoError(t, err)
		assert.Len(t, entries, 1, planted)
	}
}

// TestDevsServerHasNoKeys checks the environment of the development server: any process of the same user, such as an
// MCP server, can read it.
func TestDevsServerHasNoKeys(t *testing.T) {
	t.Parallel()
	h := newDevUserFolder(t)
	h.environ = append(h.environ, "OPENAI_API_KEY=sk-canary-0123456789", "EVERTURN_LLM_PROVIDER=demo", "SOME_TOKEN=canary")
	dev := h.begin(nil, "dev")
	dev.says("press Ctrl-C to exit")
	supervisor, server := h.up()
	for _, pid := range []int{supervisor, server} {
		environ, err := os.ReadFile(fmt.Sprintf("/proc/%d/environ", pid))
		require.NoError(t, err)
		assert.Contains(t, string(environ), "PATH=")
		assert.NotContains(t, string(environ), "canary")
	}
}
