package journaltest

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/everturn/everturn/journal"
	"github.com/everturn/everturn/journal/follow"
	"github.com/everturn/everturn/workflows/turn"
)

var prunePromises = []promise{
	{"old events are removed and the transcript stays", pruneKeeps},
	{"events of turns that run or are younger stay", pruneSpares},
	{"events are removed a limit at a time", pruneLimit},
	{"follow of a turn without its events ends", pruneFollow},
}

// turnsOf begins and ends n turns with a few events each, an hour apart.
func turnsOf(t *testing.T, j *journal.DB, n int) *script {
	t.Helper()
	s := &script{T: t, DB: j, session: "s", at: start}
	for i := range n {
		s.turn = fmt.Sprintf("t%d", i+1)
		s.begin()
		s.start(1)
		require.NoError(t, s.append(1, 1, "some ", "text"))
		s.at = start.Add(time.Duration(i+1) * time.Hour)
		s.finish()
	}
	return s
}

func (s *script) prune(before time.Time, limit int) int {
	s.Helper()
	n := must(s.PruneEvents(s.Context(), before, limit))(s)
	return n
}

// left returns the kinds of the events that a turn has.
func (s *script) left(turnID string) (kinds []turn.EventKind) {
	s.Helper()
	list := must(s.Events(s.Context(), turnID, -1, 100))(s)
	for _, e := range list {
		kinds = append(kinds, e.Kind)
	}
	return kinds
}

func pruneKeeps(t *testing.T, open func() *journal.DB) {
	s := twoTurns(t, open())
	before := s.state()
	last := before.Events[len(before.Events)-1]
	assert.Equal(t, 2, s.prune(s.at.Add(time.Hour), 10))
	list := must(s.Events(t.Context(), s.turn, -1, 100))(t)
	assert.Equal(t, []turn.Event{last}, list, "the end stays, under its index")
	before.Events = nil
	assert.Equal(t, before.Messages, s.transcript())
	steps := must(s.Inferences(t.Context(), s.turn))(t)
	assert.Equal(t, before.Steps, steps)
	assert.Equal(t, before.Session, s.sessionRecord())
	assert.Zero(t, s.prune(s.at.Add(time.Hour), 10), "nothing is removed twice")
}

func pruneSpares(t *testing.T, open func() *journal.DB) {
	s := turnsOf(t, open(), 2)
	s.turn = "t3"
	s.begin()
	s.at = start
	assert.Equal(t, 1, s.prune(start.Add(90*time.Minute), 10))
	assert.Equal(t, []turn.EventKind{turn.EventTurnCompleted}, s.left("t1"))
	assert.Len(t, s.left("t2"), started+4)
	assert.Equal(t, 1, s.prune(start.Add(1000*time.Hour), 10))
	assert.Equal(t, []turn.EventKind{turn.EventTurnStarted, turn.EventPhase}, s.left("t3"), "it runs")
	s.start(1)
	require.NoError(t, s.append(1, 1, "more"))
	s.finish()
	s.events()
}

func pruneLimit(t *testing.T, open func() *journal.DB) {
	s := turnsOf(t, open(), 40)
	assert.Zero(t, s.prune(s.at.Add(time.Hour), 0))
	assert.Equal(t, 19, s.prune(s.at.Add(time.Hour), 19))
	assert.Len(t, s.left("t19"), 1, "the oldest first")
	assert.Len(t, s.left("t20"), started+4)
	assert.Equal(t, 21, s.prune(s.at.Add(time.Hour), 100))
}

func pruneFollow(t *testing.T, open func() *journal.DB) {
	s := turnsOf(t, open(), 1)
	s.prune(s.at.Add(time.Hour), 10)
	ctx, cancel := context.WithTimeout(t.Context(), followTimeout)
	defer cancel()
	for after, want := range map[int64]int{-1: 1, 0: 1, started + 2: 1, started + 3: 0, 50: 0} {
		n := 0
		for e, err := range follow.Turn(ctx, s.DB, "t1", after) {
			require.NoError(t, err)
			assert.Equal(t, turn.EventTurnCompleted, e.Kind)
			n++
		}
		assert.Equal(t, want, n, "after %d", after)
	}
}
