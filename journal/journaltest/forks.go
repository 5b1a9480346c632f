package journaltest

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/everturn/everturn/journal"
	"github.com/everturn/everturn/workflows/turn"
)

var forkPromises = []promise{
	{"a fork shares the past and leaves it alone", forkShares},
	{"a fork continues on its own", forkGoesOn},
	{"a fork of a fork has the whole past", forkOfFork},
	{"a fork does not separate a call from its result", forkPoints},
	{"a fork needs a session and a new name", forkRefused},
	{"a message of the shared past is not taken again", forkKnowsMessages},
	{"a line of many forks is read whole", longLine},
}

func (s *script) forkInput(at int64, id string) journal.ForkInput {
	return journal.ForkInput{Session: s.session, At: at, ID: id, Time: s.now()}
}

// fork forks the script's session and returns a script for the fork, which has no turn yet.
func (s *script) fork(at int64, id string) *script {
	s.Helper()
	rec := must(s.Fork(s.Context(), s.forkInput(at, id)))(s)
	return &script{T: s.T, DB: s.DB, session: id, turn: "t-" + id, tenant: s.tenant, head: rec.Head, at: s.at}
}

// twoTurns is a session of two turns: user 1, assistant 2 with two calls, their results 3 and 4, assistant 5; user 6,
// assistant 7.
func twoTurns(t *testing.T, j *journal.DB) *script {
	t.Helper()
	s := newScript(t, j, "t1")
	list := calls(1, 2)
	s.infer(1, "look", list...)
	s.run(list[0], "a")
	s.run(list[1], bigText(3000, "b"))
	s.start(2, resultsOf(list...)...)
	out := must(s.SettleInference(t.Context(), s.settleInput(2, 1, "done")))(t)
	s.head = out.Head
	s.finish()
	s.turn = "t2"
	s.begin()
	s.infer(1, bigText(2000, "more"))
	s.finish()
	return s
}

func forkShares(t *testing.T, open func() *journal.DB) {
	s := twoTurns(t, open())
	messages := s.transcript()
	s.unchanged(func() {
		in := s.forkInput(5, "f")
		in.Agent = "another"
		rec := must(s.Fork(t.Context(), in))(t)
		var head turn.Head
		for _, m := range messages[:5] {
			head = journal.Next(head, m)
		}
		assert.Equal(t, journal.SessionRecord{
			ID: "f", Agent: "another", Head: head, CreatedAt: in.Time, UpdatedAt: in.Time, FirstText: "question of t1",
			Parent: "s", ForkSeq: 5,
		}, rec)
		f := &script{T: t, DB: s.DB, session: "f"}
		assert.Equal(t, rec, f.sessionRecord())
		assert.Equal(t, messages[:5], f.transcript())
		for _, c := range [][2]int64{{2, 4}, {5, 5}, {4, 99}, {-3, 2}, {6, 9}, {3, 2}} {
			window := must(s.Messages(t.Context(), "f", c[0], c[1]))(t)
			var want []turn.Message
			if c[0] <= min(c[1], 5) {
				want = messages[max(c[0]-1, 0):min(c[1], 5)]
			}
			assert.ElementsMatch(t, want, window, "%v", c)
		}
		list := must(s.Sessions(t.Context(), 10))(t)
		require.Len(t, list, 2)
		assert.Equal(t, rec, list[0], "a session without a turn is listed, too")
		turns := must(s.Turns(t.Context(), "f"))(t)
		assert.Empty(t, turns)
	})
	f := s.fork(7, "whole")
	assert.Equal(t, s.sessionRecord().Head, f.head)
	assert.Equal(t, "agent", f.sessionRecord().Agent, "that of the forked one")
}

func forkGoesOn(t *testing.T, open func() *journal.DB) {
	s := twoTurns(t, open())
	f := s.fork(4, "f") // in the middle of t1: the model gets the results once more
	s.unchanged(func() {
		out := f.begin()
		assert.Equal(t, int64(5), out.Head.Seq)
		assert.Empty(t, out.Closed)
		f.head = out.Head
		list := calls(1, 1)
		f.infer(1, "another way", list...)
		f.run(list[0], "c")
		in := f.startInput(2, resultsOf(list...)...)
		in.Messages = joined("j1")
		base, err := f.StartInference(t.Context(), in)
		require.NoError(t, err)
		again, err := f.StartInference(t.Context(), in)
		require.NoError(t, err)
		assert.Equal(t, base.Base, again.Base)
		wrong := in
		wrong.Expect = turn.Head{Seq: 3, Hash: in.Expect.Hash}
		_, err = f.StartInference(t.Context(), wrong)
		assert.ErrorIs(t, err, journal.ErrConflict)
		_ = must(f.SettleInference(t.Context(), f.settleInput(2, 2, "done")))(t)
		message := must(f.StepMessage(t.Context(), f.key(2)))(t)
		assert.Equal(t, "done", message.Text)
		f.finish()
	})
	messages := f.transcript()
	require.Len(t, messages, 9)
	assert.Equal(t, s.transcript()[:4], messages[:4])
	window := must(f.Messages(t.Context(), "f", 3, 7))(t)
	assert.Equal(t, messages[2:7], window, "over the fork point")
	f.turn = "t-f2"
	f.begin()
	rec := f.sessionRecord()
	assert.Equal(t, 2, rec.Turns)
	assert.Equal(t, "t-f2", rec.LastTurn.ID)

	s.turn = "t3"
	s.begin()
	assert.Len(t, s.transcript(), 8)
	assert.Len(t, f.transcript(), 10, "what the forked one goes on with is not the fork's")
}

