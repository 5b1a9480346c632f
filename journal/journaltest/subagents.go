package journaltest

import (
	"bytes"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/everturn/everturn/journal"
	"github.com/everturn/everturn/workflows/turn"
)

var subagentPromises = []promise{
	{"what comes of a message is added up", addedUp},
	{"the first claim's grant stands", allowedOnce},
	{"an answer for which nothing is left is told once", keptAnswer},
	{"a stopped subagent's answer begins no turn", stoppedAnswer},
	{"only an answer begins a turn as an answer", noAnswer},
	{"the requests of subagents at work are their callers'", pendingBelow},
	{"a subagent's session names its caller and has its taint, whatever other sessions are called", namedCaller},
}

func subagentCall(id string) turn.ToolCall {
	return turn.ToolCall{ID: id, WireID: "wire-" + id, Tool: turn.AgentTools + "a", Arguments: `{"task":"x","background":true}`}
}

// callInBackground claims a call of a subagent in the background and settles it as started.
func (s *script) callInBackground(c turn.ToolCall, granted turn.Allowance) {
	s.Helper()
	s.claimAgent(c, journal.Subagent{Granted: granted, Background: true})
	s.settleCall(c, 1, turn.OutcomeOK, "it works")
}

func (s *script) claimAgent(c turn.ToolCall, a journal.Subagent) journal.CallRecord {
	s.Helper()
	in := s.claimInput(c, 1)
	in.Subagent, in.Repeatable = &a, true
	return must(s.ClaimCall(s.Context(), in, false))(s)
}

// subagentOf begins the turn of the subagent that a call of the script's turn has started.
func (s *script) subagentOf(callID string) *script {
	s.Helper()
	name := turn.SubagentSession(s.turn, callID)
	subagent := &script{T: s.T, DB: s.DB, session: name, turn: "t of " + name, tenant: s.tenant, at: s.at}
	in := subagent.beginInput()
	in.Message.ID, in.Caller = name, turn.Caller{Session: s.session, Turn: s.turn, Call: callID}
	subagent.head = must(s.Begin(s.Context(), in))(s).Head
	return subagent
}

// end settles a turn that has used this.
func (s *script) end(c turn.Counters, state turn.State) {
	s.Helper()
	in := s.finishInput()
	in.Counters, in.State = c, state
	must(s.Finish(s.Context(), in))(s)
}

// answer begins a turn with the answer of a subagent.
func (s *script) answer(turnID string, of *script, nothingLeft bool) (*script, journal.BeginResult) {
	s.Helper()
	next := &script{T: s.T, DB: s.DB, session: s.session, turn: turnID, tenant: s.tenant, at: s.at}
	in := next.beginInput()
	in.Message, in.NothingLeft = turn.UserMessage{ID: turn.SubagentAnswerID(of.session), Text: "its answer"}, nothingLeft
	out := must(s.Begin(s.Context(), in))(s)
	next.head = out.Head
	return next, out
}

func (s *script) origin(of *script, own string) journal.Origin {
	s.Helper()
	return must(s.Origin(s.Context(), s.session, turn.SubagentAnswerID(of.session), own))(s)
}

