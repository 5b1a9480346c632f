package journaltest

import (
	"encoding/json"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/everturn/everturn/journal"
	"github.com/everturn/everturn/workflows/turn"
)

var peoplePromises = []promise{
	{"what is asked for is shown once and waited for", askedOnce},
	{"an approval is asked for with the arguments that would run", askedExactly},
	{"large arguments are shown up to a bound", askedLarge},
	{"the first ruling of a wait stands", firstRuling},
	{"a turn waits until all of its waits are decided", allDecided},
	{"a ruling that does not fit its wait is refused", rulingRefused},
	{"always allow becomes the session's rule", alwaysAllow},
	{"a call that needs a person runs with an approval of its arguments alone", claimApproved},
	{"a turn that ends cancels what it waits for", endCancelsWaits},
	{"what is waited for is listed, the oldest first", waitingListed},
	{"a waiting turn is resumed and closed like a running one", waitingResumed},
}

func approvalOf(c turn.ToolCall) turn.Wait {
	return turn.Wait{
		ID: c.ID, Kind: turn.WaitApproval, Step: stepOf(c), Tool: c.Tool, Arguments: "a preview", ArgumentsHash: journal.HashOf([]byte(c.Arguments)),
		Risk: turn.RiskHigh, Why: "it writes", ExpiresAt: start.Add(time.Hour),
	}
}

func questionOf(id string, step int) turn.Wait {
	return turn.Wait{ID: id, Kind: turn.WaitQuestion, Step: step, Question: "which one?"}
}

// allowed is a person's word for a wait.
func allowed(w turn.Wait) turn.Ruling {
	return turn.Ruling{ID: w.ID, Verdict: turn.VerdictAllowed, Allowed: true, ArgumentsHash: w.ArgumentsHash, By: "ada", Reason: "looks good", At: start.Add(time.Minute)}
}

func (s *script) askInput(waits ...turn.Wait) journal.AskInput {
	return journal.AskInput{Session: s.session, Turn: s.turn, Waits: waits, At: s.now()}
}

func (s *script) ask(waits ...turn.Wait) {
	s.Helper()
	require.NoError(s, s.Ask(s.Context(), s.askInput(waits...)))
}

func (s *script) decideInput(rulings ...turn.Ruling) journal.DecideInput {
	return journal.DecideInput{Session: s.session, Turn: s.turn, Rulings: rulings, At: s.now()}
}

func (s *script) decide(rulings ...turn.Ruling) {
	s.Helper()
	require.NoError(s, s.Decide(s.Context(), s.decideInput(rulings...)))
}

func (s *script) turnState() turn.State {
	s.Helper()
	rec, err := s.Store.Turn(s.Context(), s.turn)
	require.NoError(s, err)
	return rec.State
}

// said returns the data of the turn's chunks of a kind.
func (s *script) said(kind turn.ChunkKind) (list []turn.PeopleChunk) {
	s.Helper()
	for _, c := range s.chunks() {
		if c.Kind != kind {
			continue
		}
		var data turn.PeopleChunk
		require.NoError(s, json.Unmarshal(c.Data, &data))
		assert.Equal(s, data.Step, c.Step)
		list = append(list, data)
	}
	return list
}

func askedOnce(t T, open func() journal.Store) {
	s, list := asked(t, open, 2)
	first, question := approvalOf(list[0]), questionOf("q1", 1)
	in := s.askInput(first, question)
	require.NoError(t, s.Ask(t.Context(), in))
	s.unchanged(func() { require.NoError(t, s.Ask(t.Context(), in)) }) // the worker died before it could say so
	assert.Equal(t, turn.StateWaiting, s.turnState())
	first.Arguments = list[0].Arguments
	want := []journal.WaitRecord{
		{Session: "s", Turn: "t1", Wait: first, AskedAt: in.At}, {Session: "s", Turn: "t1", Wait: question, AskedAt: in.At},
	}
	waits, err := s.Waits(t.Context(), "t1")
	require.NoError(t, err)
	assert.Equal(t, want, waits)
	assert.Equal(t, 2, s.sessionRecord().Waiting)
	assert.Equal(t, []turn.PeopleChunk{{Wait: first, ArgumentsBytes: int64(len(first.Arguments))}}, s.said(turn.ChunkApprovalRequested))
	assert.Equal(t, []turn.PeopleChunk{{Wait: question}}, s.said(turn.ChunkQuestionAsked))

	s.decide(allowed(first), turn.Ruling{ID: "q1", Verdict: turn.VerdictAnswered})
	s.unchanged(func() { require.NoError(t, s.Ask(t.Context(), in)) })
	assert.Equal(t, turn.StateRunning, s.turnState(), "asking again opens nothing again")
	_, err = s.Waits(t.Context(), "none")
	assert.ErrorIs(t, err, journal.ErrNotFound)
}

