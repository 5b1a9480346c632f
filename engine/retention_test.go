package engine

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/everturn/everturn/config"
	"github.com/everturn/everturn/journal/sqlite"
	"github.com/everturn/everturn/workflows/turn"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// troubled is a journal whose removals fail a given number of times. It signals each attempt.
type troubled struct {
	Journal
	failures int
	tried    chan int
}

func (t *troubled) PruneEvents(ctx context.Context, before time.Time, limit int) (int, error) {
	n, err := 0, errors.New("the disk is full")
	if t.failures--; t.failures < 0 {
		n, err = t.Journal.PruneEvents(ctx, before, limit)
	}
	select {
	case t.tried <- n:
	case <-ctx.Done():
	}
	return n, err
}

// finished writes a turn to the journal that ended the given time ago.
func finished(t *testing.T, s Journal, id string, ago time.Duration) {
	t.Helper()
	at := time.Now().Add(-ago)
	_, err := s.Begin(t.Context(), turn.BeginInput{
		Session: "s-" + id, Turn: id, WorkflowID: "s-" + id, RunID: id, Message: turn.UserMessage{Text: "hello"},
		Config: json.RawMessage(`{}`), At: at,
	})
	require.NoError(t, err)
	_, err = s.Finish(t.Context(), turn.FinishInput{Session: "s-" + id, Turn: id,
		Result: turn.Result{State: turn.StateCompleted, Reason: turn.FinishAnswered, Answer: "hi"}, At: at})
	require.NoError(t, err)
}

func kinds(t *testing.T, s Journal, id string) (kinds []turn.EventKind) {
	t.Helper()
	events, err := s.Events(t.Context(), id, -1, 100)
	require.NoError(t, err)
	for _, e := range events {
		kinds = append(kinds, e.Kind)
	}
	return kinds
}

func TestAWorkerRemovesOldStreamsNowAndEveryHour(t *testing.T) {
	j, err := sqlite.Open(t.Context(), filepath.Join(t.TempDir(), "journal.db"), sqlite.Options{})
	require.NoError(t, err)
	defer func() { assert.NoError(t, j.Close()) }()
	for i := range pruneBatch + 3 {
		finished(t, j, fmt.Sprintf("old-%d", i), 25*time.Hour)
	}
	finished(t, j, "young", 23*time.Hour)

	journal := &troubled{Journal: j, failures: 1, tried: make(chan int)}
	cfg := config.Default()
	cfg.Journal.EventRetention = 24 * time.Hour
	var logged bytes.Buffer
	e := &Engine{cfg: cfg, journal: journal, log: slog.New(slog.NewTextHandler(&logged, nil))}
	ctx, stop := context.WithCancel(t.Context())
	var running sync.WaitGroup
	running.Go(func() { e.prune(ctx, time.Millisecond) })

	assert.Equal(t, []int{0, pruneBatch, 3, 0}, []int{<-journal.tried, <-journal.tried, <-journal.tried, <-journal.tried},
		"a failure is tried again, in small steps")
	stop()
	running.Wait()
	assert.Equal(t, []turn.EventKind{turn.EventTurnCompleted}, kinds(t, j, "old-0"))
	assert.Equal(t, []turn.EventKind{turn.EventTurnStarted, turn.EventPhase, turn.EventPhase,
		turn.EventTurnCompleted}, kinds(t, j, "young"))
	assert.Contains(t, logged.String(), "the disk is full")
	assert.Contains(t, logged.String(), fmt.Sprintf("turns=%d", pruneBatch+3))
	output, err := j.Messages(t.Context(), "s-old-0", 1, 9)
	require.NoError(t, err)
	assert.Equal(t, "hello", output[0].Text, "what was said stays")
}

func TestARetentionOfNothingKeepsAll(t *testing.T) {
	cfg := config.Default()
	cfg.Journal.EventRetention = 0
	e := &Engine{cfg: cfg, journal: &troubled{}} // a removal would panic
	e.prune(t.Context(), time.Millisecond)
}
