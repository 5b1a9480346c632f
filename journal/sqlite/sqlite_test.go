package sqlite_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/everturn/everturn/codec/codectest"
	"github.com/everturn/everturn/journal"
	"github.com/everturn/everturn/journal/journaltest"
	"github.com/everturn/everturn/journal/sqlite"
)

func TestTheLedgerOfAThousandTurnsEqualsTheBill(t *testing.T) {
	db, err := sqlite.Open(t.Context(), filepath.Join(t.TempDir(), "journal.db"), sqlite.Options{Synchronous: "normal"})
	require.NoError(t, err)
	defer db.Close()
	journaltest.CheckUsage(t, db, 1000)
}

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func open(t *testing.T, path string, opts sqlite.Options) *journal.DB {
	t.Helper()
	db, err := sqlite.Open(t.Context(), path, opts)
	require.NoError(t, err)
	t.Cleanup(func() { assert.NoError(t, db.Close()) })
	return db
}

func TestConformanceOfAnEncryptedJournal(t *testing.T) {
	keys := codectest.Keys(t)
	journaltest.Run(t, func(t *testing.T) *journal.DB {
		return sealed(t, open(t, filepath.Join(t.TempDir(), "journal.db"), sqlite.Options{Synchronous: "normal"}), keys)
	})
	journaltest.RunPair(t, func(t *testing.T) (a, b *journal.DB) {
		path := filepath.Join(t.TempDir(), "journal.db")
		return sealed(t, open(t, path, sqlite.Options{}), keys), sealed(t, open(t, path, sqlite.Options{}), keys)
	})
}

func sealed(t *testing.T, db *journal.DB, keys journal.Keys) *journal.DB {
	t.Helper()
	db, err := db.Sealed(t.Context(), keys)
	require.NoError(t, err)
	return db
}

func TestConformanceOfTwoOpens(t *testing.T) {
	journaltest.RunPair(t, func(t *testing.T) (a, b *journal.DB) {
		path := filepath.Join(t.TempDir(), "journal.db")
		return open(t, path, sqlite.Options{}), open(t, path, sqlite.Options{})
	})
}

// TestKeptExportIsImported checks that every later version imports what any version has exported, with all its records.
// The fork finds its parent session, of which this journal has more events than the journal that exported the fork.
func TestKeptExportIsImported(t *testing.T) {
	db := open(t, filepath.Join(t.TempDir(), "journal.db"), sqlite.Options{})
	for session, name := range map[string]string{"s2": "requests.jsonl", "s": "session.jsonl", "s3": "tools.jsonl"} {
		kept := importKept(t, db, name)
		var out bytes.Buffer
		require.NoError(t, db.Export(t.Context(), session, &out))
		for raw := range bytes.Lines(kept) {
			var l journal.ExportLine
			require.NoError(t, json.Unmarshal(raw, &l))
			sum := fmt.Sprintf(",\"sum\":%q}\n", l.Sum)
			if l.Blob != nil || l.Message != nil || l.Inference != nil || l.LateResult != nil || l.Event != nil {
				assert.Contains(t, out.String(), strings.TrimSuffix(string(raw), sum), name)
			}
		}
	}
	importKept(t, db, "fork.jsonl")
	rec, err := db.Session(t.Context(), "f")
	require.NoError(t, err)
	assert.Equal(t, []any{"s", int64(5), int64(11)}, []any{rec.Parent, rec.ForkSeq, rec.Head.Seq})
}

func importKept(t *testing.T, db *journal.DB, name string) []byte {
	t.Helper()
	kept, err := os.ReadFile("../testdata/" + name)
	require.NoError(t, err)
	_, err = db.Import(t.Context(), bytes.NewReader(kept))
	require.NoError(t, err)
	return kept
}
