package journaltest

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/everturn/everturn/journal"
	"github.com/everturn/everturn/workflows/turn"
)

var beginPromises = []promise{
	{"begin opens a turn", beginOpens},
	{"begin resumes its own turn", beginResumes},
	{"begin of a finished turn changes nothing", beginFinished},
	{"a session takes a message ID once", messageOnce},
	{"a later message does not overtake those that a turn has left", leftFirst},
	{"nor those that a turn with a duplicate message has left", duplicateLeftFirst},
	{"two sessions may use the same message ID", messagePerSession},
	{"a message without an ID gets one from its turn", messageWithoutID},
	{"a turn cannot begin again with another message", beginOther},
	{"a message may come as a blob", messageFromBlob},
	{"sessions are listed by their last activity", sessionsListed},
}

func beginOpens(t *testing.T, open func() *journal.DB) {
	s := newScript(t, open(), "t1")
	s.session, s.turn = "s2 / odd \x01 \u202e %?#", "t2"
	out := s.begin()
	assert.False(t, out.Resumed)
	assert.Nil(t, out.DuplicateOf)
	assert.JSONEq(t, `{"pin":"t2"}`, string(out.Config))
	message := turn.Message{ID: "m-t2", Role: turn.RoleUser, Text: "question of t2", TurnID: "t2"}
	assert.Equal(t, journal.Next(turn.Head{}, message), out.Head)
	assert.Equal(t, []turn.Message{message}, s.transcript())

	rec := must(s.Turn(t.Context(), "t2"))(t)
	assert.Equal(t, rec, out.Turn)
	assert.Equal(t, turn.StateRunning, rec.State)
	assert.Equal(t, int64(1), rec.MessageSeq)
	assert.Equal(t, "wf-"+s.session, rec.WorkflowID)
	assert.Equal(t, s.at, rec.StartedAt)
	assert.Equal(t, 1, s.count(turn.EventTurnStarted))

	session := s.sessionRecord()
	assert.Equal(t, rec, session.LastTurn)
	assert.Equal(t, 1, session.Turns)
	assert.Equal(t, "question of t2", session.FirstText)
}

func beginResumes(t *testing.T, open func() *journal.DB) {
	s := newScript(t, open(), "t1")
	first := s.head
	s.infer(1, "hello")
	in := s.beginInput()
	in.RunID, in.Config, in.Message.Text = "run-2", json.RawMessage(`{"pin":"other"}`), "another text"
	var out journal.BeginResult
	for range 2 {
		var err error
		out, err = s.Begin(t.Context(), in)
		require.NoError(t, err)
	}
	assert.True(t, out.Resumed)
	assert.Equal(t, first, out.Head, "the head is right after the turn's message, whatever came since")
	assert.JSONEq(t, `{"pin":"t1"}`, string(out.Config), "the first pins stay")
	assert.Equal(t, "run-2", out.Turn.RunID)
	assert.Len(t, s.transcript(), 2)
	assert.Equal(t, 1, s.count(turn.EventTurnStarted))
}

func beginFinished(t *testing.T, open func() *journal.DB) {
	s := newScript(t, open(), "t1")
	rec := s.finish()
	s.unchanged(func() {
		in := s.beginInput()
		in.RunID = "run-of-a-reset"
		out := must(s.Begin(t.Context(), in))(t)
		assert.True(t, out.Resumed)
		assert.Equal(t, rec, out.Turn)
	})
}

func messageOnce(t *testing.T, open func() *journal.DB) {
	s := newScript(t, open(), "t1")
	again := func() {
		t.Helper()
		in := s.beginInput()
		in.Turn = "t-late"
		out, err := s.Begin(t.Context(), in)
		require.NoError(t, err)
		require.NotNil(t, out.DuplicateOf, "the message was taken twice")
		assert.False(t, out.TextDiffers)
		assert.Equal(t, "t1", out.DuplicateOf.ID)
		_, err = s.Turn(t.Context(), "t-late")
		assert.ErrorIs(t, err, journal.ErrNotFound)
		late, err := s.Events(t.Context(), "t-late", -1, 10)
		require.NoError(t, err)
		assert.Empty(t, late)
	}
	s.unchanged(again) // while the first turn runs: it is not closed either
	s.finish()
	s.unchanged(again)
	next := &script{T: t, DB: s.DB, session: "s", turn: "t2", at: s.at}
	next.begin()
	next.unchanged(again)
	next.unchanged(func() {
		in := s.beginInput()
		in.Turn, in.Message.Text = "t-late", "another text"
		out := must(s.Begin(t.Context(), in))(t)
		require.NotNil(t, out.DuplicateOf)
		assert.True(t, out.TextDiffers)
	})
}

