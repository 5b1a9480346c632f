package activities

import (
	"context"
	"encoding/json"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/testsuite"

	"github.com/everturn/everturn/journal"
	"github.com/everturn/everturn/workflows"
	"github.com/everturn/everturn/workflows/turn"
)

// fullJournal refuses a number of settlements immediately, as a journal on a full disk does.
type fullJournal struct {
	Journal
	left  int
	cause error
}

func (j *fullJournal) SettleCall(_ context.Context, in journal.SettleInput) (journal.CallRecord, error) {
	if j.left--; j.left >= 0 {
		return journal.CallRecord{}, j.cause
	}
	return journal.CallRecord{Outcome: in.Result.Outcome, Text: in.Result.Text}, nil
}

// TestAResultWaitsForRoomInTheJournal checks that a disk that is full for a moment does not make the outcome of a call
// unknown.
func TestAResultWaitsForRoomInTheJournal(t *testing.T) {
	a := &Activities{journal: &fullJournal{left: 3, cause: errors.New("database or disk is full")}}
	stopped, stop := context.WithCancel(t.Context())
	stop() // the result is recorded even if the call's context is done
	res, err := a.settleCall(stopped, workflows.CallInput{}, turn.ToolResult{Outcome: turn.OutcomeOK, Text: "done"})
	require.NoError(t, err)
	assert.Equal(t, turn.OutcomeOK, res.Outcome)
	assert.Equal(t, "done", res.Preview)
}

// awayJournal refuses writes until a given time, as if another process held the journal's lock.
type awayJournal struct {
	Journal
	until time.Time
}

func (j *awayJournal) SettleCall(_ context.Context, in journal.SettleInput) (journal.CallRecord, error) {
	if time.Now().Before(j.until) {
		return journal.CallRecord{}, errors.New("database is locked")
	}
	return journal.CallRecord{Outcome: in.Result.Outcome, Text: in.Result.Text}, nil
}

// TestASettlementOutlastsALongLock checks that a journal lock of 50 s does not make the outcome of a successful call
// unknown.
func TestASettlementOutlastsALongLock(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := &Activities{journal: &awayJournal{until: time.Now().Add(50 * time.Second)}}
		res, err := a.settleCall(t.Context(), workflows.CallInput{}, turn.ToolResult{Outcome: turn.OutcomeOK})
		require.NoError(t, err)
		assert.Equal(t, turn.OutcomeOK, res.Outcome)
	})
}

// TestASettlementWaitsAsLongAsItsActivityMayRun checks that CallTool retries a settlement until shortly before its
// activity's deadline.
func TestASettlementWaitsAsLongAsItsActivityMayRun(t *testing.T) {
	var suite testsuite.WorkflowTestSuite
	env := suite.NewTestActivityEnvironment()
	within := func(ctx context.Context) (left [2]time.Duration, err error) {
		return [2]time.Duration{(&Activities{}).settleWithin(ctx), time.Until(activity.GetInfo(ctx).Deadline)}, nil
	}
	env.RegisterActivity(within)
	value, err := env.ExecuteActivity(within)
	require.NoError(t, err)
	var got [2]time.Duration
	require.NoError(t, value.Get(&got))
	require.Greater(t, got[1], 2*workflows.SettleWithin, "or this test says nothing")
	assert.InDelta(t, got[1]-workflows.CallRoom, got[0], float64(time.Second))
}

func TestARefusalOfTheJournalIsNotRepeated(t *testing.T) {
	j := &fullJournal{left: 3, cause: journal.ErrStale}
	a := &Activities{journal: j}
	_, err := a.settleCall(t.Context(), workflows.CallInput{}, turn.ToolResult{Outcome: turn.OutcomeOK})
	require.ErrorIs(t, err, journal.ErrStale)
	assert.Equal(t, 2, j.left)
}

// slowJournal takes almost the whole time that a claim may take, and is full for that of a settlement or release.
type slowJournal struct {
	Journal
	clear    map[string]time.Time
	released bool
}

// room accepts an operation shortly before within has passed since the first attempt.
func (j *slowJournal) room(what string, within time.Duration) error {
	if j.clear == nil {
		j.clear = map[string]time.Time{}
	}
	if _, asked := j.clear[what]; !asked {
		j.clear[what] = time.Now().Add(within - 1100*time.Millisecond) // CallTool retries at least every second
	}
	if time.Now().Before(j.clear[what]) {
		return errors.New("database or disk is full")
	}
	return nil
}

func (j *slowJournal) StepMessage(context.Context, journal.StepKey) (turn.Message, error) {
	time.Sleep(workflows.ClaimWithin - 1100*time.Millisecond)
	return turn.Message{ToolCalls: []turn.ToolCall{{ID: "1.0"}}}, nil
}

func (j *slowJournal) ClaimCall(context.Context, journal.ClaimInput) (journal.Claim, error) {
	return journal.Claim{State: journal.ClaimGranted}, nil
}

func (j *slowJournal) SettleCall(_ context.Context, in journal.SettleInput) (journal.CallRecord, error) {
	return journal.CallRecord{Outcome: in.Result.Outcome}, j.room("settle", workflows.SettleWithin)
}

func (j *slowJournal) ReleaseCall(context.Context, string, string, int) error {
	err := j.room("release", workflows.SettleWithin)
	j.released = err == nil
	return err
}

// slowTool uses its whole timeout, and then returns err or an unknown outcome.
type slowTool struct{ err error }

func (slowTool) Check(turn.Descriptor, json.RawMessage) error { return nil }

func (s slowTool) Call(ctx context.Context, _ turn.ToolRequest) (turn.ToolResult, error) {
	<-ctx.Done()
	return turn.ToolResult{Outcome: turn.OutcomeUnknown}, s.err
}

// TestASlowCallOnAFullDiskEndsBeforeItsDeadline checks that everything that CallTool waits for fits before its
// deadline, at which the server gives the attempt up.
func TestASlowCallOnAFullDiskEndsBeforeItsDeadline(t *testing.T) {
	notSent := turn.Errorf(turn.CodeToolNotSent, nil, "the server is away")
	for name, end := range map[string]error{"settled": nil, "given back": notSent} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				j := &slowJournal{}
				a, err := New(Options{Journal: j, Tools: slowTool{end}})
				require.NoError(t, err)
				in := workflows.CallInput{Call: turn.CallProposal{ToolCall: turn.ToolCall{ID: "1.0"}}, Attempt: 1,
					Timeout: 15 * time.Second, ServerWait: time.Minute, Budget: time.Minute}
				began := time.Now()
				allowed(a, in)
				_, err = a.CallTool(t.Context(), in)
				took := time.Since(began)
				if end == nil {
					require.NoError(t, err)
				} else {
					require.ErrorContains(t, err, "the server is away", "the next attempt is told that nothing was sent")
					assert.True(t, j.released, "the next attempt finds no claim")
				}
				assert.Greater(t, took, in.Timeout+workflows.SettleWithin-2*time.Second, "it waited for all three")
				assert.Less(t, took, workflows.CallDeadline(in.Timeout)-4*time.Second)
			})
		})
	}
}
