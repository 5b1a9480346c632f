package activities

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"strings"
	"sync"
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/everturn/everturn/journal"
	"github.com/everturn/everturn/journal/record"
	"github.com/everturn/everturn/workflows/turn"
)

// lockedJournal refuses chunks. It signals when it has refused some.
type lockedJournal struct {
	Journal
	refused chan struct{}
}

func (j *lockedJournal) AppendStream(context.Context, journal.StreamInput) error {
	close(j.refused)
	return errors.New("locked")
}

// TestTextThatCouldNotBeAppendedIsHandedOutWithTheRest checks that chunks that could not be appended while the journal
// was unavailable are written with the settlement.
func TestTextThatCouldNotBeAppendedIsHandedOutWithTheRest(t *testing.T) {
	j := &lockedJournal{refused: make(chan struct{})}
	ctx, abort := context.WithCancelCause(t.Context())
	defer abort(nil)
	s := openStream(ctx, j, journal.Inference{Attempt: 1}, false, 0, abort)
	s.Text("The answer ")
	<-j.refused
	s.Text("to it all ")
	s.Reasoning("hm")
	s.Text("is 42.")
	var shown string
	for _, c := range s.close() {
		if c.Kind == turn.ChunkTextDelta {
			shown += c.Text
		}
	}
	assert.Equal(t, "The answer to it all is 42.", shown)
	assert.NoError(t, context.Cause(ctx), "the completion goes on")
}

// strictJournal accepts chunks as the journal does, which refuses any that is too long, and signals the first ones.
type strictJournal struct {
	Journal
	taken chan struct{}
	once  sync.Once
	mu    sync.Mutex
	text  strings.Builder
}

func (j *strictJournal) AppendStream(_ context.Context, in journal.StreamInput) error {
	j.mu.Lock()
	defer j.mu.Unlock()
	defer j.once.Do(func() { close(j.taken) })
	for _, c := range in.Chunks {
		if len(c.Text) > record.MaxChunkBytes {
			return fmt.Errorf("a chunk of %d bytes", len(c.Text))
		}
		j.text.WriteString(c.Text)
	}
	return nil
}

// TestAFastAnswerIsAppendedInPieces checks that text is split if a provider sends more between two flushes than fits
// into a chunk.
func TestAFastAnswerIsAppendedInPieces(t *testing.T) {
	j := &strictJournal{taken: make(chan struct{})}
	ctx, abort := context.WithCancelCause(t.Context())
	defer abort(nil)
	s := openStream(ctx, j, journal.Inference{Attempt: 1}, false, 0, abort)
	said := "a" + strings.Repeat("é€", record.MaxChunkBytes)
	s.Text(said)
	<-j.taken
	rest := s.close()
	require.NoError(t, context.Cause(ctx))
	for _, c := range rest {
		j.text.WriteString(c.Text)
	}
	assert.True(t, j.text.String() == said, "the text is whole")
	for _, c := range pieces(turn.Chunk{Text: said}) {
		assert.True(t, utf8.ValidString(c.Text), "no character is cut")
	}
}

// TestDeltasAreJoinedInLinearTime checks the joining of deltas while the journal is slow: four times as many take about
// four times the memory, not sixteen times.
func TestDeltasAreJoinedInLinearTime(t *testing.T) {
	joined := func(n int) uint64 {
		s := &stream{wake: make(chan struct{}, 1)}
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		for range n {
			s.add(turn.ChunkTextDelta, "0123456789")
		}
		s.seal()
		runtime.ReadMemStats(&after)
		require.Len(t, s.pending, 1)
		require.Len(t, s.pending[0].Text, 10*n)
		return after.TotalAlloc - before.TotalAlloc
	}
	once, four := joined(2000), joined(8000)
	assert.Less(t, four, 8*once)
}
