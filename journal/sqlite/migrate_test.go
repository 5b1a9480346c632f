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

// keptJournal is a journal that a program of an older schema has left. In journal-v1 is the session of
// ../testdata/session-v1.jsonl; in journal-v2 are besides the others of that folder, a session "s3" with a call that was
// cut and one that came late, and the catalogue of a server.
func keptJournal(t *testing.T, name string) (path string) {
	t.Helper()
	f, err := os.Open("testdata/" + name + ".db.gz")
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
	path := keptJournal(t, "journal-v1")
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
	assert.Equal(t, 6, version)
}

// TestJournalIsMigratedOnce: processes that start at once on an old file get one another's work.
func TestJournalIsMigratedOnce(t *testing.T) {
	for _, name := range []string{"journal-v1", "journal-v2"} {
		path := keptJournal(t, name)
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
}

// TestSecondSchemaIsMigrated: what calls had left can be read, what servers had published is accepted as it is, and of
// what came late before nobody is told now.
func TestSecondSchemaIsMigrated(t *testing.T) {
	s := open(t, keptJournal(t, "journal-v2"), sqlite.Options{})
	for session, name := range map[string]string{"s": "session-v1.jsonl", "s2": "session-v2.jsonl"} {
		kept, err := os.ReadFile("../testdata/" + name)
		require.NoError(t, err)
		var out bytes.Buffer
		require.NoError(t, s.Export(t.Context(), session, &out))
		assert.Equal(t, string(kept), out.String())
	}
	calls, err := s.Calls(t.Context(), "w1")
	require.NoError(t, err)
	mediaType, b, err := s.Artifact(t.Context(), "s3", calls[0].FullBlob)
	require.NoError(t, err)
	assert.Equal(t, []any{"text/html", 3400}, []any{mediaType, len(b)})
	_, b, err = s.Artifact(t.Context(), "s3", journal.HashOf([]byte("the late whole")))
	require.NoError(t, err)
	assert.Equal(t, "the late whole", string(b))
	mark, err := s.Tainted(t.Context(), "s3")
	require.NoError(t, err)
	assert.Nil(t, mark)

	begun, err := s.Begin(t.Context(), beginOf("s3", "w2"))
	require.NoError(t, err)
	inf, err := s.StartInference(t.Context(), journal.StartInference{Session: "s3", Key: journal.StepKey{Turn: "w2", Step: 1}, Expect: begun.Head})
	require.NoError(t, err)
	assert.Equal(t, begun.Head, inf.Base)
}

func TestOldCatalogueIsAcceptedAsItIs(t *testing.T) {
	s := open(t, keptJournal(t, "journal-v2"), sqlite.Options{})
	sees := func(tools, held int) turn.Catalogue {
		t.Helper()
		list, err := s.Catalogues(t.Context())
		require.NoError(t, err)
		require.Len(t, list, 1)
		assert.Len(t, list[0].Tools, tools)
		assert.Len(t, list[0].Held, held)
		return list[0]
	}
	c := sees(2, 0)
	require.NoError(t, s.PublishCatalogue(t.Context(), c))
	sees(2, 0)
	c.Tools[1].Hash = "another"
	require.NoError(t, s.PublishCatalogue(t.Context(), c))
	assert.Equal(t, "mcp/mail/send", sees(1, 1).Held[0].Now.ID)
}
