package journaltest

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/everturn/everturn/journal"
	"github.com/everturn/everturn/workflows/turn"
)

var joinedPromises = []promise{
	{"messages are merged after the step's results", messagesJoin},
	{"a message is merged once, whatever the attempts", messagesJoinOnce},
	{"a message that the session has had is not merged", messagesKnown},
	{"a settled step tells which messages it did not take", messagesUntaken},
	{"a message is merged from a blob", messageJoinsFromBlob},
	{"messages that came too late are appended by finish", messagesAtEnd},
	{"delivered names the turn that took a message", deliveredTo},
	{"a cancelled turn keeps the text that was shown", partialAnswer},
	{"a turn that was ended from outside keeps the text that was shown", partialOfAClosedTurn},
}

func joined(ids ...string) (list []turn.UserMessage) {
	for _, id := range ids {
		list = append(list, turn.UserMessage{ID: id, Text: "text of " + id})
	}
	return list
}

// userIDs returns the IDs of the transcript's user messages.
func (s *script) userIDs() (ids []string) {
	s.Helper()
	for _, m := range s.transcript() {
		if m.Role == turn.RoleUser {
			ids = append(ids, m.ID)
		}
	}
	return ids
}

func messagesJoin(t *testing.T, open func() *journal.DB) {
	s, list := asked(t, open, 1)
	s.run(list[0], "a")
	in := s.startInput(2, resultsOf(list...)...)
	in.Messages = joined("j1", "j2")
	out := must(s.StartInference(t.Context(), in))(t)
	messages := s.transcript()
	require.Len(t, messages, 5)
	assert.Equal(t, turn.RoleTool, messages[2].Role)
	assert.Equal(t, turn.Message{ID: "j1", Role: turn.RoleUser, Text: "text of j1", TurnID: "t1"}, messages[3])
	assert.Equal(t, "j2", messages[4].ID)
	assert.Equal(t, s.sessionRecord().Head, out.Base, "the prompt is rendered with them")
	var seen []turn.MessageEvent
	for _, e := range s.events() {
		if e.Kind == turn.EventMessageAdded {
			var data turn.MessageEvent
			require.NoError(t, json.Unmarshal(e.Data, &data))
			seen = append(seen, data)
			assert.Equal(t, 2, e.Step)
		}
	}
	assert.Equal(t, []turn.MessageEvent{{MessageID: "j1", Text: "text of j1"}, {MessageID: "j2", Text: "text of j2"}},
		seen)
	settled := must(s.SettleInference(t.Context(), s.settleInput(2, 1, "done")))(t)
	assert.Equal(t, out.Base.Seq+1, settled.Head.Seq)
	s.finish()
	s.transcript()
}

func messagesJoinOnce(t *testing.T, open func() *journal.DB) {
	s := newScript(t, open(), "t1")
	in := s.startInput(1)
	in.Messages = joined("j1")
	first := must(s.StartInference(t.Context(), in))(t)
	second, err := s.StartInference(t.Context(), in)
	require.NoError(t, err)
	assert.Equal(t, first.Base, second.Base)
	assert.Equal(t, []string{"m-t1", "j1"}, s.userIDs())
	assert.Equal(t, 1, s.count(turn.EventMessageAdded))

	in.Messages = joined("j1", "j2") // a run that was reset has more messages
	third, err := s.StartInference(t.Context(), in)
	require.NoError(t, err)
	assert.Equal(t, second.Base.Seq+1, third.Base.Seq)
	assert.Equal(t, []string{"m-t1", "j1", "j2"}, s.userIDs())
	_, err = s.SettleInference(t.Context(), s.settleInput(1, 2, "from the dead"))
	assert.ErrorIs(t, err, journal.ErrStale)
	_ = must(s.SettleInference(t.Context(), s.settleInput(1, 3, "done")))(t)
	assert.Len(t, s.transcript(), 4)
}

