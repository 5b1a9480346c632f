package journaltest

import (
	"encoding/json"
	"fmt"
	"sync"
	"testing"
	"time"

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
	{"each phase has one event", phases},
}

// started is how many events a turn has after its first StartInference: turn_started and three phases.
const started = 4

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
	list := s.events()[started:]
	require.Len(t, list, 2*appenders*each)
	next := map[int]int{}
	for i := 0; i < len(list); i += 2 {
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
	page := must(s.Events(t.Context(), "t1", started, 2))(t)
	require.Len(t, page, 2)
	assert.Equal(t, "b", page[0].Text)
	assert.Equal(t, int64(started+2), page[1].Index)
	assert.False(t, page[1].At.IsZero())
	page = must(s.Events(t.Context(), "t1", started+2, 2))(t)
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

// phases: each phase has one event, with the write that shows it, and a phase that was not entered has none.
func phases(t *testing.T, open func() *journal.DB) {
	s := newScript(t, open(), "t1")
	list := calls(1, 3)
	s.start(1)
	second := s.start(1).Attempt // as after a crash
	settle := s.settleInput(1, second, "", list...)
	settle.Provider, settle.Latency = "openai", 1500*time.Millisecond
	for range 2 {
		s.head = must(s.SettleInference(s.Context(), settle))(s).Head
	}
	s.run(list[0], "a")
	s.run(list[1], "b") // the third never runs
	s.infer(2, "more", calls(2, 1)...)
	s.finish()
	assert.Equal(t, []string{
		"0 Start", "1 BuildPrompt", "1 LlmInfer", "1 ParseAction", "1 CallTool", "2 BuildPrompt", "2 LlmInfer",
		"2 ParseAction", "2 Done"}, s.phases(), "no call of step 2 has run")
	var ended []turn.InferenceEvent
	for _, e := range s.events() {
		if e.Kind == turn.EventInferenceCompleted {
			var data turn.InferenceEvent
			require.NoError(t, json.Unmarshal(e.Data, &data))
			assert.Equal(t, len(ended)+1, e.Step)
			ended = append(ended, data)
		}
	}
	require.Len(t, ended, 2)
	assert.Equal(t, turn.InferenceEvent{Provider: "openai", Model: "model", LatencyMS: 1500,
		Usage: turn.Usage{InputTokens: 10, OutputTokens: 1}}, ended[0])

	closed := &script{T: t, DB: s.DB, session: s.session, turn: "t2", at: s.at}
	closed.begin()
	s.turn = "t3"
	s.begin() // closes t2, whose workflow has not ended it
	assert.Equal(t, []string{"0 Start"}, closed.phases())
}

// phases returns the phases of the turn's events, each after its step.
func (s *script) phases() (list []string) {
	s.Helper()
	for _, e := range s.events() {
		var data turn.PhaseEvent
		if e.Kind == turn.EventPhase {
			require.NoError(s, json.Unmarshal(e.Data, &data))
			list = append(list, fmt.Sprintf("%d %s", e.Step, data.Phase))
		}
	}
	return list
}
