package journaltest

import (
	"context"
	"fmt"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/everturn/everturn/journal"
	"github.com/everturn/everturn/journal/follow"
	"github.com/everturn/everturn/workflows/turn"
)

var followSessionPromises = []promise{
	{"a session is followed from turn to turn as they come", func(t *testing.T, open func() *journal.DB) {
		s := open()
		sessionLive(t, s, s)
	}},
	{"a session is read on from any event of any turn", sessionFrom},
	{"a session is followed from its last turn on", sessionFromLast},
	{"a session or turn that has not begun is waited for", sessionEarly},
	{"a cursor of another session is refused", sessionWrongCursor},
	{"turns are listed after one of them", turnsAfter},
}

// reading is a session that a goroutine follows.
type reading struct {
	*testing.T
	events chan turn.Event
	end    chan error
	cancel context.CancelFunc
}

func read(t *testing.T, j follow.SessionStream, session string, from follow.Cursor) *reading {
	ctx, cancel := context.WithTimeout(t.Context(), followTimeout)
	r := &reading{T: t, events: make(chan turn.Event, 10_000), end: make(chan error, 1), cancel: cancel}
	go func() {
		var last error
		for e, err := range follow.Session(ctx, j, session, from) {
			if last = err; err == nil {
				r.events <- e
			}
		}
		close(r.events)
		r.end <- last
	}()
	return r
}

// next waits for the next event and returns it.
func (r *reading) next() turn.Event {
	r.Helper()
	e, ok := <-r.events
	if !ok {
		require.NoError(r, <-r.end, "it ended")
		require.Fail(r, "it ended without an error")
	}
	return e
}

// until reads to the end of a turn and returns the events.
func (r *reading) until(turnID string) (list []turn.Event) {
	r.Helper()
	for {
		e := r.next()
		list = append(list, e)
		if e.Turn == turnID && e.Kind == turn.EventTurnCompleted {
			return list
		}
	}
}

// stop ends the reading and checks that no further event has come.
func (r *reading) stop() {
	r.Helper()
	r.cancel()
	for e := range r.events {
		assert.Fail(r, "one more", "%+v", e)
	}
	assert.ErrorIs(r, <-r.end, context.Canceled)
}

func (s *script) allEvents(turns ...string) (list []turn.Event) {
	s.Helper()
	for _, id := range turns {
		s.turn = id
		list = append(list, s.events()...)
	}
	return list
}

// sessionLive writes through one journal and follows through another one.
func sessionLive(t *testing.T, writer, reader *journal.DB) {
	s := newScript(t, writer, "t1")
	r := read(t, reader, "s", follow.Cursor{})
	defer r.cancel()
	var got []turn.Event
	for i := 1; i <= 4; i++ {
		s.start(1)
		require.NoError(t, s.append(1, 1, "one", "two"))
		if i != 2 { // the next turn's Begin closes the second one
			s.finish()
			got = append(got, r.until(s.turn)...)
		}
		s.turn = fmt.Sprintf("t%d", i+1)
		s.begin()
	}
	s.finish()
	got = append(got, r.until("t5")...)
	r.stop()
	assert.Equal(t, s.allEvents("t1", "t2", "t3", "t4", "t5"), got)
}

func sessionFrom(t *testing.T, open func() *journal.DB) {
	s := turnsOf(t, open(), 3)
	all := s.allEvents("t1", "t2", "t3")
	for i, e := range all {
		r := read(t, s.DB, "s", follow.After(e))
		for _, want := range all[i+1:] {
			assert.Equal(t, want, r.next())
		}
		r.stop()
	}
	r := read(t, s.DB, "s", follow.Cursor{Turn: "t2", Index: -1})
	assert.Equal(t, s.allEvents("t2", "t3"), r.until("t3"))
	r.stop()
}

func sessionFromLast(t *testing.T, open func() *journal.DB) {
	s := turnsOf(t, open(), 3)
	r := read(t, s.DB, "s", follow.Cursor{})
	assert.Equal(t, s.allEvents("t3"), r.until("t3"))
	s.turn = "t4"
	s.begin()
	s.finish()
	assert.Equal(t, s.allEvents("t4"), r.until("t4"))
	r.stop()
	f := s.fork(3, "f")
	r = read(t, s.DB, "f", follow.Cursor{})
	f.begin()
	f.finish()
	assert.Equal(t, f.allEvents(f.turn), r.until(f.turn), "a fork's own turns")
	r.stop()
}

func sessionEarly(t *testing.T, open func() *journal.DB) {
	j := open()
	early := newWatched(j)
	r := read(t, early, "s", follow.Cursor{Turn: "t1", Index: -1})
	defer r.cancel()
	require.NoError(t, early.waiting(t.Context()))
	s := newScript(t, j, "t1")
	s.finish()
	assert.Equal(t, s.allEvents("t1"), r.until("t1"))
	r.stop()

	known := newWatched(j)
	r = read(t, known, "s", follow.Cursor{Turn: "never", Index: 7})
	defer r.cancel()
	require.NoError(t, known.waiting(t.Context()))
	s.turn = "t2" // the message that "never" was to begin with was answered before
	s.begin()
	s.finish()
	assert.Equal(t, s.allEvents("t2"), r.until("t2"))
	r.stop()
}

func sessionWrongCursor(t *testing.T, open func() *journal.DB) {
	s := twoTurns(t, open())
	s.fork(5, "f")
	r := read(t, s.DB, "f", follow.Cursor{Turn: "t1", Index: 0})
	defer r.cancel()
	assert.ErrorIs(t, <-r.end, journal.ErrNotFound)
}

func turnsAfter(t *testing.T, open func() *journal.DB) {
	s := turnsOf(t, open(), 4)
	ids := func(after string, limit int) (out []string) {
		t.Helper()
		list := must(s.TurnsAfter(t.Context(), "s", after, limit))(t)
		for _, r := range list {
			out = append(out, r.ID)
		}
		return out
	}
	assert.Equal(t, []string{"t1", "t2"}, ids("", 2))
	assert.Equal(t, []string{"t3"}, ids("t2", 1))
	assert.Equal(t, []string{"t3", "t4"}, ids("t2", 9))
	assert.Empty(t, ids("t4", 9))
	list, err := s.TurnsAfter(t.Context(), "s", "t3", 9)
	require.NoError(t, err)
	all, err := s.Turns(t.Context(), "s")
	require.NoError(t, err)
	assert.Equal(t, all[3:], list)
	s.session, s.turn = "other", "t-other"
	s.begin()
	for _, c := range [][2]string{{"none", ""}, {"s", "none"}, {"s", "t-other"}} {
		_, err = s.TurnsAfter(t.Context(), c[0], c[1], 9)
		assert.ErrorIs(t, err, journal.ErrNotFound)
	}
}