func messagesKnown(t *testing.T, open func() *journal.DB) {
	s := newScript(t, open(), "t1")
	s.finish()
	s.turn = "t2"
	s.begin()
	in := s.startInput(1)
	in.Messages = append(joined("m-t1", "new", "m-t2"), joined("new")...)
	_ = must(s.StartInference(t.Context(), in))(t)
	assert.Equal(t, []string{"m-t1", "m-t2", "new"}, s.userIDs())
	s.finish()
	late := &script{T: t, DB: s.DB, session: "s", turn: "t3", at: s.at}
	begin := late.beginInput()
	begin.Message.ID = "new"
	out := must(s.Begin(t.Context(), begin))(t)
	require.NotNil(t, out.DuplicateOf, "a message that joined is not answered again")
	assert.Equal(t, "t2", out.DuplicateOf.ID)
}

func messagesUntaken(t *testing.T, open func() *journal.DB) {
	s := newScript(t, open(), "t1")
	in := s.startInput(1)
	in.Messages = joined("j1")
	_ = must(s.StartInference(t.Context(), in))(t)
	_ = must(s.SettleInference(t.Context(), s.settleInput(1, 1, "done")))(t)
	s.unchanged(func() {
		in.Messages = joined("j1", "j2")
		out := must(s.StartInference(t.Context(), in))(t)
		assert.True(t, out.Settled)
		assert.Equal(t, []string{"j2"}, out.Undelivered, "or it would be lost")
	})
}

func messageJoinsFromBlob(t *testing.T, open func() *journal.DB) {
	s := newScript(t, open(), "t1")
	text := bigText(1<<20, "message")
	hash, err := s.PutBlob(t.Context(), "text/plain", []byte(text))
	require.NoError(t, err)
	in := s.startInput(1)
	in.Messages = []turn.UserMessage{{ID: "big", Blob: hash}}
	_, err = s.StartInference(t.Context(), in)
	require.NoError(t, err)
	assert.True(t, s.transcript()[1].Text == text)
	in.Messages = []turn.UserMessage{{ID: "lost", Blob: journal.HashOf([]byte("nothing"))}}
	_, err = s.StartInference(t.Context(), in)
	require.NoError(t, err, "one message must not end a turn that runs")
	assert.Equal(t, journal.LostText, s.transcript()[2].Text)
	end := s.finishInput()
	end.Messages = []turn.UserMessage{{ID: "lost too", Blob: journal.HashOf([]byte("nothing"))}}
	_, err = s.Finish(t.Context(), end)
	require.NoError(t, err, "a turn must be able to end")
	assert.Equal(t, []string{"m-t1", "big", "lost", "lost too"}, s.userIDs())
}

func messagesAtEnd(t *testing.T, open func() *journal.DB) {
	s := newScript(t, open(), "t1")
	threeCalls(s)
	in := s.finishInput()
	in.Messages = joined("m-t1", "late", "later")
	first := must(s.Finish(t.Context(), in))(t)
	s.unchanged(func() {
		again := must(s.Finish(t.Context(), in))(t)
		assert.Equal(t, first, again)
	})
	checkThreeResults(s)
	assert.Equal(t, []string{"m-t1", "late", "later"}, s.userIDs())
	assert.Equal(t, turn.RoleUser, s.transcript()[6].Role, "after the results")
	assert.Equal(t, 2, s.count(turn.EventMessageAdded))
}

func deliveredTo(t *testing.T, open func() *journal.DB) {
	s := newScript(t, open(), "t1")
	in := s.startInput(1)
	in.Messages = joined("j1")
	_, err := s.StartInference(t.Context(), in)
	require.NoError(t, err)
	rec := s.finish()
	s.turn = "t2"
	s.begin()
	for _, id := range []string{"m-t1", "j1"} {
		got, err := s.Delivered(t.Context(), "s", id)
		require.NoError(t, err)
		assert.Equal(t, rec, got)
	}
	got := must(s.Delivered(t.Context(), "s", "m-t2"))(t)
	assert.Equal(t, "t2", got.ID)
	for _, c := range [][2]string{{"s", "none"}, {"s", ""}, {"none", "m-t1"}} {
		_, err = s.Delivered(t.Context(), c[0], c[1])
		assert.ErrorIs(t, err, journal.ErrNotFound)
	}
}

