package journaltest

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/everturn/everturn/journal"
	"github.com/everturn/everturn/journal/follow"
	"github.com/everturn/everturn/workflows/turn"
)

var followPromises = []promise{
	{"follow yields events as they come and ends with the turn", func(t *testing.T, open func() *journal.DB) {
		s := open()
		followLive(t, s, s)
	}},
	{"follow waits for a turn that has not begun", followEarly},
	{"follow reads on from any index", followFrom},
	{"follow ends with its context", followCancelled},
}

// followLive appends through one journal and follows through another one. It appends only when the follower has read
// all events, so that the follower must be woken.
func followLive(t *testing.T, writer, reader *journal.DB) {
	s := newScript(t, writer, "t1")
	s.start(1)
	ctx, cancel := context.WithTimeout(t.Context(), followTimeout)
	defer cancel()
	watched := newWatched(reader)
	type seen struct {
		events []turn.Event
		err    error
	}
	done := make(chan seen, 1)
	go func() {
		var out seen
		for e, err := range follow.Turn(ctx, watched, "t1", -1) {
			if out.err = err; err == nil {
				out.events = append(out.events, e)
			}
		}
		done <- out
	}()
	for _, text := range []string{"one", "two", "three"} {
		require.NoError(t, watched.waiting(ctx))
		require.NoError(t, s.append(1, 1, text))
	}
	require.NoError(t, watched.waiting(ctx))
	s.finish()
	out := <-done
	require.NoError(t, out.err)
	assert.Equal(t, s.events(), out.events)
}

func followEarly(t *testing.T, open func() *journal.DB) {
	j := open()
	ctx, cancel := context.WithTimeout(t.Context(), followTimeout)
	defer cancel()
	watched := newWatched(j)
	seen := make(chan error, 1)
	go func() {
		err := errors.New("follow ended before the turn began")
		for _, err = range follow.Turn(ctx, watched, "t1", -1) {
			break
		}
		seen <- err
	}()
	require.NoError(t, watched.waiting(ctx))
	newScript(t, j, "t1")
	assert.NoError(t, <-seen)
}

// watched is a journal that reports when a follower has found no more events: the follower then reads the turn, and
// waits.
type watched struct {
	*journal.DB
	idle chan struct{}
}

func newWatched(db *journal.DB) watched { return watched{db, make(chan struct{}, 1)} }

func (w watched) Turn(ctx context.Context, id string) (journal.TurnRecord, error) {
	rec, err := w.DB.Turn(ctx, id)
	select {
	case w.idle <- struct{}{}:
	default:
	}
	return rec, err
}

// TurnsAfter reports a waiting follower of a session, which calls it before it waits.
func (w watched) TurnsAfter(ctx context.Context, session, after string, limit int) ([]journal.TurnRecord, error) {
	list, err := w.DB.TurnsAfter(ctx, session, after, limit)
	if len(list) == 0 && limit > 0 {
		select {
		case w.idle <- struct{}{}:
		default:
		}
	}
	return list, err
}

// waiting returns when a follower waits.
func (w watched) waiting(ctx context.Context) error {
	select {
	case <-w.idle:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("there is no follower: %w", ctx.Err())
	}
}

func followFrom(t *testing.T, open func() *journal.DB) {
	s := newScript(t, open(), "t1")
	s.start(1)
	texts := make([]string, 600) // more than one batch
	for i := range texts {
		texts[i] = string(rune('a' + i%26))
	}
	require.NoError(t, s.append(1, 1, texts...))
	s.finish()
	all := s.events()
	for _, after := range []int64{-1, 0, 255, 256, 300, int64(len(all)) - 2, int64(len(all)) - 1, int64(len(all)) + 5} {
		want := all[min(int(after)+1, len(all)):]
		got := make([]turn.Event, 0, len(want))
		for e, err := range follow.Turn(t.Context(), s.DB, "t1", after) {
			require.NoError(t, err)
			got = append(got, e)
		}
		assert.Equal(t, len(want), len(got), "after %d", after)
		if len(want) == len(got) && len(want) > 0 {
			assert.Equal(t, want[0], got[0])
			assert.Equal(t, want[len(want)-1], got[len(got)-1])
		}
	}
}

func followCancelled(t *testing.T, open func() *journal.DB) {
	s := newScript(t, open(), "t1")
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var last error
	for _, err := range follow.Turn(ctx, s.DB, "t1", -1) {
		last = err
		cancel()
	}
	assert.ErrorIs(t, last, context.Canceled)
}