func askedExactly(t T, open func() journal.Store) {
	s, list := asked(t, open, 1)
	s.unchanged(func() {
		good := approvalOf(list[0])
		other := good
		other.ArgumentsHash = journal.HashOf([]byte(`{"path":"another"}`))
		assert.Error(t, s.Ask(t.Context(), s.askInput(other)), "a person would decide about what does not run")
		assert.Error(t, s.Ask(t.Context(), s.askInput(good, other)), "nothing of it is asked")
		stranger := approvalOf(turn.ToolCall{ID: "1.7", Tool: "x"})
		assert.Error(t, s.Ask(t.Context(), s.askInput(stranger)))
		odd := good
		odd.Kind = "wish"
		assert.Error(t, s.Ask(t.Context(), s.askInput(odd)))
		elsewhere := s.askInput(good)
		elsewhere.Session = "other"
		assert.Error(t, s.Ask(t.Context(), elsewhere))
		elsewhere = s.askInput(good)
		elsewhere.Turn = "none"
		assert.ErrorIs(t, s.Ask(t.Context(), elsewhere), journal.ErrNotFound)
	})
	s.finish()
	s.unchanged(func() {
		assert.ErrorIs(t, s.Ask(t.Context(), s.askInput(approvalOf(list[0]))), journal.ErrClosed)
		assert.ErrorIs(t, s.Decide(t.Context(), s.decideInput(allowed(approvalOf(list[0])))), journal.ErrClosed)
	})
}

func askedLarge(t T, open func() journal.Store) {
	s := newScript(t, open(), "t1")
	c := turn.ToolCall{ID: "1.0", Tool: "local/write_file", Arguments: bigText(2*turn.WaitArguments, "text")}
	s.infer(1, "write", c)
	s.ask(approvalOf(c))
	waits, err := s.Waits(t.Context(), "t1")
	require.NoError(t, err)
	require.Len(t, waits, 1)
	shown := waits[0].Arguments
	assert.True(t, len(shown) <= turn.WaitArguments && len(shown) > turn.WaitArguments-4, "%d bytes", len(shown))
	assert.True(t, c.Arguments[:len(shown)] == shown, "what is shown is what would run")
	data := s.said(turn.ChunkApprovalRequested)
	require.Len(t, data, 1)
	assert.Equal(t, int64(len(c.Arguments)), data[0].ArgumentsBytes)
	assert.True(t, data[0].Arguments == shown)
}

func firstRuling(t T, open func() journal.Store) {
	s, list := asked(t, open, 1)
	w := approvalOf(list[0])
	s.ask(w)
	in := s.decideInput(allowed(w))
	require.NoError(t, s.Decide(t.Context(), in))
	s.unchanged(func() {
		require.NoError(t, s.Decide(t.Context(), in)) // the worker died before it could say so
		require.NoError(t, s.Decide(t.Context(), s.decideInput(turn.Ruling{ID: w.ID, Verdict: turn.VerdictDenied, By: "bob"})))
	})
	waits, err := s.Waits(t.Context(), "t1")
	require.NoError(t, err)
	want := allowed(w)
	assert.Equal(t, &want, waits[0].Ruling)
	decided := s.said(turn.ChunkApprovalDecided)
	require.Len(t, decided, 1)
	assert.Equal(t, &want, decided[0].Ruling)
	assert.Equal(t, list[0].Arguments, decided[0].Arguments)
	assert.Equal(t, turn.StateRunning, s.turnState())
}

