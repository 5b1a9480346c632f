package journaltest

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/everturn/everturn/journal"
	"github.com/everturn/everturn/workflows/turn"
)

var closePromises = []promise{
	{"begin closes the session's unfinished turn", beginCloses},
	{"finish leaves no call without a result", finishFills},
	{"finish of a finished turn changes nothing", finishTwice},
	{"a closed turn takes no more work", closedRefuses},
	{"a reset run finds its old steps, even of a settled turn", resetWalk},
}

// threeCalls leaves the turn with one settled call, one claimed call and one that never ran.
func threeCalls(s *script) []turn.ToolCall {
	s.Helper()
	list := calls(1, 3)
	s.infer(1, "let me look", list...)
	s.run(list[0], "content of file 0")
	s.claim(list[1], 1)
	return list
}

func checkThreeResults(s *script) {
	s.Helper()
	var got [][2]string
	for _, m := range s.transcript() {
		if m.Role == turn.RoleTool {
			got = append(got, [2]string{m.CallID, string(m.Outcome)})
			assert.NotEmpty(s, m.Text, "the model is told something")
			assert.Equal(s, 1, m.Step)
		}
	}
	assert.Equal(s, [][2]string{{"1.0", "ok"}, {"1.1", "unknown"}, {"1.2", "cancelled"}}, got)
	assert.Equal(s, 3, s.count(turn.EventToolCallStarted))
	assert.Equal(s, 3, s.count(turn.EventToolCallCompleted))
	ledger := must(s.Calls(s.Context(), s.turn))(s)
	for i, want := range []turn.Outcome{turn.OutcomeOK, turn.OutcomeUnknown, turn.OutcomeCancelled} {
		assert.Equal(s, want, ledger[i].Outcome, "the ledger and the transcript agree")
	}
}

func beginCloses(t *testing.T, open func() *journal.DB) {
	s := newScript(t, open(), "t1")
	threeCalls(s)
	next := &script{T: t, DB: s.DB, session: "s", turn: "t2", at: s.at}
	out := next.begin()
	assert.Equal(t, "t1", out.Closed)

	rec := must(s.Turn(t.Context(), "t1"))(t)
	assert.Equal(t, turn.StateClosed, rec.State)
	assert.Equal(t, turn.FinishTerminated, rec.Reason)
	assert.Equal(t, next.at, rec.EndedAt)
	assert.Equal(t, 1, rec.Steps)
	assert.Equal(t, 2, rec.Calls)
	assert.Equal(t, turn.Usage{InputTokens: 10, OutputTokens: 1}, rec.Usage)
	checkThreeResults(s)
	list := s.events()
	assert.Equal(t, turn.EventTurnCompleted, list[len(list)-1].Kind)
	messages := s.transcript()
	assert.Equal(t, "m-t2", messages[len(messages)-1].ID, "the new message comes after the old turn's results")
	assert.Equal(t, out.Head, s.sessionRecord().Head)
	next.unchanged(func() { assert.True(t, next.begin().Resumed) })
}

func finishFills(t *testing.T, open func() *journal.DB) {
	s := newScript(t, open(), "t1")
	threeCalls(s)
	rec := s.finish()
	checkThreeResults(s)
	assert.Equal(t, turn.StateCompleted, rec.State)
	assert.Equal(t, turn.FinishAnswered, rec.Reason)
	assert.Equal(t, "answer", rec.Answer)
	stored := must(s.Turn(t.Context(), "t1"))(t)
	assert.Equal(t, stored, rec)

	list := s.events()
	var done turn.DoneEvent
	require.Equal(t, turn.EventTurnCompleted, list[len(list)-1].Kind)
	require.NoError(t, json.Unmarshal(list[len(list)-1].Data, &done))
	assert.Equal(t, turn.DoneEvent{
		State: turn.StateCompleted, FinishReason: turn.FinishAnswered, Usage: turn.Usage{InputTokens: 10, OutputTokens: 1},
		Steps: 2, ToolCalls: 1,
	}, done)
}

func finishTwice(t *testing.T, open func() *journal.DB) {
	s := newScript(t, open(), "t1")
	first := s.finish()
	s.unchanged(func() {
		in := s.finishInput()
		in.State, in.Reason, in.Answer = turn.StateFailed, turn.FinishFailed, "another"
		again := must(s.Finish(t.Context(), in))(t)
		assert.Equal(t, first, again)
	})
}

func closedRefuses(t *testing.T, open func() *journal.DB) {
	s := newScript(t, open(), "t1")
	list := calls(1, 2)
	s.infer(1, "look", list...)
	s.claim(list[0], 1)
	s.start(2, resultsOf(list...)...)
	s.finish()
	s.unchanged(func() {
		_, err := s.StartInference(t.Context(), s.startInput(2))
		assert.ErrorIs(t, err, journal.ErrClosed)
		_, err = s.StartInference(t.Context(), s.startInput(3))
		assert.ErrorIs(t, err, journal.ErrClosed)
		_, err = s.SettleInference(t.Context(), s.settleInput(2, 1, "too late"))
		assert.ErrorIs(t, err, journal.ErrClosed)
		_, err = s.ClaimCall(t.Context(), s.claimInput(turn.ToolCall{ID: "9.0", Tool: "x"}, 1), false)
		assert.ErrorIs(t, err, journal.ErrClosed)
		assert.Error(t, s.append(2, 1, "too late"))
		assert.NoError(t, s.ReleaseCall(t.Context(), "t1", "1.0", 1))
	})
	late := s.settleCall(list[0], 1, turn.OutcomeOK, "it worked after all")
	assert.True(t, late.Late)
	assert.Equal(t, turn.OutcomeUnknown, late.Outcome, "the settled record stays")
	s.events()
}

func resetWalk(t *testing.T, open func() *journal.DB) {
	s := newScript(t, open(), "t1")
	begun := s.head
	list := calls(1, 2)
	first := s.infer(1, "look", list...)
	s.run(list[0], "a")
	s.run(list[1], "b")
	s.start(2, resultsOf(list...)...)
	settled := must(s.SettleInference(t.Context(), s.settleInput(2, 1, "the answer")))(t)
	s.finish()
	newScript(t, s.DB, "t2") // the session has a later turn, too

	s.unchanged(func() {
		s.head = begun
		got := s.start(1)
		assert.Equal(t, first, got)
		s.head = got.Head
		claim := s.claim(list[0], 1)
		assert.Equal(t, journal.ClaimSettled, claim.Claim)
		assert.Equal(t, "a", claim.Text)
		assert.Equal(t, settled, s.start(2, resultsOf(list...)...))
		assert.Equal(t, turn.StateCompleted, s.finish().State)
	})
}
