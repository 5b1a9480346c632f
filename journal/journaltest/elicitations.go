package journaltest

import (
	"encoding/json"
	"strings"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/everturn/everturn/journal"
	"github.com/everturn/everturn/workflows/turn"
)

var elicitationPromises = []promise{
	{"what a tool's server asks is kept with what is said to it", elicited},
	{"a server asks in the name of a call that ran, and within bounds", elicitRefused},
	{"a reply fits what was asked", replyRefused},
	{"what a server asks ends with its turn", elicitCancelled},
	{"what a call is held for ends with the call", heldEnds},
}

func heldEnds(t T, open func() journal.Store) {
	s, list := asked(t, open, 2)
	held, other := inquiryOf(list[0], "1"), inquiryOf(list[1], "1")
	held.ID, other.ID = "h1.0.1.1", "h1.1.1.1"
	for i, w := range []turn.Wait{held, other} {
		s.claim(list[i], 1)
		_, err := s.Ask(t.Context(), journal.AskInput{Session: s.session, Turn: s.turn, Waits: []turn.Wait{w}, At: s.now()})
		require.NoError(t, err)
	}
	s.settleCall(list[0], 1, turn.OutcomeUnknown, "its worker died")
	waits, err := s.Waits(t.Context(), s.turn)
	require.NoError(t, err)
	require.Len(t, waits, 2)
	require.NotNil(t, waits[0].Ruling)
	assert.Equal(t, turn.VerdictExpired, waits[0].Ruling.Verdict)
	assert.Equal(t, journal.HeldEnded, waits[0].Ruling.Reason)
	assert.Nil(t, waits[1].Ruling, "its call is under way")
	s.settleCall(list[1], 1, turn.OutcomeUnknown, "its worker died")
	left, err := s.Waiting(t.Context(), s.session, 10)
	require.NoError(t, err)
	assert.Empty(t, left)
	s.start(2, resultsOf(list...)...)
}

func inquiryOf(c turn.ToolCall, n string) turn.Wait {
	return turn.Wait{
		ID: "e" + c.ID + "." + n, Kind: turn.WaitElicitation, Step: stepOf(c), Tool: "what the caller says", Call: c.ID, Question: "which branch?",
		Inquiry: &turn.Inquiry{
			Key: "branch", Message: "which <branch>?", Schema: json.RawMessage(`{"type":"object","properties":{"name":{"type":"string","title":"a <b> & c"}}}`),
		},
	}
}

func replyOf(content string) turn.Ruling {
	return turn.Ruling{ID: "e1.0.1", Verdict: turn.VerdictAnswered, By: "ada", At: start, Reply: &turn.Reply{Action: turn.ReplyAccept, Content: json.RawMessage(content)}}
}

// suspendedFirst is a turn with a call whose server wants to know something.
func suspendedFirst(t T, open func() journal.Store) (*script, turn.ToolCall) {
	s, list := asked(t, open, 1)
	s.claim(list[0], 1)
	s.suspend(list[0], 1, "what it goes on with")
	return s, list[0]
}

func elicited(t T, open func() journal.Store) {
	for _, content := range []string{`{"name":"<main> & more"}`, `{"name":"` + strings.Repeat("x", 5000) + `"}`} {
		s, c := suspendedFirst(t, open)
		w := inquiryOf(c, "1")
		w.Inquiry.Message += bigText(len(content), "message")
		s.ask(w)
		s.unchanged(func() { s.ask(w) })
		assert.Equal(t, turn.StateWaiting, s.turnState())
		w = journal.CleanWait(w)
		w.Tool = "local/read_file" // the ledger's word
		open, err := s.Waiting(t.Context(), "s", 10)
		require.NoError(t, err)
		require.Len(t, open, 1)
		assert.Equal(t, w, open[0].Wait)
		said := s.said(turn.ChunkQuestionAsked)
		require.Len(t, said, 1)
		assert.Equal(t, w.Inquiry.Message, said[0].Inquiry.Message)
		assert.JSONEq(t, string(w.Inquiry.Schema), string(said[0].Inquiry.Schema))

		s.decide(replyOf(content))
		want := replyOf(content)
		want.Reply.Key = "branch"
		waits, err := s.Waits(t.Context(), "t1")
		require.NoError(t, err)
		assert.Equal(t, &want, waits[0].Ruling)
		ruled, err := s.Ask(t.Context(), s.askInput(inquiryLike(w))) // the turn was reset
		require.NoError(t, err)
		assert.Equal(t, []turn.Ruling{want}, ruled)
		said = s.said(turn.ChunkQuestionAnswered)
		require.Len(t, said, 1)
		assert.JSONEq(t, content, string(said[0].Ruling.Reply.Content))
		assert.Equal(t, turn.StateRunning, s.turnState())
		s.unchanged(func() { s.decide(turn.Ruling{ID: w.ID, Verdict: turn.VerdictDenied}) })
		assert.Equal(t, journal.ClaimGranted, s.claim(c, 2).State, "and the call goes on")
	}
}

