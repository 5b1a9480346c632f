package sqlite

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/everturn/everturn/journal"
	"github.com/everturn/everturn/workflows/turn"
)

// observed calls before ahead of each writing transaction and after when it is committed, with the transaction's
// number, which starts at 1.
type observed struct {
	*database
	writes int
	before func(n int) error
	after  func(n int) error // nil: none
}

func (o *observed) Write(ctx context.Context, fn func(journal.Conn) error) error {
	o.writes++
	if err := o.before(o.writes); err != nil {
		return err
	}
	err := o.database.Write(ctx, fn)
	if err == nil && o.after != nil {
		err = o.after(o.writes)
	}
	return err
}

func openObserved(t *testing.T) (*observed, *journal.DB) {
	t.Helper()
	s, err := openFile(t.Context(), filepath.Join(t.TempDir(), "journal.db"), Options{Synchronous: "normal"})
	require.NoError(t, err)
	o := &observed{database: s, before: func(int) error { return nil }}
	db := journal.New(o)
	t.Cleanup(func() { assert.NoError(t, db.Close()) })
	return o, db
}

// longExport is a session whose running turn has 1,000 chunks and waits for an answer.
func longExport(t *testing.T) []byte {
	t.Helper()
	_, s := openObserved(t)
	key := journal.StepKey{Turn: "t", Step: 1}
	begun, err := s.Begin(t.Context(), journal.BeginInput{Session: "s", Turn: "t",
		Message: turn.UserMessage{ID: "m", Text: "hello"}, At: time.Now()})
	require.NoError(t, err)
	_, err = s.StartInference(t.Context(), journal.StartInference{Session: "s", Key: key, Expect: begun.Head,
		At: time.Now()})
	require.NoError(t, err)
	var chunks []turn.Chunk
	for i := range 1000 {
		chunks = append(chunks, turn.Chunk{Kind: turn.ChunkTextDelta, Text: fmt.Sprint(i), At: time.Now()})
	}
	require.NoError(t, s.AppendChunks(t.Context(), key, 1, chunks))
	_, err = s.Ask(t.Context(), journal.AskInput{Session: "s", Turn: "t", At: time.Now(),
		Requests: []turn.Request{{ID: "q", Kind: turn.RequestQuestion, Question: "why?"}}})
	require.NoError(t, err)
	var out bytes.Buffer
	require.NoError(t, s.Export(t.Context(), "s", &out))
	return out.Bytes()
}

// count returns how many rows a table has.
func (o *observed) count(t *testing.T, table string) (n int) {
	t.Helper()
	require.NoError(t, o.Read(t.Context(), false, func(c journal.Conn) error {
		return c.QueryRow(`SELECT count(*) FROM ` + table).Scan(&n)
	}))
	return n
}

// TestAnImportIsManyTransactionsAndSeenAtItsEnd checks that other sessions can write during an import of any size, and
// that the import is invisible until it is complete.
func TestAnImportIsManyTransactionsAndSeenAtItsEnd(t *testing.T) {
	b := longExport(t)
	o, s := openObserved(t)
	var seen int
	o.before = func(int) error {
		list, err := s.Sessions(t.Context(), 10)
		waiting, werr := s.PendingRequests(t.Context(), "", 10)
		_, terr := s.Turn(t.Context(), "t")
		_, serr := s.Session(t.Context(), "s")
		if len(list)+len(waiting) > 0 || !errors.Is(terr, journal.ErrNotFound) || !errors.Is(serr, journal.ErrNotFound) {
			seen++
		}
		return errors.Join(err, werr)
	}
	_, err := s.Import(t.Context(), bytes.NewReader(b))
	require.NoError(t, err)
	assert.Zero(t, seen)
	assert.GreaterOrEqual(t, o.writes, 6)
	chunks, err := s.Chunks(t.Context(), "t", -1, 2000)
	require.NoError(t, err)
	assert.Greater(t, len(chunks), 1000)
}

// TestAnUnfinishedImportIsRemoved checks that a failed import leaves nothing, and that a later import removes one whose
// process died.
func TestAnUnfinishedImportIsRemoved(t *testing.T) {
	b := longExport(t)
	o, s := openObserved(t)
	broken := errors.New("broken")
	for _, dies := range []bool{false, true} {
		for fails := 1; fails <= 6; fails++ {
			o.writes, o.before = 0, func(n int) error {
				if n == fails || dies && n > fails {
					return broken
				}
				return nil
			}
			_, err := s.Import(t.Context(), bytes.NewReader(b))
			require.ErrorIs(t, err, broken)
			if !dies {
				assert.Zero(t, o.count(t, "sessions"), fails)
			}
		}
	}
	assert.Equal(t, 5, o.count(t, "sessions"), "the first wrote nothing")
	o.before = func(int) error { return nil }
	_, err := s.Import(t.Context(), bytes.NewReader(b))
	require.NoError(t, err, "what others left is not in the way")
	assert.Equal(t, 6, o.count(t, "sessions"), "they may be under way")

	require.NoError(t, o.Write(t.Context(), func(c journal.Conn) error {
		return c.Exec(`UPDATE sessions SET updated_at = 1 WHERE session_id <> 's'`)
	}))
	_, err = s.Import(t.Context(), bytes.NewReader(b))
	require.NoError(t, err)
	for _, table := range []string{"sessions", "turns", "taint_sources", "inferences", "requests"} {
		assert.Equal(t, 1, o.count(t, table), table)
	}
}

// TestAPublishedImportIsKept loses the reply to the import's last transaction. The session may be in use by then.
func TestAPublishedImportIsKept(t *testing.T) {
	export := longExport(t)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	o, s := openObserved(t)
	o.after = func(int) error {
		if _, err := s.Session(t.Context(), "s"); err != nil {
			return nil
		}
		o.after = nil
		in := journal.BeginInput{Session: "s", Turn: "new", Message: turn.UserMessage{ID: "new"}, At: time.Now()}
		if _, err := s.Begin(t.Context(), in); err != nil {
			return err
		}
		cancel()
		return ctx.Err()
	}
	_, err := s.Import(ctx, bytes.NewReader(export))
	require.ErrorIs(t, err, context.Canceled)
	rec, err := s.Session(t.Context(), "s")
	require.NoError(t, err)
	assert.Equal(t, "new", rec.LastTurn.ID)
	messages, err := s.Messages(t.Context(), "s", 1, 100)
	require.NoError(t, err)
	assert.Len(t, messages, 2)
	again, err := s.Import(t.Context(), bytes.NewReader(export))
	require.NoError(t, err)
	assert.True(t, again.Unchanged)
}
