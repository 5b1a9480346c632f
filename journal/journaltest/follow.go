package journaltest

import (
	"context"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/everturn/everturn/journal"
	"github.com/everturn/everturn/workflows/turn"
)

var followPromises = []promise{
	{"follow yields chunks as they come and ends with the turn", func(t T, open func() journal.Store) {
		s := open()
		followLive(t, s, s)
	}},
	{"follow waits for a turn that has not begun", followEarly},
	{"follow reads on from any index", followFrom},
	{"follow ends with its context", followCancelled},
}

// followLive appends through one store what another one follows, each chunk only when the last one has been seen.
func followLive(t T, writer, reader journal.Store) {
	s := newScript(t, writer, "t1")
	s.start(1)
	texts := []string{"one", "two", "three"}
	ctx, cancel := context.WithTimeout(t.Context(), checkTimeout)
	defer cancel()
	var kinds []turn.ChunkKind
	var read string
	for c, err := range journal.Follow(ctx, reader, "t1", -1) {
		require.NoError(t, err)
		require.Equal(t, int64(len(kinds)), c.Index)
		kinds = append(kinds, c.Kind)
		read += c.Text
		switch {
		case len(texts) > 0:
			require.NoError(t, s.append(1, 1, texts[0]))
			texts = texts[1:]
		case c.Text == "three":
			s.finish()
		}
	}
	assert.Equal(t, "onetwothree", read)
	require.NotEmpty(t, kinds)
	assert.Equal(t, turn.ChunkTurnCompleted, kinds[len(kinds)-1])
}

func followEarly(t T, open func() journal.Store) {
	store := open()
	ctx, cancel := context.WithTimeout(t.Context(), checkTimeout)
	defer cancel()
	waiting := make(chan struct{})
	seen := make(chan error, 1)
	go func() {
		for c, err := range journal.Follow(ctx, signalling{store, waiting}, "t1", -1) {
			if err == nil && c.Kind != turn.ChunkTurnStarted {
				err = assert.AnError
			}
			seen <- err
			return
		}
		seen <- assert.AnError
	}()
	<-waiting
	newScript(t, store, "t1")
	assert.NoError(t, <-seen)
}

// signalling says when a follower has asked for the turn and found none: it waits from then on.
type signalling struct {
	journal.Store
	asked chan struct{}
}

func (s signalling) Turn(ctx context.Context, id string) (journal.TurnRecord, error) {
	rec, err := s.Store.Turn(ctx, id)
	select {
	case <-s.asked:
	default:
		close(s.asked)
	}
	return rec, err
}

func followFrom(t T, open func() journal.Store) {
	s := newScript(t, open(), "t1")
	s.start(1)
	texts := make([]string, 600) // more than one batch
	for i := range texts {
		texts[i] = string(rune('a' + i%26))
	}
	require.NoError(t, s.append(1, 1, texts...))
	s.finish()
	all := s.chunks()
	for _, after := range []int64{-1, 0, 255, 256, 300, int64(len(all)) - 2, int64(len(all)) - 1, int64(len(all)) + 5} {
		want := all[min(int(after)+1, len(all)):]
		got := make([]turn.Chunk, 0, len(want))
		for c, err := range journal.Follow(t.Context(), s, "t1", after) {
			require.NoError(t, err)
			got = append(got, c)
		}
		assert.Equal(t, len(want), len(got), "after %d", after)
		if len(want) == len(got) && len(want) > 0 {
			assert.Equal(t, want[0], got[0])
			assert.Equal(t, want[len(want)-1], got[len(got)-1])
		}
	}
}

func followCancelled(t T, open func() journal.Store) {
	s := newScript(t, open(), "t1")
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var last error
	for _, err := range journal.Follow(ctx, s, "t1", -1) {
		last = err
		cancel()
	}
	assert.ErrorIs(t, last, context.Canceled)
}