// addedUp lets two turns of one message call subagents in the background. What an inline subagent uses is in the
// counters of its caller.
func addedUp(t *testing.T, open func() *journal.DB) {
	s := newScript(t, open(), "t1")
	list := []turn.ToolCall{subagentCall("1.0"), subagentCall("1.1"), subagentCall("1.2")}
	s.infer(1, "look", list...)
	tokens, cost := int64(100), turn.Dollar
	s.callInBackground(list[0], turn.Allowance{Steps: 5, ToolCalls: 4, Tokens: &tokens, Cost: &cost, Time: time.Minute})
	s.callInBackground(list[1], turn.Allowance{Steps: 7, Time: time.Second})
	s.claimAgent(list[2], journal.Subagent{Granted: turn.Allowance{Steps: 100}})
	one := s.subagentOf("1.0")
	one.end(turn.Counters{Spent: 2, ToolCalls: 1, Busy: time.Second, Usage: turn.Usage{InputTokens: 10}},
		turn.StateCompleted)
	s.settleCall(list[0], 1, turn.OutcomeOK, "one")
	assert.False(t, s.origin(one, "").Known, "its caller's turn still runs")
	s.end(turn.Counters{Spent: 3, ToolCalls: 3, Subagents: turn.Spending{Steps: 4, ToolCalls: 1}, Busy: time.Second,
		Granted: turn.Spending{Steps: 12}}, turn.StateCompleted)
	want := turn.Spending{Steps: 3 + 4 + 2 + 7, ToolCalls: 3 + 1 + 1, Tokens: 10 + 11, Time: 3 * time.Second}
	want.Tokens = s.origin(one, "").Spent.Tokens // the ledger of inferences counts those of the caller
	assert.Equal(t, journal.Origin{Turn: "t1", Root: "t1", Spent: want, Known: true}, s.origin(one, ""))

	next, _ := s.answer("t2", one, false)
	more := subagentCall("1.0")
	next.infer(1, "more", more)
	next.callInBackground(more, turn.Allowance{Steps: 2})
	assert.Equal(t, want, s.origin(one, "t2").Spent.Add(turn.Spending{Steps: -2}), "without its own, for a repeated Begin")
	three := next.subagentOf("1.0")
	next.settleCall(more, 1, turn.OutcomeOK, "three")
	next.end(turn.Counters{Spent: 1, Granted: turn.Spending{Steps: 2}}, turn.StateCompleted)
	out := s.origin(three, "")
	assert.Equal(t, []any{"t2", "t1", true}, []any{out.Turn, out.Root, out.Known})
	assert.Equal(t, want.Steps+1+2, out.Spent.Steps, "its turn has not ended, so all that it was granted counts")
	three.end(turn.Counters{Spent: 1}, turn.StateCompleted)
	assert.Equal(t, want.Steps+1+1, s.origin(three, "").Spent.Steps)

	last, _ := s.answer("t3", three, false)
	last.turn = "t4"
	last.begin() // which closes t3, whose workflow is gone
	assert.False(t, s.origin(three, "").Known)
}

func allowedOnce(t *testing.T, open func() *journal.DB) {
	s := newScript(t, open(), "t1")
	c := subagentCall("1.0")
	s.infer(1, "look", c)
	first := journal.Subagent{Granted: turn.Allowance{Steps: 5}, Background: true}
	for range 2 {
		claim := s.claimAgent(c, first)
		require.NotNil(t, claim.Subagent)
		assert.Equal(t, first, *claim.Subagent)
		first.Granted.Steps = 5
	}
	claim := s.claimAgent(c, journal.Subagent{Granted: turn.Allowance{Steps: 50}})
	assert.Equal(t, first, *claim.Subagent)
	assert.Equal(t, first, must(s.Subagent(t.Context(), "t1", "1.0"))(t))
	_, err := s.Subagent(t.Context(), "t1", "1.1")
	require.ErrorIs(t, err, journal.ErrNotFound)
	assert.Equal(t, 5, must(s.SpentBySubagent(t.Context(), "t1", "1.0"))(t).Steps)
	subagent := s.subagentOf("1.0")
	subagent.end(turn.Counters{Spent: 2}, turn.StateFailed)
	assert.Equal(t, 2, must(s.SpentBySubagent(t.Context(), "t1", "1.0"))(t).Steps)
}

// ready is a turn that has ended, and its subagent in the background, whose answer is there.
func ready(t *testing.T, open func() *journal.DB) (s, subagent *script) {
	s = newScript(t, open(), "t1")
	c := subagentCall("1.0")
	s.infer(1, "look", c)
	s.callInBackground(c, turn.Allowance{Steps: 5})
	subagent = s.subagentOf("1.0")
	subagent.end(turn.Counters{Spent: 2}, turn.StateCompleted)
	s.settleCall(c, 1, turn.OutcomeOK, "its answer")
	s.end(turn.Counters{Spent: 2}, turn.StateCompleted)
	return s, subagent
}

