package journaltest

import (
	"encoding/json"
	"math"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/everturn/everturn/journal"
	"github.com/everturn/everturn/workflows/turn"
)

var suspendPromises = []promise{
	{"a suspended call continues", suspended},
	{"only the attempt with the claim suspends a call", suspendFenced},
	{"a suspended call that is never continued is unknown", suspendedForEver},
	{"progress is noted of an open claim, up to a bound", noted},
}

func (s *script) suspend(c turn.ToolCall, attempt int, continuation string) {
	s.Helper()
	require.NoError(s, s.SuspendCall(s.Context(), s.turn, c.ID, attempt, []byte(continuation)))
}

func suspended(t *testing.T, open func() *journal.DB) {
	s, list := asked(t, open, 2)
	for _, continuation := range []string{"", "\x00\xff not text", strings.Repeat("x", journal.MaxContinuationBytes)} {
		assert.Equal(t, journal.ClaimGranted, s.claim(list[0], s.attempts(list[0])+1).Claim)
		attempt := s.attempts(list[0])
		s.suspend(list[0], attempt, continuation)
		s.unchanged(func() { s.suspend(list[0], attempt, continuation) }) // the worker died before it could report it
		rec := must(s.Call(t.Context(), "t1", list[0].ID))(t)
		assert.Empty(t, rec.Outcome)
		assert.Equal(t, attempt, rec.Suspended)
		assert.True(t, rec.Continuation != nil && string(rec.Continuation) == continuation)
	}
	last := s.claim(list[0], 4)
	assert.Equal(t, journal.ClaimGranted, last.Claim)
	assert.Len(t, last.Continuation, journal.MaxContinuationBytes, "the last round's")
	assert.Equal(t, 4, last.Runs)
	assert.False(t, last.Repeatable, "no attempt ran it again")
	require.NoError(t, s.ReleaseCall(t.Context(), "t1", list[0].ID, 4))
	again := s.claim(list[0], 5)
	assert.Equal(t, journal.ClaimGranted, again.Claim)
	assert.Equal(t, last.Continuation, again.Continuation, "what was not sent is still to be sent")
	assert.Equal(t, journal.ClaimTaken, s.claim(list[0], 6).Claim, "once, not for ever")
	rec := s.settleCall(list[0], 5, turn.OutcomeOK, "done")
	assert.Equal(t, "done", rec.Text)
	assert.Nil(t, rec.Continuation, "there is nothing to go on with")
	assert.Equal(t, 1, s.count(turn.EventToolCallStarted))
	assert.Equal(t, 1, s.count(turn.EventToolCallCompleted))
	s.run(list[1], "its neighbour")
	s.start(2, resultsOf(list...)...)
	assert.Equal(t, "done", s.transcript()[2].Text)
}

func (s *script) attempts(c turn.ToolCall) int {
	rec, err := s.Call(s.Context(), s.turn, c.ID)
	if err != nil {
		return 0
	}
	return rec.Attempt
}

func suspendFenced(t *testing.T, open func() *journal.DB) {
	s, list := asked(t, open, 1)
	refused := func(attempt int, want error) {
		t.Helper()
		s.unchanged(func() {
			assert.ErrorIs(t, s.SuspendCall(t.Context(), s.turn, list[0].ID, attempt, []byte("x")), want)
		})
	}
	refused(1, journal.ErrNotFound)
	s.claim(list[0], 1)
	refused(2, journal.ErrNotFound)
	s.unchanged(func() {
		assert.Error(t, s.SuspendCall(t.Context(), s.turn, list[0].ID, 1, make([]byte, journal.MaxContinuationBytes+1)))
		assert.ErrorIs(t, s.SuspendCall(t.Context(), "none", list[0].ID, 1, []byte("x")), journal.ErrNotFound)
	})
	s.suspend(list[0], 1, "what it left")
	refused(1, journal.ErrStale)
	s.claim(list[0], 2)
	refused(1, journal.ErrStale)
	s.settleCall(list[0], 2, turn.OutcomeOK, "done")
	refused(2, journal.ErrStale)
	s.finish()
	refused(2, journal.ErrClosed)
}

func suspendedForEver(t *testing.T, open func() *journal.DB) {
	s, list := asked(t, open, 2)
	s.claim(list[0], 1)
	s.suspend(list[0], 1, "x")
	s.claim(list[1], 1)
	s.suspend(list[1], 1, "x")
	s.claim(list[1], 2) // and the worker died
	s.finish()
	for i, text := range []string{journal.SuspendedText, journal.ResultText(turn.OutcomeUnknown)} {
		rec := must(s.Call(t.Context(), "t1", list[i].ID))(t)
		assert.Equal(t, []any{turn.OutcomeUnknown, text}, []any{rec.Outcome, rec.Text}, "its server had begun")
	}
	assert.Equal(t, 2, s.count(turn.EventToolCallCompleted))
}

func noted(t *testing.T, open func() *journal.DB) {
	s, list := asked(t, open, 2)
	note := func(c turn.ToolCall, attempt int, p turn.ToolProgress) error {
		return s.NoteCall(t.Context(), s.turn, c.ID, attempt, p, s.now())
	}
	assert.ErrorIs(t, note(list[0], 1, turn.ToolProgress{}), journal.ErrNotFound)
	s.claim(list[0], 1)
	require.NoError(t, note(list[0], 1, turn.ToolProgress{Done: 0.5, Total: 2,
		Message: strings.Repeat("ä", 1000) + "\xff"}))
	require.NoError(t, note(list[0], 1, turn.ToolProgress{Output: strings.Repeat("x", 2*turn.MaxOutput), Offset: -1}))
	require.NoError(t, note(list[0], 1, turn.ToolProgress{Done: math.NaN(), Total: math.Inf(1)}),
		"a server may say anything")
	var output []turn.ProgressEvent
	for _, e := range s.events() {
		if e.Kind == turn.EventToolProgress {
			var data turn.ProgressEvent
			require.NoError(t, json.Unmarshal(e.Data, &data))
			output = append(output, data)
			assert.Equal(t, []int{1, 1}, []int{e.Step, e.Attempt})
		}
	}
	require.Len(t, output, 3)
	assert.Equal(t, []any{"1.0", "local/read_file", 0.5, 2.0},
		[]any{output[0].CallID, output[0].Tool, output[0].Done, output[0].Total})
	assert.LessOrEqual(t, len(output[0].Message), journal.PreviewBytes)
	assert.LessOrEqual(t, len(output[1].Output), turn.MaxOutput)
	assert.Zero(t, output[1].Offset)
	assert.Zero(t, output[2].ToolProgress)

	for range journal.MaxNotes {
		require.NoError(t, note(list[0], 1, turn.ToolProgress{Done: 1}))
	}
	assert.Equal(t, journal.MaxNotes, s.count(turn.EventToolProgress), "a flood is not kept")
	s.claim(list[1], 1)
	require.NoError(t, note(list[1], 1, turn.ToolProgress{Done: 1}), "another call has its own bound")
	s.suspend(list[1], 1, "x")
	refused := func(c turn.ToolCall, want error) {
		t.Helper()
		s.unchanged(func() { assert.ErrorIs(t, note(c, 1, turn.ToolProgress{Done: 2}), want) })
	}
	refused(list[1], journal.ErrStale)
	s.claim(list[1], 2)
	refused(list[1], journal.ErrStale)
	s.settleCall(list[0], 1, turn.OutcomeOK, "done")
	refused(list[0], journal.ErrStale)
	s.finish()
	refused(list[0], journal.ErrClosed)
}