// inquiryLike is the same wait as somebody else asks it: spaces in its schema mean nothing.
func inquiryLike(w turn.Wait) turn.Wait {
	q := *w.Inquiry
	q.Schema = json.RawMessage(" " + string(q.Schema) + "\n")
	w.Inquiry = &q
	return w
}

func elicitRefused(t T, open func() journal.Store) {
	s, c := suspendedFirst(t, open)
	refused := func(change func(*turn.Wait)) error {
		t.Helper()
		w := inquiryOf(c, "1")
		q := *w.Inquiry
		w.Inquiry = &q
		change(&w)
		var err error
		s.unchanged(func() { err = s.askFails(s.askInput(w)) })
		assert.Error(t, err)
		return err
	}
	refused(func(w *turn.Wait) { w.Inquiry = nil })
	refused(func(w *turn.Wait) { w.Call = "" })
	refused(func(w *turn.Wait) { w.Inquiry.Schema = json.RawMessage(`{`) })
	refused(func(w *turn.Wait) { w.Inquiry.URL = strings.Repeat("x", journal.MaxInquiryBytes) })
	assert.ErrorIs(t, refused(func(w *turn.Wait) { w.Call = "1.7" }), journal.ErrConflict)
	s.ask(inquiryOf(c, "1"))
	assert.ErrorIs(t, refused(func(w *turn.Wait) { w.Inquiry.Message = "something else" }), journal.ErrConflict)
	question := questionOf("q1", 1)
	question.Inquiry, question.Call = &turn.Inquiry{Message: "the model asks nothing of the kind"}, "1.0"
	s.ask(question)
	waits, err := s.Waits(t.Context(), "t1")
	require.NoError(t, err)
	assert.Equal(t, questionOf("q1", 1), waits[1].Wait)
}

func replyRefused(t T, open func() journal.Store) {
	s, c := suspendedFirst(t, open)
	s.ask(inquiryOf(c, "1"))
	s.unchanged(func() {
		for _, change := range []func(*turn.Ruling){
			func(r *turn.Ruling) { r.Reply = nil },
			func(r *turn.Ruling) { r.Reply.Key = "another" },
			func(r *turn.Ruling) { r.Reply.Action = "perhaps" },
			func(r *turn.Ruling) { r.Reply.Content = json.RawMessage(`{"a":`) },
			func(r *turn.Ruling) {
				r.Reply.Content = json.RawMessage(`"` + strings.Repeat("x", journal.MaxReplyBytes) + `"`)
			},
			func(r *turn.Ruling) { r.Verdict, r.Allowed = turn.VerdictAllowed, true },
			func(r *turn.Ruling) { r.Allowed = true },
		} {
			r := replyOf(`{"name":"main"}`)
			change(&r)
			assert.Error(t, s.Decide(t.Context(), s.decideInput(r)), "%+v", r)
		}
	})
	r := replyOf(`{"name":"main"}`)
	r.Reply.Action = turn.ReplyDecline
	s.decide(r)
	waits, err := s.Waits(t.Context(), "t1")
	require.NoError(t, err)
	assert.Equal(t, &turn.Reply{Key: "branch", Action: turn.ReplyDecline}, waits[0].Ruling.Reply, "who says no says nothing else")
}

func elicitCancelled(t T, open func() journal.Store) {
	s, c := suspendedFirst(t, open)
	s.ask(inquiryOf(c, "1"), inquiryOf(c, "2"), inquiryOf(c, "3"))
	s.decide(turn.Ruling{ID: "e1.0.1", Verdict: turn.VerdictExpired}, turn.Ruling{ID: "e1.0.2", Verdict: turn.VerdictDenied})
	s.finish()
	waits, err := s.Waits(t.Context(), "t1")
	require.NoError(t, err)
	for i, want := range []turn.Verdict{turn.VerdictExpired, turn.VerdictDenied, turn.VerdictCancelled} {
		assert.Equal(t, want, waits[i].Ruling.Verdict)
		assert.Nil(t, waits[i].Ruling.Reply)
	}
	assert.Len(t, s.said(turn.ChunkQuestionAnswered), 3, "a reader sees an end of each")
}
