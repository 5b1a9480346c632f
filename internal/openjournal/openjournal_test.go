package openjournal_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/everturn/everturn/config"
	"github.com/everturn/everturn/internal/openjournal"
)

// TestAJournalThatCameWithACloneIsRefused checks that a journal inside a cloned repository is refused, whatever path
// the configuration gives: its grants would count.
func TestAJournalThatCameWithACloneIsRefused(t *testing.T) {
	for _, path := range []string{".everturn/journal.db", ".everturn/journal", ".everturn/state/journal.db",
		".everturn/origin-j.db", ".everturn/.gitignore", "state/journal.db", "journal.db", "link/../journal.db",
		"${PWD}/journal.db", "${PWD}/state/journal.db"} {
		author, clone := t.TempDir(), filepath.Join(t.TempDir(), "clone")
		cfg := config.Default()
		require.NoError(t, os.MkdirAll(filepath.Join(author, "a", "b"), 0o700))
		require.NoError(t, os.Symlink("a/b", filepath.Join(author, "link")))
		t.Chdir(author)
		cfg.Journal.Path = os.ExpandEnv(path)
		for range 2 {
			j, err := openjournal.Open(t.Context(), cfg)
			require.NoError(t, err, path)
			require.NoError(t, j.Close())
		}
		require.NoError(t, os.CopyFS(clone, os.DirFS(author)))
		t.Chdir(clone)
		cfg.Journal.Path = os.ExpandEnv(path)
		_, err := openjournal.Open(t.Context(), cfg)
		assert.ErrorContains(t, err, "was not made here", path)
	}
}
