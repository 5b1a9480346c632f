package engine

import (
	"context"
	"errors"
	"log/slog"
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

// sinkFixture is a sink of a journal with one turn, which asks its user a question.
type sinkFixture struct {
	*sink
	t       *testing.T
	journal *journal.DB

	mu      sync.Mutex
	kinds   []turn.EventKind
	tenants []string
}

func newSinkFixture(t *testing.T) *sinkFixture {
	j, err := sqlite.Open(t.Context(), filepath.Join(t.TempDir(), "journal.db"), sqlite.Options{})
	require.NoError(t, err)
	t.Cleanup(func() { assert.NoError(t, j.Close()) })
	f := &sinkFixture{t: t, journal: j}
	f.sink = newSink(f.keep, j, nil, slog.New(slog.DiscardHandler))
	t.Cleanup(f.close)
	_, err = j.Begin(t.Context(), turn.BeginInput{Session: "s", Turn: "t", WorkflowID: "s", RunID: "t",
		Message: turn.UserMessage{ID: "m", Text: "which one?"}, At: time.Now()})
	require.NoError(t, err)
	return f
}

func (f *sinkFixture) keep(_ context.Context, e Event) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if e.TraceID != turn.TraceID(e.Turn) {
		return errors.New("the event has another trace")
	}
	if len(f.kinds) == 0 && e.Session != "s" {
		return errors.New("the event has no session")
	}
	f.kinds, f.tenants = append(f.kinds, e.Kind), append(f.tenants, e.Tenant)
	return nil
}

func (f *sinkFixture) gets(want ...turn.EventKind) {
	f.t.Helper()
	require.EventuallyWithT(f.t, func(c *assert.CollectT) {
		f.mu.Lock()
		defer f.mu.Unlock()
		assert.Equal(c, want, f.kinds)
	}, 30*time.Second, 5*time.Millisecond)
}

// left waits until the turn is not followed any more.
func (f *sinkFixture) left() {
	f.t.Helper()
	require.Eventually(f.t, func() bool {
		f.sink.mu.Lock()
		defer f.sink.mu.Unlock()
		return len(f.following) == 0
	}, 30*time.Second, 5*time.Millisecond)
}

// TestASinkDoesNotFollowATurnThatWaits checks that a turn that waits occupies no goroutine, and that its events go on
// where they stopped.
func TestASinkDoesNotFollowATurnThatWaits(t *testing.T) {
	f := newSinkFixture(t)
	f.follow("t", false)
	f.left() // another worker's turn
	f.follow("t", true)
	_, err := f.journal.Ask(t.Context(), "s", "t", []turn.Request{{ID: "q1", Kind: turn.RequestQuestion, Step: 1, Question: "which one?"}}, time.Now())
	require.NoError(t, err)
	f.gets(turn.EventTurnStarted, turn.EventPhase, turn.EventQuestionAsked)
	f.left()
	require.NoError(t, f.journal.Decide(t.Context(), "s", "t", []turn.Decision{{ID: "q1", Status: turn.StatusAnswered}}, time.Now()))
	f.follow("t", false)
	f.gets(turn.EventTurnStarted, turn.EventPhase, turn.EventQuestionAsked, turn.EventQuestionAnswered)
	_, err = f.journal.Finish(t.Context(), turn.FinishInput{Session: "s", Turn: "t", At: time.Now(),
		Result: turn.Result{State: turn.StateCompleted, Reason: turn.FinishAnswered}})
	require.NoError(t, err)
	f.follow("t", true)
	f.left()
	f.follow("t", true) // Finish may run twice
	f.close()
	f.gets(turn.EventTurnStarted, turn.EventPhase, turn.EventQuestionAsked, turn.EventQuestionAnswered,
		turn.EventPhase, turn.EventTurnCompleted)
}

// TestASinkGetsTheTurnsOfEveryTenant checks that a tenant's turn arrives, and leaves no goroutine.
func TestASinkGetsTheTurnsOfEveryTenant(t *testing.T) {
	f := newSinkFixture(t)
	_, err := f.journal.Begin(t.Context(), turn.BeginInput{Tenant: "acme", Session: "s", Turn: "t2", WorkflowID: "acme/s",
		RunID: "t2", Message: turn.UserMessage{ID: "m", Text: "which one?"}, At: time.Now()})
	require.NoError(t, err)
	f.follow("t2", true)
	f.gets(turn.EventTurnStarted, turn.EventPhase)
	_, err = f.journal.Finish(t.Context(), turn.FinishInput{Session: "s", Turn: "t2", At: time.Now(),
		Result: turn.Result{State: turn.StateCompleted, Reason: turn.FinishAnswered}})
	require.NoError(t, err)
	f.gets(turn.EventTurnStarted, turn.EventPhase, turn.EventPhase, turn.EventTurnCompleted)
	f.left()
	f.close()
	assert.Equal(t, []string{"acme", "acme", "acme", "acme"}, f.tenants)
}
