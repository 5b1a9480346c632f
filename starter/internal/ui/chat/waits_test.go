package chat

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/everturn/everturn/client"
	"github.com/everturn/everturn/workflows/turn"
)

// failingJournal is a journal that cannot be read while away is set.
type failingJournal struct {
	client.Journal
	away  atomic.Bool
	reads atomic.Int32
}

func (j *failingJournal) Session(ctx context.Context, id string) (client.Session, error) {
	j.reads.Add(1)
	if j.away.Load() {
		return client.Session{}, errors.New("connection refused")
	}
	return j.Journal.Session(ctx, id)
}

func TestAnOutageOfTheJournalIsOneLine(t *testing.T) {
	s := newStage(t, 80, 24)
	journal := &failingJournal{Journal: s.journal}
	journal.away.Store(true)
	s.o.Journal = journal
	s.do(s.openSession(openedMsg{session: "s"}))
	s.prints("the journal cannot be read since")
	reads := journal.reads.Load()
	s.until("it is read again", func() bool { return journal.reads.Load() >= reads+2 })
	assert.Equal(t, 1, strings.Count(s.all(), "connection refused"))
	journal.away.Store(false)
	s.prints("the journal could not be read from")
	assert.NotContains(t, s.all(), "connection refused")
	s.whole("m1", "Are you there?", "I am.")
	s.prints("I am.")
}

func TestTheStatusSaysWhatTheChatWaitsFor(t *testing.T) {
	s := newStage(t, 80, 24)
	const why = "waiting for a worker of task queue everturn"
	s.o.Waits = func(context.Context, string) string { return why }
	s.says("Go on.")
	assert.NotContains(t, s.bottom(), "everturn")
	s.pass()
	s.shows(why)
	s.begin("m1", "Go on.")
	s.prints("Go on.")
	assert.NotContains(t, s.bottom(), why, "the turn has begun")
	s.pass()
	s.shows(why)
	assert.Regexp(t, why+` \d`, s.bottom())
	attempt := s.infer(nil)
	s.stream(attempt, "Gladly.")
	s.prints("Gladly.")
	s.clock = s.clock.Add(-time.Hour)
	s.settle(attempt, "Gladly.")
	s.finish(turn.StateCompleted, turn.FinishAnswered, "")
	s.prints("1 step")
	assert.NotContains(t, s.bottom(), why)
}

func TestAWaitForTheModelIsOneLine(t *testing.T) {
	s := newStage(t, 80, 24)
	s.begin("m1", "Go on.")
	attempt := s.infer(nil)
	waits := func(why string) {
		t.Helper()
		data, err := json.Marshal(turn.WaitingEvent{Provider: "openai", NextAt: s.at})
		require.NoError(t, err)
		require.NoError(t, s.journal.AppendEvents(t.Context(), s.story.key(), attempt,
			[]turn.Event{{Kind: turn.EventInferenceWaiting, Text: why, Data: data, At: s.story.now()}}))
		s.prints("waiting for openai: " + why)
	}
	waits("slow down")
	waits("overloaded")
	assert.NotContains(t, s.all(), "slow down")
	s.stream(attempt, "Half an ans")
	s.prints("Half an ans")
	waits("too busy")
	assert.Contains(t, s.all(), "overloaded", "it was another wait")
}
