package follow_test

import (
	"context"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/everturn/everturn/journal"
	"github.com/everturn/everturn/journal/follow"
	"github.com/everturn/everturn/journal/sqlite"
	"github.com/everturn/everturn/workflows/turn"
)

func openJournal(t *testing.T) *journal.DB {
	t.Helper()
	db, err := sqlite.Open(t.Context(), filepath.Join(t.TempDir(), "journal.db"), sqlite.Options{Synchronous: "normal"})
	require.NoError(t, err)
	t.Cleanup(func() { assert.NoError(t, db.Close()) })
	return db
}

func runTurn(t *testing.T, db *journal.DB, session, id string) {
	t.Helper()
	in := turn.BeginInput{Session: session, Turn: id, Message: turn.UserMessage{ID: id, Text: "go"}, At: time.Now()}
	_, err := db.Begin(t.Context(), in)
	require.NoError(t, err)
	done := turn.FinishInput{Session: session, Turn: id, Result: turn.Result{State: turn.StateCompleted},
		At: time.Now()}
	_, err = db.Finish(t.Context(), done)
	require.NoError(t, err)
}

// watched records the contexts of the followers that its journal has to remember.
type watched struct {
	*journal.DB
	followers []context.Context
}

func (w *watched) Changed(ctx context.Context, topics ...journal.Topic) <-chan struct{} {
	w.followers = append(w.followers, ctx)
	return w.DB.Changed(ctx, topics...)
}

func TestFollowLeavesNoFollowers(t *testing.T) {
	s := &watched{DB: openJournal(t)}
	for _, id := range []string{"t1", "t2"} {
		runTurn(t, s.DB, "s", id)
		for _, err := range follow.Turn(t.Context(), s, id, -1) {
			require.NoError(t, err)
		}
	}
	for e, err := range follow.Session(t.Context(), s, "s", follow.Cursor{}) {
		require.NoError(t, err)
		if e.Kind == turn.EventTurnCompleted {
			break
		}
	}
	require.NotEmpty(t, s.followers)
	for _, ctx := range s.followers {
		assert.Error(t, ctx.Err(), "the journal still watches for it")
	}
}

// slow has a turn that begins between two reads.
type slow struct {
	*journal.DB
	begin func()
}

func (s *slow) Turn(ctx context.Context, id string) (journal.TurnRecord, error) {
	if s.begin != nil {
		s.begin()
		s.begin = nil
	}
	return s.DB.Turn(ctx, id)
}

func TestFollowSessionTakesATurnThatBeginsMeanwhile(t *testing.T) {
	db := openJournal(t)
	runTurn(t, db, "s", "t1")
	s := &slow{DB: db, begin: func() { runTurn(t, db, "s", "t2") }}
	for e, err := range follow.Session(t.Context(), s, "s", follow.Cursor{Turn: "t2", Index: -1}) {
		require.NoError(t, err)
		assert.Equal(t, "t2", e.Turn)
		if e.Kind == turn.EventTurnCompleted {
			break
		}
	}
}
