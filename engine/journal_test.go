package engine

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/everturn/everturn/config"
	"github.com/everturn/everturn/journal"
	"github.com/everturn/everturn/journal/sqlite"
)

func TestAWorkerNoticesThatItsJournalIsGone(t *testing.T) {
	path := filepath.Join(t.TempDir(), "journal.db")
	db, err := sqlite.Open(t.Context(), path, sqlite.Options{})
	require.NoError(t, err)
	defer db.Close()
	e := newEngine(config.Default(), nil)
	e.journal = db
	go e.watchJournal(t.Context())
	require.NoError(t, os.Remove(path))
	assert.ErrorIs(t, <-e.fatal, journal.ErrReplaced)
}
