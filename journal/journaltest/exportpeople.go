package journaltest

import (
	"bytes"
	"context"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/everturn/everturn/journal"
	"github.com/everturn/everturn/journal/follow"
	"github.com/everturn/everturn/workflows/turn"
)

var exportPeoplePromises = []promise{
	{"a session without its events is exported and imported", prunedExport},
	{"a fork is imported whole if the journal does not have its past", forkImportedWhole},
	{"a fork is imported as a fork if the journal has its past", forkImportedAsFork},
	{"an exported fork leaves out what came after it", forkExportsNoMore},
	{"a fork of a waiting turn is imported without its requests", forkOfWaiting},
}

func exportOf(t *testing.T, db *journal.DB, session string) []byte {
	t.Helper()
	var out bytes.Buffer
	require.NoError(t, db.Export(t.Context(), session, &out))
	return out.Bytes()
}

func importInto(t *testing.T, db *journal.DB, b []byte) journal.SessionRecord {
	t.Helper()
	rec := must(db.Import(t.Context(), bytes.NewReader(b)))(t)
	return rec.Session
}

func prunedExport(t *testing.T, open func() *journal.DB) {
	s := turnsOf(t, open(), 3)
	s.prune(start.Add(150*time.Minute), 10)
	b := exportOf(t, s.DB, "s")
	other := *s
	other.DB = open()
	assert.Equal(t, s.sessionRecord(), importInto(t, other.DB, b))
	again := exportOf(t, other.DB, "s")
	assert.Equal(t, history(t, b), history(t, again))
	assert.Equal(t, []turn.EventKind{turn.EventTurnCompleted}, other.left("t2"))
	assert.Len(t, other.left("t3"), started+4)
	assert.Equal(t, 1, other.prune(s.at.Add(time.Hour), 10), "and knows what was removed")
	ctx, cancel := context.WithTimeout(t.Context(), followTimeout)
	defer cancel()
	for e, err := range follow.Turn(ctx, other.DB, "t1", -1) {
		require.NoError(t, err)
		assert.Equal(t, int64(started+3), e.Index)
	}
}

// forked is a session and its fork in the middle of the first turn; the fork has a turn of its own.
func forked(t *testing.T, open func() *journal.DB) (s, f *script) {
	t.Helper()
	s = twoTurns(t, open())
	f = s.fork(4, "f")
	f.begin()
	f.infer(1, bigText(2000, "another way"))
	f.finish()
	return s, f
}

func forkImportedWhole(t *testing.T, open func() *journal.DB) {
	_, f := forked(t, open)
	b := exportOf(t, f.DB, "f")
	other := *f
	other.DB = open()
	rec := importInto(t, other.DB, b)
	assert.Equal(t, f.sessionRecord().Head, rec.Head)
	assert.Equal(t, []any{"", int64(0), 2}, []any{rec.Parent, rec.ForkSeq, rec.Turns})
	assert.Equal(t, f.transcript(), other.transcript())
	assert.Equal(t, f.events(), other.events())
	turns := must(other.Turns(t.Context(), "f"))(t)
	require.Len(t, turns, 2)
	assert.Equal(t, []any{"t1", turn.StateClosed, journal.ForkedMessage},
		[]any{turns[0].ID, turns[0].State, turns[0].Message})
	calls := must(other.Calls(t.Context(), "t1"))(t)
	assert.Len(t, calls, 2)
	steps := must(other.Inferences(t.Context(), "t1"))(t)
	assert.Len(t, steps, 1, "the second came after the fork")
	assert.Equal(t, []turn.EventKind{turn.EventTurnCompleted}, other.left("t1"))
	delivered := must(other.Delivered(t.Context(), "f", "m-t1"))(t)
	assert.Equal(t, "t1", delivered.ID)
	importInto(t, other.DB, b) // again
	assert.Equal(t, rec, other.sessionRecord())

	other.turn = "t9"
	assert.Empty(t, other.begin().Closed)
	other.infer(1, "and on it goes")
	other.finish()
	assert.Len(t, other.transcript(), 8)
}

func forkImportedAsFork(t *testing.T, open func() *journal.DB) {
	s, f := forked(t, open)
	f.unchanged(func() {
		b := exportOf(t, f.DB, "f")
		importInto(t, f.DB, b) // into the journal that it was exported from
	})
	parent := exportOf(t, s.DB, "s")
	b := exportOf(t, f.DB, "f")
	other := *f
	other.DB = open()
	importInto(t, other.DB, parent)
	assert.Equal(t, f.sessionRecord(), importInto(t, other.DB, b))
	assert.Equal(t, f.state(), other.state())
	again := exportOf(t, other.DB, "f")
	assert.Equal(t, history(t, b), history(t, again))

	// Two forks are imported without the session that they share a past with: the second becomes a fork of the first.
	s.fork(5, "g")
	g := exportOf(t, s.DB, "g")
	two := *f
	two.DB = open()
	importInto(t, two.DB, g)
	rec := importInto(t, two.DB, b)
	assert.Equal(t, []any{"g", int64(4), 1}, []any{rec.Parent, rec.ForkSeq, rec.Turns})
	assert.Equal(t, f.state().Messages, two.state().Messages)

	_, err := two.Import(t.Context(), bytes.NewReader(parent))
	assert.ErrorIs(t, err, journal.ErrConflict, "its turns are g's there")
}

func forkExportsNoMore(t *testing.T, open func() *journal.DB) {
	s := newScript(t, open(), "t1")
	list := calls(1, 1)
	s.infer(1, "look", list...)
	s.ask(approvalOf(list[0]))
	rule := allowed(approvalOf(list[0]))
	rule.Grant = turn.GrantTool
	s.decide(rule)
	s.run(list[0], "what is shared")
	s.start(2, resultsOf(list...)...)
	secret := calls(2, 1)
	secret[0].Arguments = bigText(2000, "secret arguments")
	out := must(s.SettleInference(t.Context(), s.settleInput(2, 1, "a secret text", secret...)))(t)
	s.head = out.Head
	s.run(secret[0], bigText(2000, "secret result"))
	f := s.fork(3, "f")
	g := f.fork(1, "g")
	b := exportOf(t, f.DB, "f")
	assert.NotContains(t, string(b), "secret")
	assert.NotContains(t, string(b), `"grant":{`, "what was allowed to the forked session is not allowed to the fork")
	other := *f
	other.DB = open()
	importInto(t, other.DB, b)
	requests := must(other.Requests(t.Context(), "t1"))(t)
	require.Len(t, requests, 1)
	assert.Equal(t, &rule, requests[0].Decision)
	assert.Empty(t, other.begin().Closed, "the turn still runs in the session that was forked; here it does not")
	b = exportOf(t, g.DB, "g")
	assert.NotContains(t, string(b), "shared")
	assert.Equal(t, 1, strings.Count(string(b), `"message":{"seq"`))
	for range 2 {
		importInto(t, open(), b)
	}
}

func forkOfWaiting(t *testing.T, open func() *journal.DB) {
	s := newScript(t, open(), "t1")
	s.infer(1, "which one?")
	s.ask(questionOf("q1", 1))
	f := s.fork(2, "f")
	b := exportOf(t, f.DB, "f")
	other := *f
	other.DB = open()
	importInto(t, other.DB, b)
	waiting := must(other.PendingRequests(t.Context(), "", 10))(t)
	assert.Empty(t, waiting)
	waiting = must(s.PendingRequests(t.Context(), "", 10))(t)
	assert.Len(t, waiting, 1)
	waiting = must(s.PendingRequests(t.Context(), "f", 10))(t)
	assert.Empty(t, waiting, "the fork waits for nothing")
}
