package sqlite_test

import (
	"context"
	"fmt"
	"path/filepath"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/everturn/everturn/journal"
	"github.com/everturn/everturn/journal/sqlite"
	"github.com/everturn/everturn/workflows/turn"
)

// BenchmarkLongSession measures, in microseconds, the queries of users and turns in a session of 10 turns and in one of
// 10,000, in a journal with as many other sessions that wait for a decision. The figures should be similar.
func BenchmarkLongSession(b *testing.B) {
	for _, turns := range []int{10, 10_000} {
		b.Run(strconv.Itoa(turns), func(b *testing.B) {
			store, err := sqlite.Open(context.Background(), filepath.Join(b.TempDir(), "j.db"),
				sqlite.Options{Synchronous: "normal"})
			require.NoError(b, err)
			defer store.Close()
			l := &long{B: b, DB: store, watch: &stopwatch{b: b, spent: map[string]time.Duration{}, count: map[string]int{}}}
			l.build(turns)
			for i := 0; b.Loop(); i++ {
				l.measure(i)
			}
			for name, spent := range l.watch.spent {
				b.ReportMetric(float64(spent.Microseconds())/float64(l.watch.count[name]), name+"_µs")
			}
		})
	}
}

type long struct {
	*testing.B
	*journal.DB
	watch *stopwatch
	turns int
	at    time.Time
}

func (l *long) build(turns int) {
	l.at = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	for i := range turns {
		l.oneTurn()
		session := fmt.Sprintf("w%d", i)
		l.begin(session, session)
		_, err := l.Ask(context.Background(), turn.AskInput{Session: session, Turn: session,
			Requests: []turn.Request{{ID: "q1", Kind: turn.RequestQuestion}}})
		require.NoError(l, err)
	}
}

func (l *long) begin(session, id string) turn.Head {
	out, err := l.Begin(context.Background(),
		turn.BeginInput{Session: session, Turn: id, Message: turn.UserMessage{ID: "m-" + id, Text: "go on"}, At: l.at})
	require.NoError(l, err)
	return out.Head
}

// oneTurn adds a question with its answer.
func (l *long) oneTurn() string {
	ctx := context.Background()
	l.at = l.at.Add(time.Minute)
	id := fmt.Sprintf("t%d", l.turns)
	l.turns++
	head := l.begin("s", id)
	key := journal.StepKey{Turn: id, Step: 1}
	_, err := l.StartInference(ctx, journal.StartInference{Session: "s", Key: key, Expect: head, At: l.at})
	require.NoError(l, err)
	_, err = l.SettleInference(ctx, journal.SettleInference{Session: "s", Key: key, Attempt: 1,
		Message: turn.Message{Text: "done"}, Answer: turn.Completion{Text: "done"}, At: l.at})
	require.NoError(l, err)
	_, err = l.Finish(ctx, turn.FinishInput{Session: "s", Turn: id,
		Result: turn.Result{State: turn.StateCompleted, Reason: turn.FinishAnswered}, At: l.at})
	require.NoError(l, err)
	return id
}

func (l *long) measure(i int) {
	ctx := context.Background()
	var last string
	l.watch.time("whole_turn", func() error { last = l.oneTurn(); return nil })
	l.watch.time("session", func() error { _, err := l.Session(ctx, "s"); return err })
	l.watch.time("sessions_20", func() error { _, err := l.Sessions(ctx, 20); return err })
	l.watch.time("delivered_first", func() error { _, err := l.Delivered(ctx, "s", "m-t0"); return err })
	l.watch.time("window_50", func() error {
		_,
			err := l.Messages(ctx, "s", int64(2*l.turns-50), int64(2*l.turns))
		return err
	})
	l.watch.time("turns_after", func() error { _, err := l.TurnsAfter(ctx, "s", last, 1); return err })
	l.watch.time("waiting_20", func() error { _, err := l.PendingRequests(ctx, "", 20); return err })
	l.watch.time("waiting_of_session", func() error { _, err := l.PendingRequests(ctx, "s", 20); return err })
	l.watch.time("follow_session_last", func() error {
		for c, err := range journal.FollowSession(ctx, l.DB, "s", journal.SessionCursor{}) {
			if err != nil || c.Kind == turn.ChunkTurnCompleted {
				return err
			}
		}
		return nil
	})
	fork := fmt.Sprintf("f%d", i)
	l.watch.time("fork_at_1", func() error {
		_, err := l.Fork(ctx, journal.ForkInput{Session: "s", At: 1, ID: fork, Time: l.at})
		return err
	})
	l.watch.time("prune_1", func() error { _, err := l.PruneChunks(ctx, l.at, 1); return err })
}