func leftFirst(t *testing.T, open func() *journal.DB) {
	s := newScript(t, open(), "t1")
	s.finish()
	in := s.finishInput()
	in.Left = []turn.UserMessage{{ID: "left 1", Text: "one", Late: true}, {ID: "left 2", Text: "two", Late: true}}
	must(s.Finish(t.Context(), in))(t)
	begin := func(message turn.UserMessage) journal.BeginResult {
		t.Helper()
		next := s.beginInput()
		next.Turn, next.Message = "turn of "+message.ID, message
		return must(s.Begin(t.Context(), next))(t)
	}
	later := turn.UserMessage{ID: "later", Text: "three"}
	s.unchanged(func() { assert.Equal(t, in.Left, begin(later).Earlier) })
	s.unchanged(func() { assert.Equal(t, in.Left[:1], begin(in.Left[1]).Earlier) })
	for range 2 { // the second time, the turn resumes
		first := begin(in.Left[0])
		assert.Empty(t, first.Earlier)
		assert.Equal(t, in.Left[1:], first.Later, "the turn gets them next")
	}
	assert.Empty(t, begin(later).Earlier, "the turn before has them")
}

func duplicateLeftFirst(t *testing.T, open func() *journal.DB) {
	s := newScript(t, open(), "t1")
	s.finish()
	left := []turn.UserMessage{{ID: "left 1", Text: "one", Late: true}, {ID: "left 2", Text: "two", Late: true}}
	in := s.finishInput()
	in.Left = left[:1]
	must(s.Finish(t.Context(), in))(t)
	for range 2 { // the second time, a retry
		require.NoError(t, s.KeepLeft(t.Context(), "s", left))
	}
	require.NoError(t, s.KeepLeft(t.Context(), "unknown", left))
	require.NoError(t, s.Tenant("other").KeepLeft(t.Context(), "s", []turn.UserMessage{{ID: "of another tenant"}}))
	next := s.beginInput()
	next.Turn, next.Message = "later", turn.UserMessage{ID: "later", Text: "three"}
	s.unchanged(func() { assert.Equal(t, left, must(s.Begin(t.Context(), next))(t).Earlier) })
}

func messagePerSession(t *testing.T, open func() *journal.DB) {
	s := newScript(t, open(), "t1")
	in := s.beginInput()
	in.Session, in.Turn = "other", "t2"
	out := must(s.Begin(t.Context(), in))(t)
	assert.Nil(t, out.DuplicateOf)
	assert.Equal(t, "m-t1", out.Turn.MessageID)
}

func messageWithoutID(t *testing.T, open func() *journal.DB) {
	s := newScript(t, open(), "t1")
	in := s.beginInput()
	in.Session, in.Turn, in.Message.ID = "other", "t2", ""
	first := must(s.Begin(t.Context(), in))(t)
	assert.NotEmpty(t, first.Turn.MessageID)
	second := must(s.Begin(t.Context(), in))(t)
	assert.True(t, second.Resumed)
	assert.Equal(t, first.Head, second.Head)
}

func beginOther(t *testing.T, open func() *journal.DB) {
	s := newScript(t, open(), "t1")
	s.unchanged(func() {
		in := s.beginInput()
		in.Message.ID = "another"
		_, err := s.Begin(t.Context(), in)
		assert.Error(t, err, "the second message would be lost in silence")
	})
}

func messageFromBlob(t *testing.T, open func() *journal.DB) {
	s := newScript(t, open(), "t1")
	text := bigText(5<<20, "message")
	hash, err := s.PutBlob(t.Context(), "text/plain", []byte(text))
	require.NoError(t, err)
	in := s.beginInput()
	in.Session, in.Turn, in.Message.Text, in.Message.Blob = "other", "t2", "", hash
	out, err := s.Begin(t.Context(), in)
	require.NoError(t, err)
	list, err := s.Messages(t.Context(), "other", 1, 1)
	require.NoError(t, err)
	require.Len(t, list, 1)
	assert.True(t, list[0].Text == text)
	assert.Equal(t, journal.Next(turn.Head{}, list[0]), out.Head)

	in.Session, in.Turn, in.Message.Blob = "third", "t3", journal.HashOf([]byte("nothing"))
	_, err = s.Begin(t.Context(), in)
	assert.ErrorIs(t, err, journal.ErrNotFound)
	_, err = s.Session(t.Context(), "third")
	assert.ErrorIs(t, err, journal.ErrNotFound, "a refused turn leaves no session")
}

func sessionsListed(t *testing.T, open func() *journal.DB) {
	s := newScript(t, open(), "t1")
	for _, id := range []string{"b", "c"} {
		s.session, s.turn = id, "t-"+id
		s.begin()
	}
	s.session, s.turn = "s", "t1"
	s.finish()
	list := must(s.Sessions(t.Context(), 2))(t)
	require.Len(t, list, 2)
	assert.Equal(t, []string{"s", "c"}, []string{list[0].ID, list[1].ID})
	assert.Equal(t, s.sessionRecord(), list[0])
}