func partialAnswer(t *testing.T, open func() *journal.DB) {
	cancelled := func(s *script) turn.FinishInput {
		in := s.finishInput()
		in.State, in.Reason, in.Answer = turn.StateCancelled, turn.FinishCancelled, ""
		return in
	}
	finish := func(s *script, in turn.FinishInput) string {
		s.Helper()
		rec := must(s.Finish(s.Context(), in))(s)
		return rec.Answer
	}
	s := newScript(t, open(), "t1")
	s.infer(1, "an answer of before")
	s.start(2)
	require.NoError(t, s.append(2, 1, "withdrawn"))
	s.start(2)
	require.NoError(t, s.append(2, 2, "as far ", "as it "))
	require.NoError(t, s.AppendEvents(t.Context(), s.key(2), 2,
		[]turn.Event{{Kind: turn.EventReasoningDelta, Text: "hm"}}))
	require.NoError(t, s.append(2, 2, "came"))
	assert.Equal(t, "as far as it came", finish(s, cancelled(s)))
	kept := s.transcript()
	assert.Equal(t, turn.Message{Role: turn.RoleAssistant, Text: "as far as it came", Outcome: turn.OutcomeCancelled,
		TurnID: "t1", Step: 2}, kept[len(kept)-1], "the next prompt has what the user has seen")

	s.turn = "t2"
	s.begin()
	s.infer(1, "it was done")
	assert.Empty(t, finish(s, cancelled(s)), "nothing was interrupted")
	s.turn = "t3"
	s.begin()
	s.start(1)
	long := strings.Repeat("ä€", journal.SummaryBytes/5)
	require.NoError(t, s.append(1, 1, long, long))
	got := finish(s, cancelled(s))
	assert.True(t, len(got) <= journal.SummaryBytes && len(got) > journal.SummaryBytes-4 &&
		strings.HasPrefix(long+long, got), "%d bytes", len(got))
	s.turn = "t4"
	s.begin()
	s.start(1)
	require.NoError(t, s.append(1, 1, "half"))
	in := cancelled(s)
	in.Answer = "what an earlier step said"
	in.Messages = []turn.UserMessage{{ID: "late", Text: "And?"}}
	assert.Equal(t, "half", finish(s, in))
	kept = s.transcript()
	assert.Equal(t, []turn.Role{turn.RoleUser, turn.RoleAssistant, turn.RoleUser}, rolesOf(kept[len(kept)-3:]))
	s.turn = "t5"
	s.begin()
	s.start(1)
	require.NoError(t, s.append(1, 1, "half"))
	in = cancelled(s)
	in.State = turn.StateFailed
	assert.Empty(t, finish(s, in))
	kept = s.transcript()
	assert.Equal(t, turn.OutcomeError, kept[len(kept)-1].Outcome)
	s.turn = "t6"
	s.begin()
	s.start(1)
	require.NoError(t, s.append(1, 1, " \n"))
	before := len(s.transcript())
	finish(s, cancelled(s))
	assert.Len(t, s.transcript(), before, "providers refuse a message without text")
}

func rolesOf(list []turn.Message) (roles []turn.Role) {
	for _, m := range list {
		roles = append(roles, m.Role)
	}
	return roles
}

// partialOfAClosedTurn closes a turn that was ended from outside in the middle of an inference.
func partialOfAClosedTurn(t *testing.T, open func() *journal.DB) {
	s := newScript(t, open(), "t1")
	s.start(1)
	require.NoError(t, s.append(1, 1, "half"))
	s.turn = "t2"
	assert.Equal(t, "t1", s.begin().Closed)
	kept := s.transcript()
	require.Len(t, kept, 3)
	assert.Equal(t, turn.Message{Role: turn.RoleAssistant, Text: "half", Outcome: turn.OutcomeError, TurnID: "t1", Step: 1},
		kept[1])
	s.infer(1, "whole")
	assert.Equal(t, turn.StateCompleted, s.finish().State)
}