func allDecided(t T, open func() journal.Store) {
	s, list := asked(t, open, 3)
	for _, c := range list {
		s.ask(approvalOf(c))
	}
	for i, c := range list {
		assert.Equal(t, turn.StateWaiting, s.turnState())
		assert.Equal(t, 3-i, s.sessionRecord().Waiting)
		s.decide(turn.Ruling{ID: c.ID, Verdict: turn.VerdictDenied, Reason: "no"})
	}
	assert.Equal(t, turn.StateRunning, s.turnState())
	assert.Zero(t, s.sessionRecord().Waiting)
	waits, err := s.Waits(t.Context(), "t1")
	require.NoError(t, err)
	assert.False(t, waits[0].Ruling.At.IsZero(), "a ruling without a time has that of its record")
}

func rulingRefused(t T, open func() journal.Store) {
	s, list := asked(t, open, 1)
	w := approvalOf(list[0])
	s.ask(w, questionOf("q1", 1))
	s.unchanged(func() {
		refuse := func(r turn.Ruling) {
			t.Helper()
			assert.Error(t, s.Decide(t.Context(), s.decideInput(r)), "%+v", r)
		}
		err := s.Decide(t.Context(), s.decideInput(allowed(w), turn.Ruling{ID: "9.9", Verdict: turn.VerdictDenied}))
		assert.ErrorIs(t, err, journal.ErrNotFound, "and the good one beside it is not taken either")
		other := allowed(w)
		other.ArgumentsHash = journal.HashOf([]byte("other"))
		assert.ErrorIs(t, s.Decide(t.Context(), s.decideInput(other)), journal.ErrUnapproved)
		other.ArgumentsHash = ""
		assert.ErrorIs(t, s.Decide(t.Context(), s.decideInput(other)), journal.ErrUnapproved)
		refuse(turn.Ruling{ID: w.ID, Verdict: turn.VerdictAnswered})
		refuse(turn.Ruling{ID: w.ID, Verdict: turn.VerdictDenied, Allowed: true})
		refuse(turn.Ruling{ID: w.ID, Verdict: turn.VerdictAllowed, ArgumentsHash: w.ArgumentsHash})
		refuse(turn.Ruling{ID: w.ID, Verdict: "perhaps"})
		refuse(turn.Ruling{ID: "q1", Verdict: turn.VerdictAllowed, Allowed: true})
		odd := allowed(w)
		odd.Always = "world"
		refuse(odd)
	})
}

func alwaysAllow(t T, open func() journal.Store) {
	s, list := asked(t, open, 4)
	var waits []turn.Wait
	for _, c := range list {
		waits = append(waits, approvalOf(c))
	}
	s.ask(waits...)
	call, tool, denied := allowed(waits[0]), allowed(waits[1]), turn.Ruling{ID: waits[2].ID, Verdict: turn.VerdictDenied, Always: turn.AlwaysTool}
	call.Always, tool.Always = turn.AlwaysCall, turn.AlwaysTool
	twice := call
	twice.ID, twice.ArgumentsHash = waits[3].ID, waits[3].ArgumentsHash
	twice.Always = turn.AlwaysTool
	in := s.decideInput(call, tool, denied, twice)
	require.NoError(t, s.Decide(t.Context(), in))
	require.NoError(t, s.Decide(t.Context(), in))
	rules, err := s.Rules(t.Context(), "s")
	require.NoError(t, err)
	assert.Equal(t, []turn.SessionRule{
		{Tool: "local/read_file", ArgumentsHash: waits[0].ArgumentsHash, By: "ada", At: call.At}, {Tool: "local/read_file", By: "ada", At: tool.At},
	}, rules)
	rules, err = s.Rules(t.Context(), "another session")
	require.NoError(t, err)
	assert.Empty(t, rules)
}

