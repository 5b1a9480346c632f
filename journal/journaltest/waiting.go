package journaltest

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/everturn/everturn/journal"
	"github.com/everturn/everturn/workflows/turn"
)

var waitingPromises = []promise{
	{"a grant is the session's", alwaysAllow},
	{"a call that needs approval runs with an approval of its arguments only", claimApproved},
	{"a turn that ends cancels its open requests", endCancelsWaits},
	{"open requests are listed, the oldest first", waitingListed},
	{"a waiting turn is resumed and closed like a running one", waitingResumed},
}

func alwaysAllow(t *testing.T, open func() *journal.DB) {
	s, list := asked(t, open, 4)
	var requests []turn.Request
	for _, c := range list {
		requests = append(requests, approvalOf(c))
	}
	s.ask(requests...)
	call, tool, denied := allowed(requests[0]), allowed(requests[1]),
		turn.Decision{ID: requests[2].ID, Status: turn.StatusDenied}
	call.Grant, tool.Grant = turn.GrantCall, turn.GrantTool
	twice := call
	twice.ID, twice.ArgumentsHash = requests[3].ID, requests[3].ArgumentsHash
	twice.Grant = turn.GrantTool
	s.decide(call, tool, denied, twice)
	s.decide(call, tool, denied, twice)
	rules, err := s.Grants(t.Context(), s.turn)
	require.NoError(t, err)
	assert.Equal(t, []turn.Grant{
		{Tool: "local/read_file", ArgumentsHash: requests[0].ArgumentsHash, By: "ada", At: call.At},
		{Tool: "local/read_file", By: "ada", At: tool.At},
	}, rules)
	_, err = s.Grants(t.Context(), "another turn")
	assert.ErrorIs(t, err, journal.ErrNotFound)
}

func claimApproved(t *testing.T, open func() *journal.DB) {
	s, list := asked(t, open, 5)
	claim := func(c turn.ToolCall, approved bool) (journal.ClaimState, error) {
		out, err := s.ClaimCall(t.Context(), s.claimInput(c, 1), approved)
		return out.Claim, err
	}
	refused := func(c turn.ToolCall, approved bool, why string) {
		t.Helper()
		s.unchanged(func() {
			_, err := claim(c, approved)
			assert.ErrorIs(t, err, journal.ErrUnapproved, why)
		})
	}
	r, denied, expired := approvalOf(list[0]), approvalOf(list[1]), approvalOf(list[2])
	refused(list[0], true, "there is no request")
	s.ask(r, denied, expired, approvalOf(list[4]))
	refused(list[0], true, "the request is open")
	refused(list[0], false, "whatever the caller believes")
	s.decide(allowed(r), turn.Decision{ID: denied.ID, Status: turn.StatusDenied},
		turn.Decision{ID: expired.ID, Status: turn.StatusExpired, Allowed: true})
	changed := list[0]
	changed.Arguments = `{"path":"/etc/passwd"}`
	refused(changed, true, "the arguments have changed since")
	refused(list[1], true, "it was denied")
	refused(list[1], false, "it was denied")
	refused(list[4], true, "this request is open")
	for _, c := range []turn.ToolCall{list[0], list[2]} {
		state := must(claim(c, true))(t)
		assert.Equal(t, journal.ClaimGranted, state)
	}
	state := must(claim(list[3], false))(t)
	assert.Equal(t, journal.ClaimGranted, state, "this call needs no approval")
	s.settleCall(list[0], 1, turn.OutcomeOK, "done")
	state = must(claim(list[0], true))(t)
	assert.Equal(t, journal.ClaimSettled, state)
}

func endCancelsWaits(t *testing.T, open func() *journal.DB) {
	for _, end := range []func(s *script){
		func(s *script) { s.finish() },
		func(s *script) { newScript(s.T, s.DB, "t2") },
	} {
		s, list := asked(t, open, 2)
		s.ask(approvalOf(list[0]), approvalOf(list[1]), questionOf("q1", 1))
		s.decide(allowed(approvalOf(list[0])))
		end(s)
		requests := must(s.Requests(t.Context(), "t1"))(t)
		var verdicts []turn.DecisionStatus
		for _, w := range requests {
			verdicts = append(verdicts, w.Decision.Status)
		}
		assert.Equal(t, []turn.DecisionStatus{turn.StatusAllowed, turn.StatusCancelled, turn.StatusCancelled}, verdicts)
		assert.Len(t, s.requestEvents(turn.EventApprovalDecided), 2, "a reader sees an end of each")
		assert.Len(t, s.requestEvents(turn.EventQuestionAnswered), 1)
		left := must(s.PendingRequests(t.Context(), "", 10))(t)
		assert.Empty(t, left)
		assert.Zero(t, s.sessionRecord().PendingRequests)
	}
}

func waitingListed(t *testing.T, open func() *journal.DB) {
	s := newScript(t, open(), "t1")
	ids := func(session string, limit int) (out []string) {
		t.Helper()
		list := must(s.PendingRequests(t.Context(), session, limit))(t)
		for _, w := range list {
			out = append(out, w.Session+"/"+w.ID)
		}
		return out
	}
	for _, session := range []string{"a", "b"} {
		s.session, s.turn = session, "t-"+session
		s.begin()
		s.ask(questionOf("q1", 1))
	}
	s.session, s.turn = "a", "t-a"
	s.ask(questionOf("q2", 1))
	assert.Equal(t, []string{"a/q1", "b/q1", "a/q2"}, ids("", 10))
	assert.Equal(t, []string{"a/q1", "b/q1"}, ids("", 2))
	assert.Equal(t, []string{"a/q1", "a/q2"}, ids("a", 10))
	assert.Empty(t, ids("s", 10))
	assert.Empty(t, ids("none", 10))
	s.decide(turn.Decision{ID: "q1", Status: turn.StatusAnswered})
	assert.Equal(t, []string{"b/q1", "a/q2"}, ids("", 10))
	assert.Equal(t, map[turn.RequestKind]int64{turn.RequestQuestion: 2}, must(s.OpenRequests(t.Context()))(t))
	list := must(s.Sessions(t.Context(), 10))(t)
	assert.Equal(t, 1, list[0].PendingRequests)
}

func waitingResumed(t *testing.T, open func() *journal.DB) {
	s := newScript(t, open(), "t1")
	s.infer(1, "which one?")
	s.ask(questionOf("q1", 1))
	s.unchanged(func() {
		out := s.begin() // a new run of the chain
		assert.True(t, out.Resumed)
		assert.Equal(t, turn.StateWaiting, out.Turn.State)
	})
	next := &script{T: t, DB: s.DB, session: "s", turn: "t2", at: s.at}
	assert.Equal(t, "t1", next.begin().Closed)
	assert.Equal(t, turn.StateClosed, s.turnState())
}
