package completion

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"
	"unicode/utf8"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/everturn/everturn/journal"
	"github.com/everturn/everturn/workflows/turn"
)

// lockedJournal refuses events. It signals when it has refused some.
type lockedJournal struct {
	wholeJournal
	refused chan struct{}
}

func (j *lockedJournal) AppendStream(context.Context, journal.StreamInput) error {
	close(j.refused)
	return errors.New("locked")
}

// TestTextThatCouldNotBeAppendedIsHandedOutWithTheRest checks that events that could not be appended while the journal
// was unavailable are written with the settlement.
func TestTextThatCouldNotBeAppendedIsHandedOutWithTheRest(t *testing.T) {
	j := &lockedJournal{refused: make(chan struct{})}
	ctx, abort := context.WithCancelCause(t.Context())
	defer abort(nil)
	s := openStream(ctx, j, journal.Inference{Attempt: 1}, false, 0, func() {}, abort)
	s.Text("The answer ")
	<-j.refused
	s.Text("to it all ")
	s.Reasoning("hm")
	s.Text("is 42.")
	var shown string
	for _, e := range s.close() {
		if e.Kind == turn.EventTextDelta {
			shown += e.Text
		}
	}
	assert.Equal(t, "The answer to it all is 42.", shown)
	assert.NoError(t, context.Cause(ctx), "the completion goes on")
}

// strictJournal accepts events as the journal does, which refuses any that is too long, and signals the first ones.
type strictJournal struct {
	wholeJournal
	taken chan struct{}
	once  sync.Once
	mu    sync.Mutex
	text  strings.Builder
}

func (j *strictJournal) AppendStream(_ context.Context, in journal.StreamInput) error {
	j.mu.Lock()
	defer j.mu.Unlock()
	defer j.once.Do(func() { close(j.taken) })
	for _, e := range in.Events {
		if len(e.Text) > journal.MaxEventBytes {
			return fmt.Errorf("an event of %d bytes", len(e.Text))
		}
		j.text.WriteString(e.Text)
	}
	return nil
}

// TestAFastAnswerIsAppendedInPieces checks that text is split if a provider sends more between two flushes than fits
// into an event.
func TestAFastAnswerIsAppendedInPieces(t *testing.T) {
	j := &strictJournal{taken: make(chan struct{})}
	ctx, abort := context.WithCancelCause(t.Context())
	defer abort(nil)
	s := openStream(ctx, j, journal.Inference{Attempt: 1}, false, 0, func() {}, abort)
	output := "a" + strings.Repeat("é€", journal.MaxEventBytes)
	s.Text(output)
	<-j.taken
	rest := s.close()
	require.NoError(t, context.Cause(ctx))
	for _, e := range rest {
		j.text.WriteString(e.Text)
	}
	assert.True(t, j.text.String() == output, "the text is whole")
	for _, e := range pieces(turn.Event{Text: output}) {
		assert.True(t, utf8.ValidString(e.Text), "no character is cut")
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
			s.add(turn.EventTextDelta, "0123456789")
		}
		runtime.ReadMemStats(&after)
		require.Len(t, s.pending, 1)
		require.Equal(t, 10*n, s.pending[0].text.Len())
		return after.TotalAlloc - before.TotalAlloc
	}
	once, four := joined(2000), joined(8000)
	assert.Less(t, four, 8*once)
}

// fullStream is a journal that takes no events before a time.
type fullStream struct {
	wholeJournal
	until  time.Time
	events []turn.Event
}

func (j *fullStream) AppendStream(_ context.Context, in journal.StreamInput) error {
	if time.Now().Before(j.until) {
		return errors.New("database or disk is full")
	}
	j.events = append(j.events, in.Events...)
	return nil
}

// TestAStreamOutlivesAnOutageOfTheJournal: what it has said is paid for.
func TestAStreamOutlivesAnOutageOfTheJournal(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		j := &fullStream{until: time.Now().Add(5 * time.Second)}
		ctx, abort := context.WithCancelCause(t.Context())
		s := openStream(ctx, j, journal.Inference{}, false, 0, func() {}, abort)
		s.Text("one ")
		time.Sleep(2 * time.Second)
		s.Text("two ")
		time.Sleep(5 * time.Second)
		require.NoError(t, ctx.Err())
		require.Len(t, j.events, 1)
		assert.Equal(t, "one two ", j.events[0].Text)
		s.Text("three")
		rest := s.close()
		require.Len(t, rest, 1)
		assert.Equal(t, "three", rest[0].Text)
	})
}
