package activities

import (
	"context"
	"errors"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/everturn/everturn/journal"
	"github.com/everturn/everturn/workflows"
	"github.com/everturn/everturn/workflows/turn"
)

// fullJournal refuses settlements for a while, as one on a full disk does: at once.
type fullJournal struct {
	journal.Journal
	left  int
	cause error
}

func (j *fullJournal) SettleCall(_ context.Context, in journal.SettleInput) (journal.CallRecord, error) {
	if j.left--; j.left >= 0 {
		return journal.CallRecord{}, j.cause
	}
	return journal.CallRecord{Outcome: in.Result.Outcome, Text: in.Result.Text}, nil
}

// What a call did is not to be unknown because the disk was full for a moment when it ended.
func TestAResultWaitsForRoomInTheJournal(t *testing.T) {
	a := &Activities{journal: &fullJournal{left: 3, cause: errors.New("database or disk is full")}}
	stopped, stop := context.WithCancel(t.Context())
	stop() // it is recorded even where the call's own time is over
	res, err := a.settleCall(stopped, workflows.CallInput{}, turn.ToolResult{Outcome: turn.OutcomeOK, Text: "done"})
	require.NoError(t, err)
	assert.Equal(t, turn.OutcomeOK, res.Outcome)
	assert.Equal(t, "done", res.Preview)
}

func TestARefusalOfTheJournalIsNotRepeated(t *testing.T) {
	j := &fullJournal{left: 3, cause: journal.ErrStale}
	a := &Activities{journal: j}
	_, err := a.settleCall(t.Context(), workflows.CallInput{}, turn.ToolResult{Outcome: turn.OutcomeOK})
	require.ErrorIs(t, err, journal.ErrStale)
	assert.Equal(t, 2, j.left)
}
