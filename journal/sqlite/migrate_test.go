package sqlite_test

import (
	"bytes"
	"compress/gzip"
	"io"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/everturn/everturn/journal"
	"github.com/everturn/everturn/journal/sqlite"
	"github.com/everturn/everturn/workflows/turn"
)

// keptJournal is a journal that a program of schema 1 has left, with the session of ../testdata/session-v1.jsonl in it.
func keptJournal(t *testing.T) (path string) {
	t.Helper()
	f, err := os.Open("testdata/journal-v1.db.gz")
	require.NoError(t, err)
	defer f.Close()
	r, err := gzip.NewReader(f)
	require.NoError(t, err)
	b, err := io.ReadAll(r)
	require.NoError(t, err)
	path = filepath.Join(t.TempDir(), "journal.db")
	require.NoError(t, os.WriteFile(path, b, 0o600))
	return path
}

// TestKeptJournalIsMigrated: what programs before have written is all there, and takes what they did not know.
func TestKeptJournalIsMigrated(t *testing.T) {
	path := keptJournal(t)
	s := open(t, path, sqlite.Options{})
	kept, err := os.ReadFile("../testdata/session-v1.jsonl")
	require.NoError(t, err)
	var out bytes.Buffer
	require.NoError(t, s.Export(t.Context(), "s", &out))
	assert.Equal(t, string(kept), out.String())

	turns, err := s.Turns(t.Context(), "s")
	require.NoError(t, err)
	running := turns[len(turns)-1]
	ask := journal.AskInput{Session: "s", Turn: running.ID, Waits: []turn.Wait{{ID: "q1", Kind: turn.WaitQuestion, Step: 1, Question: "well?"}}}
	_, err = s.Ask(t.Context(), ask)
	require.NoError(t, err)
	_, err = s.Fork(t.Context(), journal.ForkInput{Session: "s", At: 1, ID: "f", Time: time.Unix(1, 0)})
	require.NoError(t, err)
	n, err := s.PruneChunks(t.Context(), time.Now().Add(24*365*100*time.Hour), 100)
	require.NoError(t, err)
	assert.Equal(t, len(turns)-1, n)

	var version int
	require.NoError(t, raw(t, path).QueryRow(`PRAGMA user_version`).Scan(&version))
	assert.Equal(t, 3, version)
}

// TestJournalIsMigratedOnce: processes that start at once on an old file get one another's work.
func TestJournalIsMigratedOnce(t *testing.T) {
	path := keptJournal(t)
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			s, err := sqlite.Open(t.Context(), path, sqlite.Options{})
			if assert.NoError(t, err) {
				_, err = s.Session(t.Context(), "s")
				assert.NoError(t, err)
				assert.NoError(t, s.Close())
			}
		})
	}
	wg.Wait()
}
