package journaltest

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/everturn/everturn/journal"
	"github.com/everturn/everturn/workflows/turn"
)

var clientToolPromises = []promise{
	{"a call that a client runs is requested with its whole arguments", handedOut},
	{"a client's late result is told once, and the first one counts", clientLate},
	{"a client's result that counts stands", clientOnTime},
	{"a client settles no call that it has not got", clientStranger},
}

// givenOut is a turn with a call of a client tool that is handed out.
func givenOut(t *testing.T, open func() *journal.DB) (*script, turn.ToolCall) {
	t.Helper()
	s := newScript(t, open(), "t1")
	c := calls(1, 1)[0]
	c.Tool, c.Arguments = turn.ClientTools+"weather", `{"city":"`+strings.Repeat("Ulm ", turn.WaitArguments)+`"}`
	s.infer(1, "look", c)
	s.claim(c, 1)
	s.suspend(c, 1, "")
	s.ask(resultOf(c))
	return s, c
}

// resultOf is the request for the result of a call, as the turn makes it.
func resultOf(c turn.ToolCall) turn.Request {
	return turn.Request{ID: turn.ResultRequest(c.ID), Kind: turn.RequestResult, Step: 1, Tool: "what the caller says",
		Call:      c.ID,
		Arguments: "{…", ArgumentsHash: journal.HashOf([]byte(c.Arguments))}
}

// settleLate sends the result of a call.
func (s *script) settleLate(c turn.ToolCall, text string) (late bool, err error) {
	response := must(turn.ClientResult{Text: text}.Response())(s)
	return s.SettleLate(s.Context(), s.session, s.turn, c.ID,
		turn.ToolResult{Outcome: turn.OutcomeOK, Text: text, FromServer: true, Taints: true}, *response, s.now())
}

func handedOut(t *testing.T, open func() *journal.DB) {
	s, c := givenOut(t, open)
	s.unchanged(func() { s.ask(resultOf(c)) })
	assert.Equal(t, turn.StateWaiting, s.turnState())
	list := must(s.PendingRequests(t.Context(), s.session, 10))(t)
	require.Len(t, list, 1)
	assert.Equal(t, []any{c.Tool, c.Arguments, int64(len(c.Arguments))},
		[]any{list[0].Tool, list[0].Arguments, list[0].ArgumentsBytes})
	other := resultOf(c)
	other.ID, other.ArgumentsHash = "r9", "other"
	_, err := s.Ask(t.Context(), s.session, s.turn, []turn.Request{other}, s.now())
	require.ErrorIs(t, err, journal.ErrConflict)
}

func clientLate(t *testing.T, open func() *journal.DB) {
	s, c := givenOut(t, open)
	_, err := s.settleLate(c, "rain")
	require.ErrorIs(t, err, journal.ErrOpen, "the turn waits")
	s.finish()
	assert.Equal(t, turn.OutcomeUnknown, must(s.Call(t.Context(), s.turn, c.ID))(t).Outcome)
	assert.True(t, must(s.settleLate(c, "rain"))(t))
	s.unchanged(func() {
		assert.True(t, must(s.settleLate(c, "rain"))(t))
		_, err := s.settleLate(c, "sun")
		require.ErrorIs(t, err, journal.ErrConflict)
	})
	assert.NotNil(t, must(s.Taint(t.Context(), s.turn))(t))
	s.turn = "t2"
	s.head = s.begin().Head
	s.start(1)
	notices := 0
	for _, m := range s.transcript() {
		if strings.Contains(m.Text, "rain") {
			notices++
		}
	}
	assert.Equal(t, 1, notices)
}

func clientOnTime(t *testing.T, open func() *journal.DB) {
	s, c := givenOut(t, open)
	response := must(turn.ClientResult{Text: "rain"}.Response())(t)
	s.decide(turn.Decision{ID: turn.ResultRequest(c.ID), Status: turn.StatusAnswered, By: "ada", Response: response})
	answered := s.requestEvents(turn.EventQuestionAnswered)
	require.Len(t, answered, 1)
	assert.Nil(t, answered[0].Decision.Response, "the end of the call has it")
	s.claim(c, 2)
	s.settleCall(c, 2, turn.OutcomeOK, "rain, without secrets")
	s.unchanged(func() {
		assert.False(t, must(s.settleLate(c, "rain"))(t))
		_, err := s.settleLate(c, "sun")
		require.ErrorIs(t, err, journal.ErrConflict)
	})
}

func clientStranger(t *testing.T, open func() *journal.DB) {
	s, c := givenOut(t, open)
	s.finish()
	response := turn.ElicitationResponse{Action: turn.ElicitationAccept}
	r := turn.ToolResult{Outcome: turn.OutcomeOK, Text: "rain"}
	s.unchanged(func() {
		for name, at := range map[string][3]string{
			"another session": {"other", s.turn, c.ID}, "another turn": {s.session, "none", c.ID},
			"another call": {s.session, s.turn, "9.0"},
		} {
			_, err := s.SettleLate(t.Context(), at[0], at[1], at[2], r, response, s.now())
			require.ErrorIs(t, err, journal.ErrNotFound, name)
		}
		_, err := s.Tenant("acme").SettleLate(t.Context(), s.session, s.turn, c.ID, r, response, s.now())
		require.ErrorIs(t, err, journal.ErrNotFound)
	})
	plain, list := asked(t, open, 1)
	plain.claim(list[0], 1)
	plain.finish()
	_, err := plain.settleLate(list[0], "rain")
	require.ErrorIs(t, err, journal.ErrNotFound, "a worker runs it")
}
