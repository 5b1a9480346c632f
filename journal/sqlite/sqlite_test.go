package sqlite_test

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/everturn/everturn/journal"
	"github.com/everturn/everturn/journal/journaltest"
	"github.com/everturn/everturn/journal/sqlite"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func open(t *testing.T, path string, opts sqlite.Options) *sqlite.Store {
	t.Helper()
	s, err := sqlite.Open(t.Context(), path, opts)
	require.NoError(t, err)
	t.Cleanup(func() { assert.NoError(t, s.Close()) })
	return s
}

func TestConformance(t *testing.T) {
	for _, synchronous := range []string{"full", "normal"} {
		t.Run(synchronous, func(t *testing.T) {
			journaltest.Run(t, func(t *testing.T) journal.Store {
				return open(t, filepath.Join(t.TempDir(), "journal.db"), sqlite.Options{Synchronous: synchronous})
			})
		})
	}
}

func TestConformanceOfTwoOpens(t *testing.T) {
	journaltest.RunPair(t, func(t *testing.T) (a, b journal.Store) {
		path := filepath.Join(t.TempDir(), "journal.db")
		return open(t, path, sqlite.Options{}), open(t, path, sqlite.Options{})
	})
}

// TestKeptExportIsImported: what version 1 has exported is imported by every later version, byte for byte.
func TestKeptExportIsImported(t *testing.T) {
	kept, err := os.ReadFile("../testdata/session-v1.jsonl")
	require.NoError(t, err)
	s := open(t, filepath.Join(t.TempDir(), "journal.db"), sqlite.Options{})
	_, err = s.Import(t.Context(), bytes.NewReader(kept))
	require.NoError(t, err)
	var out bytes.Buffer
	require.NoError(t, s.Export(t.Context(), "s", &out))
	assert.Equal(t, string(kept), out.String())
}
