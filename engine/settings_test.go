package engine_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/everturn/everturn/config"
	"github.com/everturn/everturn/engine"
)

// TestAJournalThatCameWithACloneIsRefused checks that a journal inside a cloned repository is refused, whatever path
// the configuration gives: its grants would count.
func TestAJournalThatCameWithACloneIsRefused(t *testing.T) {
	for _, path := range []string{".everturn/journal.db", ".everturn/journal", ".everturn/state/journal.db",
		"state/journal.db", "journal.db"} {
		author, clone := t.TempDir(), filepath.Join(t.TempDir(), "clone")
		cfg := config.Default()
		cfg.Journal.Path = path
		t.Chdir(author)
		for range 2 {
			j, err := engine.OpenJournal(t.Context(), cfg)
			require.NoError(t, err, path)
			require.NoError(t, j.Close())
		}
		require.NoError(t, os.CopyFS(clone, os.DirFS(author)))
		t.Chdir(clone)
		_, err := engine.OpenJournal(t.Context(), cfg)
		assert.ErrorContains(t, err, "was not made here", path)
	}
}