func (s *script) kept(of *script) bool {
	s.Helper()
	return must(s.AnswerKept(s.Context(), s.session, turn.SubagentAnswerID(of.session)))(s)
}

// told returns how often the session's transcript has the answer.
func (s *script) told(of *script) (n int) {
	s.Helper()
	for _, m := range s.transcript() {
		if m.ID == turn.SubagentAnswerID(of.session) {
			n++
			assert.Equal(s, journal.SubagentAnswer("a", "its answer"), m.Text)
		}
	}
	return n
}

func keptAnswer(t *testing.T, open func() *journal.DB) {
	s, subagent := ready(t, open)
	assert.False(t, s.kept(subagent))
	for range 2 {
		_, out := s.answer("t2", subagent, true)
		assert.True(t, out.Kept)
	}
	_, err := s.Turn(t.Context(), "t2")
	require.ErrorIs(t, err, journal.ErrNotFound, "it begins no turn")
	assert.True(t, s.kept(subagent))
	for i := range 2 {
		s.turn = fmt.Sprintf("user's %d", i)
		s.begin()
		s.infer(1, "I see")
		s.finish()
		assert.Equal(t, 1, s.told(subagent))
	}
	assert.False(t, s.kept(subagent))
	_, out := s.answer("t3", subagent, false)
	require.NotNil(t, out.DuplicateOf, "it has arrived")
	assert.Equal(t, "user's 0", out.DuplicateOf.ID)
}

func stoppedAnswer(t *testing.T, open func() *journal.DB) {
	s, subagent := ready(t, open)
	assert.Equal(t, []string{subagent.session}, must(s.StopSubagents(t.Context(), "s"))(t), "its answer is on its way")
	assert.Empty(t, must(s.StopSubagents(t.Context(), "s"))(t))
	_, out := s.answer("t2", subagent, false)
	assert.True(t, out.Kept)
	assert.True(t, s.kept(subagent))

	s, subagent = ready(t, open)
	s.answer("t2", subagent, false)
	assert.Empty(t, must(s.StopSubagents(t.Context(), "s"))(t), "its answer has begun a turn")

	s = newScript(t, open(), "t1")
	c := subagentCall("1.0")
	s.infer(1, "look", c)
	s.callInBackground(c, turn.Allowance{Steps: 5})
	subagent = s.subagentOf("1.0")
	for range 2 {
		assert.Equal(t, []string{subagent.session}, must(s.StopSubagents(t.Context(), "s"))(t), "it may still be at work")
	}
	assert.Empty(t, must(s.StopSubagents(t.Context(), "unknown"))(t))
}

func noAnswer(t *testing.T, open func() *journal.DB) {
	s, subagent := ready(t, open)
	other := &script{T: t, DB: s.DB, session: "other", turn: "o", at: start}
	other.begin()
	other.finish()
	for _, in := range []*script{other, s} {
		for _, id := range []string{turn.SubagentAnswerID(subagent.session), turn.SubagentAnswerID(turn.SubagentSession("t1", "9.9"))} {
			if in == s && id == turn.SubagentAnswerID(subagent.session) {
				continue
			}
			next := &script{T: t, DB: s.DB, session: in.session, turn: "forged", at: start}
			begin := next.beginInput()
			begin.Message.ID = id
			_, err := s.Begin(t.Context(), begin)
			require.ErrorIs(t, err, journal.ErrNotFound)
			_, err = s.Origin(t.Context(), in.session, id, "")
			require.ErrorIs(t, err, journal.ErrNotFound)
		}
	}
}

