package journaltest

import (
	"fmt"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/everturn/everturn/journal"
	"github.com/everturn/everturn/workflows/turn"
)

var eventPromises = []promise{
	{"events have no gaps under eight appenders", noGaps},
	{"events are paged by index", eventPages},
	{"only deltas and notices can be appended", eventKinds},
	{"calls of a settled step can fail", eventsOfCalls},
	{"a step's events are emitted once", eventsOfAStep},
}

func noGaps(t *testing.T, open func() *journal.DB) {
	s := newScript(t, open(), "t1")
	s.start(1)
	const appenders, each = 8, 20
	var wg sync.WaitGroup
	errs := make(chan error, appenders*each)
	for a := range appenders {
		wg.Go(func() {
			for i := range each {
				errs <- s.AppendEvents(t.Context(), s.key(1), 1, []turn.Event{
					{Kind: turn.EventTextDelta, Text: fmt.Sprintf("%d:%d ", a, i)}, {Kind: turn.EventReasoningDelta, Text: "hm"},
				})
			}
		})
	}
	wg.Wait()
	close(errs)
	for err := range errs {
		require.NoError(t, err)
	}
	list := s.events()
	require.Len(t, list, 1+2*appenders*each)
	next := map[int]int{}
	for i := 1; i < len(list); i += 2 {
		var a, n int
		_, err := fmt.Sscanf(list[i].Text, "%d:%d", &a, &n)
		require.NoError(t, err, "an append's events stay together")
		assert.Equal(t, next[a], n, "an appender's events stay in order")
		next[a]++
		assert.Equal(t, 1, list[i].Step)
		assert.Equal(t, 1, list[i].Attempt)
	}
}

func eventPages(t *testing.T, open func() *journal.DB) {
	s := newScript(t, open(), "t1")
	s.start(1)
	require.NoError(t, s.append(1, 1, "a", "b", "c"))
	page := must(s.Events(t.Context(), "t1", 1, 2))(t)
	require.Len(t, page, 2)
	assert.Equal(t, "b", page[0].Text)
	assert.Equal(t, int64(3), page[1].Index)
	assert.False(t, page[1].At.IsZero())
	page = must(s.Events(t.Context(), "t1", 3, 2))(t)
	assert.Empty(t, page)
}

func eventKinds(t *testing.T, open func() *journal.DB) {
	s := newScript(t, open(), "t1")
	s.start(1)
	s.unchanged(func() {
		for _, kind := range []turn.EventKind{
			turn.EventTurnStarted, turn.EventTurnCompleted, turn.EventToolCallStarted, turn.EventToolCallCompleted,
			turn.EventAttemptRestarted,
			turn.EventApprovalRequested, turn.EventApprovalDecided, turn.EventQuestionAsked, turn.EventQuestionAnswered,
			turn.EventMessageAdded, "",
		} {
			assert.Error(t, s.AppendEvents(t.Context(), s.key(1), 1, []turn.Event{{Kind: turn.EventTextDelta}, {Kind: kind}}),
				kind)
		}
		assert.Error(t, s.AppendEvents(t.Context(), s.key(1), 1, []turn.Event{{Kind: turn.EventError, Data: []byte("{")}}))
		assert.NoError(t, s.AppendEvents(t.Context(), s.key(1), 1, nil))
	})
	notice := turn.Event{Kind: turn.EventError, Text: "the provider is busy", Data: []byte(`{"wait_s":3}`)}
	require.NoError(t, s.AppendEvents(t.Context(), s.key(1), 1, []turn.Event{notice}))
	list := s.events()
	assert.JSONEq(t, `{"wait_s":3}`, string(list[len(list)-1].Data))
}

// eventsOfCalls: after a step is settled, its calls may still append error events, but its inference may append
// nothing.
func eventsOfCalls(t *testing.T, open func() *journal.DB) {
	s := newScript(t, open(), "t1")
	notice := turn.Event{Kind: turn.EventError, Text: "the server is away"}
	s.unchanged(func() {
		assert.ErrorIs(t, s.AppendEvents(t.Context(), s.key(1), 0, []turn.Event{notice}), journal.ErrNotFound)
	})
	s.infer(1, "", turn.ToolCall{ID: "1.0", Tool: "local/a", Arguments: "{}"})
	require.NoError(t, s.AppendEvents(t.Context(), s.key(1), 0, []turn.Event{notice}))
	list := s.events()
	last := list[len(list)-1]
	assert.Equal(t, turn.EventError, last.Kind)
	assert.Equal(t, 1, last.Step)
	assert.Zero(t, last.Attempt)
	s.unchanged(func() {
		delta := turn.Event{Kind: turn.EventTextDelta, Text: "a"}
		assert.ErrorIs(t, s.AppendEvents(t.Context(), s.key(1), 0, []turn.Event{notice, delta}), journal.ErrStale)
		assert.ErrorIs(t, s.AppendEvents(t.Context(), s.key(1), 1, []turn.Event{notice}), journal.ErrStale)
	})
	s.finish()
	s.unchanged(func() {
		assert.Error(t, s.AppendEvents(t.Context(), s.key(1), 0, []turn.Event{notice}))
	})
}

// eventsOfAStep: the events of StartInference are emitted once, by the first attempt.
func eventsOfAStep(t *testing.T, open func() *journal.DB) {
	s := newScript(t, open(), "t1")
	in := s.startInput(1)
	in.Events = []turn.Event{{Kind: turn.EventPhase, Data: []byte(`{"phase":"LlmInfer"}`)}}
	for range 2 {
		_ = must(s.StartInference(t.Context(), in))(t)
	}
	assert.Equal(t, 1, s.count(turn.EventPhase))
}