func forkOfFork(t *testing.T, open func() *journal.DB) {
	s := twoTurns(t, open())
	f := s.fork(5, "f")
	f.begin()
	f.infer(1, "answer of f")
	f.finish()
	g := f.fork(6, "g") // a point in the fork's own messages
	h := f.fork(2+2, "h")
	assert.Equal(t, f.transcript()[:6], g.transcript())
	assert.Equal(t, s.transcript()[:4], h.transcript(), "a point that f has from s")
	assert.Equal(t, "f", h.sessionRecord().Parent)
	h.begin()
	h.infer(1, "answer of h")
	g.begin()
	g.infer(1, "answer of g")
	i := h.fork(6, "i")
	want := append(append([]turn.Message(nil), s.transcript()[:4]...), h.transcript()[4:]...)
	assert.Equal(t, want, i.transcript())
	window := must(s.Messages(t.Context(), "g", 5, 7))(t)
	assert.Equal(t, []string{s.transcript()[4].Text, f.transcript()[5].Text, g.transcript()[6].Text},
		[]string{window[0].Text, window[1].Text, window[2].Text})
}

func forkPoints(t *testing.T, open func() *journal.DB) {
	s := twoTurns(t, open())
	s.unchanged(func() {
		for at, says := range map[int64]string{2: "at 1 or 4", 3: "at 1 or 4", 0: "1 to 7", 8: "1 to 7", -1: "1 to 7"} {
			_, err := s.Fork(t.Context(), s.forkInput(at, "f"))
			assert.ErrorIs(t, err, journal.ErrForkPoint)
			assert.ErrorContains(t, err, says)
		}
		_, err := s.Session(t.Context(), "f")
		assert.ErrorIs(t, err, journal.ErrNotFound)
	})
	for _, at := range []int64{1, 4, 5, 6, 7} {
		f := s.fork(at, fmt.Sprintf("f%d", at))
		assert.Equal(t, at, f.head.Seq)
	}
	s.turn = "t3"
	s.begin()
	s.infer(1, "look", calls(1, 1)...)
	_, err := s.Fork(t.Context(), s.forkInput(9, "f"))
	assert.ErrorIs(t, err, journal.ErrForkPoint, "the result is still to come")
	assert.ErrorContains(t, err, "fork it at 8")
	s.fork(8, "f")
}

func forkRefused(t *testing.T, open func() *journal.DB) {
	s := twoTurns(t, open())
	s.fork(5, "f")
	s.unchanged(func() {
		for _, id := range []string{"f", "s"} {
			_, err := s.Fork(t.Context(), s.forkInput(5, id))
			assert.ErrorIs(t, err, journal.ErrExists)
		}
		_, err := s.Fork(t.Context(), s.forkInput(5, ""))
		assert.Error(t, err)
		in := s.forkInput(1, "g")
		in.Session = "none"
		_, err = s.Fork(t.Context(), in)
		assert.ErrorIs(t, err, journal.ErrNotFound)
	})
}

func forkKnowsMessages(t *testing.T, open func() *journal.DB) {
	s := twoTurns(t, open())
	f := s.fork(5, "f")
	in := f.beginInput()
	in.Message.ID = "m-t1"
	out, err := f.Begin(t.Context(), in)
	require.NoError(t, err)
	require.NotNil(t, out.DuplicateOf)
	assert.Equal(t, "t1", out.DuplicateOf.ID)
	rec, err := f.Delivered(t.Context(), "f", "m-t1")
	require.NoError(t, err)
	assert.Equal(t, "t1", rec.ID)
	_, err = f.Delivered(t.Context(), "f", "m-t2")
	assert.ErrorIs(t, err, journal.ErrNotFound, "that came after the fork point")
	in.Message.ID = "m-t2"
	out = must(f.Begin(t.Context(), in))(t)
	assert.Nil(t, out.DuplicateOf, "and may be said again in the fork")
	f.head = out.Head
	start := f.startInput(1)
	start.Messages = joined("m-t1", "new")
	_ = must(f.StartInference(t.Context(), start))(t)
	assert.Equal(t, []string{"m-t1", "m-t2", "new"}, f.userIDs())
	rules := must(f.Grants(t.Context(), f.turn))(t)
	assert.Empty(t, rules)
}

// longLine forks a session repeatedly, each time after a turn of the fork's own.
func longLine(t *testing.T, open func() *journal.DB) {
	s := newScript(t, open(), "t0")
	const forks = 30
	for i := range forks {
		s.infer(1, fmt.Sprintf("answer %d", i))
		s.finish()
		s = s.fork(s.head.Seq, fmt.Sprintf("f%d", i))
		s.begin()
	}
	messages := s.transcript()
	require.Len(t, messages, 2*forks+1)
	for i := range forks {
		assert.Equal(t, fmt.Sprintf("answer %d", i), messages[2*i+1].Text)
	}
}
