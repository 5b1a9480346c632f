package journaltest

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/everturn/everturn/journal"
	"github.com/everturn/everturn/workflows/turn"
)

var peoplePromises = []promise{
	{"a request is emitted once and the turn waits", askedOnce},
	{"an approval shows the arguments that would run", askedExactly},
	{"large arguments are shown up to a bound", askedLarge},
	{"the first decision of a request stands", firstDecision},
	{"a turn waits until all its requests are decided", allDecided},
	{"a decision that does not fit its request is refused", decisionRefused},
}

func approvalOf(c turn.ToolCall) turn.Request {
	return turn.Request{
		ID: c.ID, Kind: turn.RequestApproval, Step: stepOf(c), Tool: c.Tool, Arguments: "a preview",
		ArgumentsHash: journal.HashOf([]byte(c.Arguments)),
		Risk:          turn.RiskHigh, Why: "it writes", ExpiresAt: start.Add(time.Hour),
	}
}

func questionOf(id string, step int) turn.Request {
	return turn.Request{ID: id, Kind: turn.RequestQuestion, Step: step, Question: "which one?"}
}

// allowed returns a decision that allows a request.
func allowed(r turn.Request) turn.Decision {
	return turn.Decision{ID: r.ID, Status: turn.StatusAllowed, Allowed: true, ArgumentsHash: r.ArgumentsHash, By: "ada",
		Reason: "looks good", At: start.Add(time.Minute)}
}

func (s *script) ask(requests ...turn.Request) {
	s.Helper()
	ruled := must(s.Ask(s.Context(), s.session, s.turn, requests, s.now()))(s)
	require.Empty(s, ruled)
}

func (s *script) decide(decisions ...turn.Decision) {
	s.Helper()
	require.NoError(s, s.decideFails(decisions...))
}

// decideFails returns the error of a Decide.
func (s *script) decideFails(decisions ...turn.Decision) error {
	return s.Decide(s.Context(), s.session, s.turn, decisions, s.now())
}

func (s *script) turnState() turn.State {
	s.Helper()
	rec := must(s.DB.Turn(s.Context(), s.turn))(s)
	return rec.State
}

// requestEvents returns the data of the turn's events of a kind.
func (s *script) requestEvents(kind turn.EventKind) (list []turn.Request) {
	s.Helper()
	for _, e := range s.events() {
		if e.Kind != kind {
			continue
		}
		var data turn.Request
		require.NoError(s, json.Unmarshal(e.Data, &data))
		assert.Equal(s, data.Step, e.Step)
		list = append(list, data)
	}
	return list
}

// askFails returns the error of an Ask.
func (s *script) askFails(requests ...turn.Request) error {
	_, err := s.Ask(s.Context(), s.session, s.turn, requests, s.now())
	return err
}

func askedOnce(t *testing.T, open func() *journal.DB) {
	s, list := asked(t, open, 2)
	first, question := approvalOf(list[0]), questionOf("q1", 1)
	first.Beside = &turn.Beside{Count: 17, Calls: []turn.ToolCall{{ID: list[1].ID, Tool: "another"}}}
	at, requested := s.now(), []turn.Request{first, question}
	again := func(want ...turn.DecisionStatus) {
		t.Helper()
		ruled, err := s.Ask(t.Context(), s.session, s.turn, requested, at)
		require.NoError(t, err)
		require.Len(t, ruled, len(want))
		for i := range want {
			assert.Equal(t, want[i], ruled[i].Status)
		}
	}
	again()
	s.unchanged(func() { again() }) // the worker died before it could report it
	assert.Equal(t, turn.StateWaiting, s.turnState())
	first.Arguments = list[0].Arguments
	first.Beside = &turn.Beside{Count: 17, Calls: []turn.ToolCall{
		{ID: list[1].ID, Tool: list[1].Tool, Arguments: list[1].Arguments}}}
	first.ArgumentsBytes = int64(len(first.Arguments))
	want := []turn.Request{first, question}
	for i := range want {
		want[i].Session, want[i].Turn, want[i].AskedAt = "s", "t1", at
	}
	requests, err := s.Requests(t.Context(), "t1")
	require.NoError(t, err)
	assert.Equal(t, want, requests)
	assert.Equal(t, 2, s.sessionRecord().PendingRequests)
	assert.Equal(t, []turn.Request{first}, s.requestEvents(turn.EventApprovalRequested))
	assert.Equal(t, []turn.Request{question}, s.requestEvents(turn.EventQuestionAsked))

	s.decide(allowed(first), turn.Decision{ID: "q1", Status: turn.StatusAnswered})
	s.unchanged(func() { again(turn.StatusAllowed, turn.StatusAnswered) }) // the turn was reset
	assert.Equal(t, turn.StateRunning, s.turnState(), "asking again opens nothing again")
	s.finish()
	s.unchanged(func() { again(turn.StatusAllowed, turn.StatusAnswered) })
	s.unchanged(func() { s.decide(turn.Decision{ID: "q1", Status: turn.StatusAnswered}) })
	_, err = s.Requests(t.Context(), "none")
	assert.ErrorIs(t, err, journal.ErrNotFound)
}