// namedCaller begins the session of a tainted session's subagent, and others that only have such a name.
func namedCaller(t *testing.T, open func() *journal.DB) {
	s := newScript(t, open(), "t1")
	list := []turn.ToolCall{{ID: "1.0", WireID: "w", Tool: "local/x", Arguments: "{}"}, subagentCall("1.1")}
	s.infer(1, "look", list...)
	s.claim(list[0], 1)
	s.settleTainting(list[0], 1, turn.ToolResult{Outcome: turn.OutcomeOK, Text: "pwned", FromServer: true})
	taint := s.mark(s.session)
	require.NotNil(t, taint)
	s.claimAgent(list[1], journal.Subagent{Granted: turn.Allowance{Steps: 5}})

	named := &script{T: t, DB: s.DB, session: turn.SubagentSession("t1", "1.0"), turn: "named", at: start}
	named.begin()
	assert.Zero(t, named.sessionRecord().Caller)
	assert.Nil(t, named.mark(named.session))
	forged := &script{T: t, DB: s.DB, session: "forged", turn: "forged", at: start}
	for _, caller := range []turn.Caller{{Turn: "t1", Call: "1.1"}, {Turn: "t1", Call: "1.0"}, {Turn: "t9", Call: "1.1"}} {
		in := forged.beginInput()
		in.Caller = caller
		_, err := s.Begin(t.Context(), in)
		require.ErrorIs(t, err, journal.ErrConflict)
	}

	subagent := s.subagentOf("1.1")
	want := turn.Caller{Session: "s", Turn: "t1", Call: "1.1"}
	assert.Equal(t, want, subagent.sessionRecord().Caller)
	assert.Equal(t, want, must(s.TurnConfig(t.Context(), subagent.turn))(t).Caller)
	assert.Equal(t, taint, subagent.mark(subagent.session))
	subagent.infer(1, "answer")
	subagent.finish()
	fork := subagent.fork(2, "fork")
	assert.Zero(t, fork.sessionRecord().Caller, "a user's session")

	var b bytes.Buffer
	require.NoError(t, s.Export(t.Context(), subagent.session, &b))
	imported := must(open().Import(t.Context(), &b))(t)
	assert.Equal(t, want, imported.Session.Caller)
}

// pendingBelow lets subagents at two depths ask for something.
func pendingBelow(t *testing.T, open func() *journal.DB) {
	s := newScript(t, open(), "t1")
	list := []turn.ToolCall{subagentCall("1.0"), subagentCall("1.1")}
	s.infer(1, "look", list...)
	s.claimAgent(list[0], journal.Subagent{Granted: turn.Allowance{Steps: 5}})
	s.callInBackground(list[1], turn.Allowance{Steps: 5})
	inline, background := s.subagentOf("1.0"), s.subagentOf("1.1")
	inline.infer(1, "look", list[0])
	inline.claimAgent(list[0], journal.Subagent{Granted: turn.Allowance{Steps: 2}})
	deep := inline.subagentOf("1.0")
	background.ask(questionOf("q1", 1))
	deep.ask(questionOf("q1", 1))
	sessions := func(list []turn.Request) (out []string) {
		for _, w := range list {
			out = append(out, w.Session)
		}
		return out
	}
	for session, want := range map[string][]string{"s": {background.session, deep.session}, inline.session: {deep.session},
		background.session: {background.session}, "": {background.session, deep.session}} {
		assert.Equal(t, want, sessions(must(s.PendingRequests(t.Context(), session, 10))(t)), session)
	}
	assert.Equal(t, []string{deep.session}, sessions(must(s.PendingOfTurn(t.Context(), "t1"))(t)),
		"the turn does not wait for its subagent in the background")
	rec := s.sessionRecord()
	assert.Equal(t, 2, rec.PendingRequests)
	assert.Equal(t, turn.StateWaiting, rec.LastTurn.State)
	deep.finish()
	inline.settleCall(list[0], 1, turn.OutcomeOK, "deep")
	assert.Empty(t, must(s.PendingOfTurn(t.Context(), "t1"))(t))
	background.finish()
	s.settleCall(list[1], 1, turn.OutcomeOK, "background")
	rec = s.sessionRecord()
	assert.Zero(t, rec.PendingRequests)
	assert.Equal(t, turn.StateRunning, rec.LastTurn.State)
}
