package journaltest

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/everturn/everturn/journal"
	"github.com/everturn/everturn/workflows/turn"
)

var resultPromises = []promise{
	{"results come in request order, one a call", requestOrder},
	{"a call that never ran is settled with its result", neverRan},
	{"the ledger's outcome wins over the workflow's", ledgerWins},
	{"a result without a requested call is refused", notAsked},
}

func requestOrder(t *testing.T, open func() *journal.DB) {
	s, list := asked(t, open, 6)
	for _, i := range []int{3, 0, 5, 1, 4, 2} {
		s.run(list[i], "content "+list[i].ID)
	}
	base := s.start(2, resultsOf(list[4], list[2], list[0], list[1], list[5])...).Base // one is omitted, and is not lost
	messages := s.transcript()
	require.Len(t, messages, 8)
	for i, c := range list {
		assert.Equal(t, turn.Message{
			Role: turn.RoleTool, Text: "content " + c.ID, CallID: c.ID, Outcome: turn.OutcomeOK, TurnID: "t1", Step: 1,
		}, messages[2+i])
	}
	assert.Equal(t, s.sessionRecord().Head, base)
}

func neverRan(t *testing.T, open func() *journal.DB) {
	s, list := asked(t, open, 2)
	s.start(2,
		turn.CallOutcome{CallID: list[0].ID, Outcome: turn.OutcomeDenied, Code: turn.CodePolicyDenied,
			Text: "policy says no"},
		turn.CallOutcome{CallID: list[1].ID, Outcome: turn.OutcomeCancelled})
	messages := s.transcript()
	assert.Equal(t, "policy says no", messages[2].Text)
	assert.Equal(t, turn.OutcomeDenied, messages[2].Outcome)
	assert.Equal(t, journal.ResultText(turn.OutcomeCancelled), messages[3].Text)
	assert.Equal(t, 2, s.count(turn.EventToolCallStarted))
	assert.Equal(t, 2, s.count(turn.EventToolCallCompleted))
	claim := s.claim(list[0], 1)
	assert.Equal(t, journal.ClaimSettled, claim.Claim, "a denied call cannot be run any more")
	assert.Equal(t, turn.OutcomeDenied, claim.Outcome)
	assert.Equal(t, turn.CodePolicyDenied, claim.Code, "why it was not run")
	assert.Zero(t, claim.Runs)
}

func ledgerWins(t *testing.T, open func() *journal.DB) {
	s, list := asked(t, open, 2)
	s.run(list[0], "it did work")
	s.claim(list[1], 1)
	s.start(2,
		turn.CallOutcome{CallID: list[0].ID, Outcome: turn.OutcomeUnknown},
		turn.CallOutcome{CallID: list[1].ID, Outcome: turn.OutcomeUnknown})
	messages := s.transcript()
	assert.Equal(t, "it did work", messages[2].Text)
	assert.Equal(t, turn.OutcomeOK, messages[2].Outcome)
	assert.Equal(t, turn.OutcomeUnknown, messages[3].Outcome)
	assert.True(t, s.settleCall(list[1], 1, turn.OutcomeOK, "too late").Late, "the transcript has said unknown")
}

func notAsked(t *testing.T, open func() *journal.DB) {
	s, list := asked(t, open, 1)
	s.run(list[0], "a")
	s.unchanged(func() {
		stranger := turn.ToolCall{ID: "1.7", Tool: "x"}
		_, err := s.StartInference(t.Context(), s.startInput(2, resultsOf(list[0], stranger)...))
		assert.Error(t, err)
	})
	in := s.finishInput()
	in.Outcomes = resultsOf(turn.ToolCall{ID: "1.7", Tool: "x"})
	_, err := s.Finish(t.Context(), in)
	require.NoError(t, err, "a turn must be able to end")
	assert.Len(t, s.transcript(), 3)
}
