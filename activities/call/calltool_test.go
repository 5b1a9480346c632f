package call

import (
	"context"
	"encoding/json"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/temporal"

	"github.com/everturn/everturn/journal"
	"github.com/everturn/everturn/workflows"
	"github.com/everturn/everturn/workflows/turn"
)

// fullJournal refuses a number of settlements immediately, as a journal on a full disk does.
type fullJournal struct {
	wholeJournal
	left  int
	cause error
}

func (j *fullJournal) SettleCall(_ context.Context, _, _ string, _ int, r turn.ToolResult,
	_ time.Time) (journal.CallRecord, error) {
	if j.left--; j.left >= 0 {
		return journal.CallRecord{}, j.cause
	}
	return journal.CallRecord{Outcome: r.Outcome, Text: r.Text}, nil
}

// TestAResultWaitsForRoomInTheJournal checks that a disk that is full for a moment does not make the outcome of a call
// unknown.
func TestAResultWaitsForRoomInTheJournal(t *testing.T) {
	a := newRunner(t, &fullJournal{left: 3, cause: errors.New("database or disk is full")}, Options{})
	stopped, stop := context.WithCancel(t.Context())
	stop() // the result is recorded even if the call's context is done
	res, err := a.settleCall(stopped, workflows.CallInput{}, turn.ToolResult{Outcome: turn.OutcomeOK, Text: "done"})
	require.NoError(t, err)
	assert.Equal(t, turn.OutcomeOK, res.Outcome)
	assert.Equal(t, "done", res.Preview)
}

// awayJournal refuses writes until a given time, as if another process held the journal's lock.
type awayJournal struct {
	wholeJournal
	until time.Time
}

func (j *awayJournal) SettleCall(_ context.Context, _, _ string, _ int, r turn.ToolResult,
	_ time.Time) (journal.CallRecord, error) {
	if time.Now().Before(j.until) {
		return journal.CallRecord{}, errors.New("database is locked")
	}
	return journal.CallRecord{Outcome: r.Outcome, Text: r.Text}, nil
}

// TestASettlementOutlastsALongLock checks that a journal lock of 50 s does not make the outcome of a successful call
// unknown.
func TestASettlementOutlastsALongLock(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := newRunner(t, &awayJournal{until: time.Now().Add(50 * time.Second)}, Options{})
		res, err := a.settleCall(t.Context(), workflows.CallInput{}, turn.ToolResult{Outcome: turn.OutcomeOK})
		require.NoError(t, err)
		assert.Equal(t, turn.OutcomeOK, res.Outcome)
	})
}

func TestARefusalOfTheJournalIsNotRepeated(t *testing.T) {
	j := &fullJournal{left: 3, cause: journal.ErrStale}
	a := newRunner(t, j, Options{})
	_, err := a.settleCall(t.Context(), workflows.CallInput{}, turn.ToolResult{Outcome: turn.OutcomeOK})
	require.ErrorIs(t, err, journal.ErrStale)
	assert.Equal(t, 2, j.left)
}

// slowJournal takes almost the whole time that a claim may take, and is full for that of a settlement or release.
type slowJournal struct {
	wholeJournal
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

func (j *slowJournal) ClaimCall(context.Context, journal.CallRecord, bool, ...string) (journal.CallRecord, error) {
	return journal.CallRecord{Claim: journal.ClaimGranted}, nil
}

func (j *slowJournal) SettleCall(_ context.Context, _, _ string, _ int, r turn.ToolResult,
	_ time.Time) (journal.CallRecord, error) {
	return journal.CallRecord{Outcome: r.Outcome}, j.room("settle", workflows.SettleWithin)
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
	notSent := turn.NewError(turn.CodeToolNotSent, nil, "the server is away")
	for name, end := range map[string]error{"settled": nil, "given back": notSent} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				j := &slowJournal{}
				in := workflows.CallInput{Call: turn.ToolCall{ID: "1.0"}, Attempt: 1,
					Timeout: 15 * time.Second, ServerWait: time.Minute, Budget: time.Minute}
				a := newRunner(t, allowing{j, in}, Options{Tools: slowTool{end}})
				began := time.Now()
				_, err := a.CallTool(t.Context(), in)
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

// forgetfulJournal commits the first claim and loses the reply.
type forgetfulJournal struct {
	readyJournal
	claims []journal.CallRecord
}

func (j *forgetfulJournal) ClaimCall(_ context.Context, in journal.CallRecord, _ bool,
	_ ...string) (journal.CallRecord, error) {
	if j.claims = append(j.claims, in); len(j.claims) == 1 {
		return journal.CallRecord{}, errors.New("connection reset by peer")
	}
	return journal.CallRecord{Claim: journal.ClaimGranted}, nil
}

func (*forgetfulJournal) SettleCall(context.Context, string, string, int, turn.ToolResult,
	time.Time) (journal.CallRecord, error) {
	return journal.CallRecord{}, errors.New("database is locked")
}

// doneTool is a tool whose calls succeed.
type doneTool struct{ unsent }

func (doneTool) Call(context.Context, turn.ToolRequest) (turn.ToolResult, error) {
	return turn.ToolResult{Outcome: turn.OutcomeOK}, nil
}

// TestARepeatedClaimIsTheSameClaim checks that a claim whose reply was lost is repeated unchanged, so that the journal
// recognizes it, and that the turn is told that a call whose result cannot be recorded may have run.
func TestARepeatedClaimIsTheSameClaim(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		j := &forgetfulJournal{}
		in := workflows.CallInput{Call: turn.ToolCall{ID: "1.0"}, Attempt: 1,
			Timeout: time.Second, Budget: time.Minute}
		a := newRunner(t, allowing{j, in}, Options{Tools: doneTool{}, Worker: "w"})
		_, err := a.CallTool(t.Context(), in)
		require.Len(t, j.claims, 2)
		assert.Equal(t, j.claims[0], j.claims[1])
		var app *temporal.ApplicationError
		require.ErrorAs(t, err, &app)
		assert.Equal(t, string(turn.CodeJournalUnavailable), app.Type())
		var busy time.Duration
		var reached bool
		require.NoError(t, app.Details(&busy, &reached))
		assert.True(t, reached)
	})
}
