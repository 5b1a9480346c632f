package sqlite_test

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/everturn/everturn/journal/sqlite"
)

// FuzzImport: whatever an import holds, it is either refused and leaves nothing, or what it brought can be read,
// exported and imported again. The checks themselves are fuzzed faster, and with right sums, by journal.FuzzReadExport.
// Run it with -fuzzminimizetime 1x: SQLite's own branches count as coverage, and minimising for them takes for ever.
func FuzzImport(f *testing.F) {
	kept, err := os.ReadFile("../testdata/session-v1.jsonl")
	require.NoError(f, err)
	f.Add(kept)
	f.Add([]byte("{\"header\":{\"format\":\"everturn-session\",\"version\":2}}\n"))
	f.Add([]byte("{\"end\":{\"lines\":0},\"sum\":\"\"}\n"))
	f.Fuzz(func(t *testing.T, b []byte) {
		s, err := sqlite.Open(t.Context(), filepath.Join(t.TempDir(), "journal.db"), sqlite.Options{Synchronous: "normal"})
		require.NoError(t, err)
		defer s.Close()
		importOnce(t, s, b)
	})
}

func importOnce(t *testing.T, s *sqlite.Store, input []byte) {
	t.Helper()
	rec, err := s.Import(t.Context(), bytes.NewReader(input))
	if err != nil {
		list, err := s.Sessions(t.Context(), 10)
		require.NoError(t, err)
		require.Empty(t, list)
		return
	}
	_, err = s.Messages(t.Context(), rec.ID, 1, rec.Head.Seq)
	require.NoError(t, err)
	var out bytes.Buffer
	require.NoError(t, s.Export(t.Context(), rec.ID, &out))
	again, err := s.Import(t.Context(), &out)
	require.NoError(t, err)
	require.Equal(t, rec, again)
}
