package sqlite_test

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/everturn/everturn/journal"
	"github.com/everturn/everturn/journal/sqlite"
	"github.com/everturn/everturn/workflows/turn"
)

// FuzzImport: whatever an import holds, it is either refused and leaves nothing, or what it brought can be read,
// exported and imported again. Each input is tried as it is and with its sums made right, because nearly every change
// is found by the sums alone.
func FuzzImport(f *testing.F) {
	f.Add(sampleExport(f))
	f.Add([]byte("{\"header\":{\"format\":\"everturn-session\",\"version\":2}}\n"))
	f.Add([]byte("{\"end\":{\"lines\":0},\"sum\":\"\"}\n"))
	f.Fuzz(func(t *testing.T, b []byte) {
		path := filepath.Join(t.TempDir(), "journal.db")
		for _, input := range [][]byte{b, resum(b)} {
			s, err := sqlite.Open(t.Context(), path, sqlite.Options{Synchronous: "normal"})
			require.NoError(t, err)
			importOnce(t, s, input)
			require.NoError(t, s.Close())
			require.NoError(t, os.Remove(path))
		}
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

// resum writes the lines that decode again, with right sums and a right end.
func resum(b []byte) []byte {
	var out bytes.Buffer
	e := journal.NewExporter(&out)
	for line := range bytes.Lines(b) {
		var l journal.Line
		if json.Unmarshal(line, &l) == nil && l.End == nil {
			_ = e.Write(l)
		}
	}
	_ = e.Close()
	return out.Bytes()
}

func sampleExport(f *testing.F) []byte {
	f.Helper()
	s, err := sqlite.Open(f.Context(), filepath.Join(f.TempDir(), "journal.db"), sqlite.Options{Synchronous: "normal"})
	require.NoError(f, err)
	defer s.Close()
	begun, err := s.Begin(f.Context(), beginOf("s", "t"))
	require.NoError(f, err)
	key := journal.StepKey{Turn: "t", Step: 1}
	_, err = s.StartInference(f.Context(), journal.StartInference{Session: "s", Key: key, Expect: begun.Head})
	require.NoError(f, err)
	c := turn.ToolCall{ID: "1.0", Tool: "local/x", Arguments: "{}"}
	_, err = s.SettleInference(f.Context(), journal.SettleInference{Session: "s", Key: key, Attempt: 1,
		Message: turn.Message{Text: "look", ToolCalls: []turn.ToolCall{c}}, Answer: turn.Answer{Text: "look", Raw: []byte(`[1]`)}})
	require.NoError(f, err)
	_, err = s.Finish(f.Context(), journal.FinishInput{Session: "s", Turn: "t", State: turn.StateCompleted, Reason: turn.FinishAnswered})
	require.NoError(f, err)
	var out bytes.Buffer
	require.NoError(f, s.Export(f.Context(), "s", &out))
	return out.Bytes()
}