func claimApproved(t T, open func() journal.Store) {
	s, list := asked(t, open, 5)
	claim := func(c turn.ToolCall, approved bool) (journal.ClaimState, error) {
		in := s.claimInput(c, 1)
		in.Approved = approved
		out, err := s.ClaimCall(t.Context(), in)
		return out.State, err
	}
	refused := func(c turn.ToolCall, approved bool, why string) {
		t.Helper()
		s.unchanged(func() {
			_, err := claim(c, approved)
			assert.ErrorIs(t, err, journal.ErrUnapproved, why)
		})
	}
	w, denied, expired := approvalOf(list[0]), approvalOf(list[1]), approvalOf(list[2])
	refused(list[0], true, "nobody was asked")
	s.ask(w, denied, expired, approvalOf(list[4]))
	refused(list[0], true, "nobody has said anything")
	refused(list[0], false, "whatever the caller believes")
	s.decide(allowed(w), turn.Ruling{ID: denied.ID, Verdict: turn.VerdictDenied}, turn.Ruling{ID: expired.ID, Verdict: turn.VerdictExpired, Allowed: true})
	changed := list[0]
	changed.Arguments = `{"path":"/etc/passwd"}`
	refused(changed, true, "the arguments have changed since")
	refused(list[1], true, "it was denied")
	refused(list[1], false, "it was denied")
	refused(list[4], true, "nobody has said anything about this one")
	for _, c := range []turn.ToolCall{list[0], list[2]} {
		state, err := claim(c, true)
		require.NoError(t, err)
		assert.Equal(t, journal.ClaimGranted, state)
	}
	state, err := claim(list[3], false)
	require.NoError(t, err)
	assert.Equal(t, journal.ClaimGranted, state, "nobody need be asked about this one")
	s.settleCall(list[0], 1, turn.OutcomeOK, "done")
	state, err = claim(list[0], true)
	require.NoError(t, err)
	assert.Equal(t, journal.ClaimSettled, state)
}

func endCancelsWaits(t T, open func() journal.Store) {
	for _, end := range []func(s *script){
		func(s *script) { s.finish() },
		func(s *script) { newScript(s.T, s.Store, "t2") },
	} {
		s, list := asked(t, open, 2)
		s.ask(approvalOf(list[0]), approvalOf(list[1]), questionOf("q1", 1))
		s.decide(allowed(approvalOf(list[0])))
		end(s)
		waits, err := s.Waits(t.Context(), "t1")
		require.NoError(t, err)
		var verdicts []turn.Verdict
		for _, w := range waits {
			verdicts = append(verdicts, w.Ruling.Verdict)
		}
		assert.Equal(t, []turn.Verdict{turn.VerdictAllowed, turn.VerdictCancelled, turn.VerdictCancelled}, verdicts)
		assert.Len(t, s.said(turn.ChunkApprovalDecided), 2, "a reader sees an end of each")
		assert.Len(t, s.said(turn.ChunkQuestionAnswered), 1)
		left, err := s.Waiting(t.Context(), "", 10)
		require.NoError(t, err)
		assert.Empty(t, left)
		assert.Zero(t, s.sessionRecord().Waiting)
	}
}

func waitingListed(t T, open func() journal.Store) {
	s := newScript(t, open(), "t1")
	ids := func(session string, limit int) (out []string) {
		t.Helper()
		list, err := s.Waiting(t.Context(), session, limit)
		require.NoError(t, err)
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
	s.decide(turn.Ruling{ID: "q1", Verdict: turn.VerdictAnswered})
	assert.Equal(t, []string{"b/q1", "a/q2"}, ids("", 10))
	list, err := s.Sessions(t.Context(), 10)
	require.NoError(t, err)
	assert.Equal(t, 1, list[0].Waiting)
}

func waitingResumed(t T, open func() journal.Store) {
	s := newScript(t, open(), "t1")
	s.infer(1, "which one?")
	s.ask(questionOf("q1", 1))
	s.unchanged(func() {
		out := s.begin() // a new run of the chain
		assert.True(t, out.Resumed)
		assert.Equal(t, turn.StateWaiting, out.Turn.State)
	})
	next := &script{T: t, Store: s.Store, session: "s", turn: "t2", at: s.at}
	assert.Equal(t, "t1", next.begin().Closed)
	assert.Equal(t, turn.StateClosed, s.turnState())
}