func askedExactly(t *testing.T, open func() *journal.DB) {
	s, list := asked(t, open, 1)
	s.unchanged(func() {
		good := approvalOf(list[0])
		other := good
		other.ArgumentsHash = journal.HashOf([]byte(`{"path":"another"}`))
		assert.Error(t, s.askFails(other), "a person would decide about what does not run")
		assert.Error(t, s.askFails(good, other), "nothing of it is asked")
		stranger := approvalOf(turn.ToolCall{ID: "1.7", Tool: "x"})
		assert.Error(t, s.askFails(stranger))
		stranger = good
		stranger.Beside = &turn.Beside{Count: 1, Calls: []turn.ToolCall{{ID: "1.7"}}}
		assert.Error(t, s.askFails(stranger))
		odd := good
		odd.Kind = "wish"
		assert.Error(t, s.askFails(odd))
		_, err := s.Ask(t.Context(), "other", s.turn, []turn.Request{good}, s.now())
		assert.Error(t, err)
		_, err = s.Ask(t.Context(), s.session, "none", []turn.Request{good}, s.now())
		assert.ErrorIs(t, err, journal.ErrNotFound)
	})
	s.finish()
	s.unchanged(func() {
		assert.ErrorIs(t, s.askFails(approvalOf(list[0])), journal.ErrClosed)
		assert.ErrorIs(t, s.decideFails(allowed(approvalOf(list[0]))), journal.ErrClosed)
	})
}

func askedLarge(t *testing.T, open func() *journal.DB) {
	s := newScript(t, open(), "t1")
	c := turn.ToolCall{ID: "1.0", Tool: "local/write_file", Arguments: bigText(2*turn.WaitArguments, "text")}
	s.infer(1, "write", c)
	s.ask(approvalOf(c))
	requests := must(s.Requests(t.Context(), "t1"))(t)
	require.Len(t, requests, 1)
	assert.True(t, requests[0].Arguments == c.Arguments, "%d bytes", len(requests[0].Arguments))
	assert.Equal(t, int64(len(c.Arguments)), requests[0].ArgumentsBytes)
	requests = must(s.PendingRequests(t.Context(), s.session, 1))(t)
	assert.True(t, len(requests) == 1 && requests[0].Arguments == c.Arguments)
	data := s.requestEvents(turn.EventApprovalRequested)
	require.Len(t, data, 1)
	shown := data[0].Arguments
	assert.True(t, len(shown) <= turn.WaitArguments && len(shown) > turn.WaitArguments-4, "%d bytes", len(shown))
	assert.True(t, c.Arguments[:len(shown)] == shown, "what is shown is what would run")
	assert.Equal(t, int64(len(c.Arguments)), data[0].ArgumentsBytes)
}

func firstDecision(t *testing.T, open func() *journal.DB) {
	s, list := asked(t, open, 1)
	r := approvalOf(list[0])
	s.ask(r)
	s.decide(allowed(r))
	s.unchanged(func() {
		s.decide(allowed(r)) // the worker died before it could report it
		s.decide(turn.Decision{ID: r.ID, Status: turn.StatusDenied, By: "bob"})
	})
	requests := must(s.Requests(t.Context(), "t1"))(t)
	want := allowed(r)
	assert.Equal(t, &want, requests[0].Decision)
	decided := s.requestEvents(turn.EventApprovalDecided)
	require.Len(t, decided, 1)
	assert.Equal(t, &want, decided[0].Decision)
	assert.Equal(t, list[0].Arguments, decided[0].Arguments)
	assert.Equal(t, turn.StateRunning, s.turnState())
}

func allDecided(t *testing.T, open func() *journal.DB) {
	s, list := asked(t, open, 3)
	for _, c := range list {
		s.ask(approvalOf(c))
	}
	for i, c := range list {
		assert.Equal(t, turn.StateWaiting, s.turnState())
		assert.Equal(t, 3-i, s.sessionRecord().PendingRequests)
		s.decide(turn.Decision{ID: c.ID, Status: turn.StatusDenied, Reason: "no"})
	}
	assert.Equal(t, turn.StateRunning, s.turnState())
	assert.Zero(t, s.sessionRecord().PendingRequests)
	requests := must(s.Requests(t.Context(), "t1"))(t)
	assert.False(t, requests[0].Decision.At.IsZero(), "a decision without a time has that of its record")
}

func decisionRefused(t *testing.T, open func() *journal.DB) {
	s, list := asked(t, open, 1)
	req := approvalOf(list[0])
	s.ask(req, questionOf("q1", 1))
	s.unchanged(func() {
		refuse := func(r turn.Decision) {
			t.Helper()
			assert.Error(t, s.decideFails(r), "%+v", r)
		}
		err := s.decideFails(allowed(req), turn.Decision{ID: "9.9", Status: turn.StatusDenied})
		assert.ErrorIs(t, err, journal.ErrNotFound, "and the good one beside it is not taken either")
		other := allowed(req)
		other.ArgumentsHash = journal.HashOf([]byte("other"))
		assert.ErrorIs(t, s.decideFails(other), journal.ErrUnapproved)
		other.ArgumentsHash = ""
		assert.ErrorIs(t, s.decideFails(other), journal.ErrUnapproved)
		refuse(turn.Decision{ID: req.ID, Status: turn.StatusAnswered})
		refuse(turn.Decision{ID: req.ID, Status: turn.StatusDenied, Allowed: true})
		refuse(turn.Decision{ID: req.ID, Status: turn.StatusAllowed, ArgumentsHash: req.ArgumentsHash})
		refuse(turn.Decision{ID: req.ID, Status: "perhaps"})
		refuse(turn.Decision{ID: req.ID, Status: turn.StatusDenied, Grant: turn.GrantTool})
		refuse(turn.Decision{ID: "q1", Status: turn.StatusAllowed, Allowed: true})
		odd := allowed(req)
		odd.Grant = "world"
		refuse(odd)
	})
}
