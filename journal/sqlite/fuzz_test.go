package sqlite_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/everturn/everturn/journal"
	"github.com/everturn/everturn/journal/sqlite"
)

// FuzzImport checks that an import is either refused and leaves nothing, or can be read, exported and imported again.
// It tries inputs both as they are and with correct sums, because the sums alone reveal nearly every change;
// journal.FuzzReadExport tests the checks themselves, and faster. Run it with -fuzzminimizetime 1x: SQLite's own
// branches count as coverage, and minimizing for them does not end.
func FuzzImport(f *testing.F) {
	kept, err := os.ReadFile("../testdata/session.jsonl")
	require.NoError(f, err)
	f.Add(kept)
	for _, change := range []string{`"index":3,`, `"seq":2,`, `"attempt":1`, `"state":"completed"`, `"late_result":{`,
		`"at":"2`} {
		f.Add(bytes.Replace(kept, []byte(change), []byte(strings.Replace(change, ":", ":9", 1)), 1))
	}
	for half := kept; len(half) > 300; half = half[:len(half)*3/4] {
		f.Add(half)
	}
	for _, name := range []string{"requests.jsonl", "fork.jsonl", "tools.jsonl"} {
		later, err := os.ReadFile("../testdata/" + name)
		require.NoError(f, err)
		f.Add(later)
		for _, change := range []string{`"step":1`, `"status":"denied"`, `"fork_seq":5`, `"seq":5,`, `"turn":"t1"`,
			`"index":10`, `"grant":{`,
			`"taint_source":{`, `"suspended":1`, `"bytes":12`, `"notify_model":true`, `"media":[`, `"elicitation":{`,
			`"schema":{`, `"response":{`, `"status":"answered"`} {
			f.Add(bytes.Replace(later, []byte(change), []byte(strings.Replace(change, ":", ":9", 1)), 1))
		}
	}
	f.Add([]byte("{\"header\":{\"format\":\"everturn-session\",\"version\":2}}\n"))
	f.Add([]byte("{\"end\":{\"lines\":0},\"sum\":\"\"}\n"))
	dir, opened := f.TempDir(), 0
	var db *journal.DB
	f.Cleanup(func() {
		if db != nil {
			_ = db.Close()
		}
	})
	f.Fuzz(func(t *testing.T, b []byte) {
		for _, input := range [][]byte{b, resum(b)} {
			if db == nil {
				var err error
				opened++
				db, err = sqlite.Open(t.Context(), filepath.Join(dir, fmt.Sprintf("%d.db", opened)),
					sqlite.Options{Synchronous: "normal"})
				require.NoError(t, err)
			}
			if importOnce(t, db, input) { // the next input gets an empty journal
				require.NoError(t, db.Close())
				db = nil
			}
		}
	})
}

// resum rewrites the lines that decode, with correct sums and a correct end.
func resum(b []byte) []byte {
	var out bytes.Buffer
	e := journal.NewExportWriter(&out)
	for line := range bytes.Lines(b) {
		var l journal.ExportLine
		if json.Unmarshal(line, &l) == nil && l.End == nil {
			_ = e.Write(l)
		}
	}
	_ = e.Close()
	return out.Bytes()
}

// importOnce imports into an empty journal and reports whether the import was accepted.
func importOnce(t *testing.T, db *journal.DB, input []byte) bool {
	t.Helper()
	imported, err := db.Import(t.Context(), bytes.NewReader(input))
	if err != nil {
		list, err := db.Sessions(t.Context(), 10)
		require.NoError(t, err)
		require.Empty(t, list)
		return false
	}
	require.NotNil(t, imported.TaintSource)
	rec := imported.Session
	rules, err := db.Grants(t.Context(), rec.LastTurn.ID)
	require.NoError(t, err)
	require.Empty(t, rules, "no permission is imported")
	open, err := db.PendingRequests(t.Context(), rec.ID, 10)
	require.NoError(t, err)
	require.Empty(t, open, "nothing waits for one")
	messages, err := db.Messages(t.Context(), rec.ID, 1, rec.Head.Seq)
	require.NoError(t, err)
	require.Len(t, messages, int(rec.Head.Seq))
	var first, second bytes.Buffer
	require.NoError(t, db.Export(t.Context(), rec.ID, &first))
	again, err := db.Import(t.Context(), bytes.NewReader(first.Bytes()))
	require.NoError(t, err)
	require.Equal(t, journal.Imported{Session: rec, Unchanged: true, TaintSource: imported.TaintSource}, again)
	require.NoError(t, db.Export(t.Context(), rec.ID, &second))
	require.Equal(t, first.String(), second.String(), "the same journal is the same export")
	return true
}
