package attempt

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/testsuite"

	"github.com/everturn/everturn/journal"
	"github.com/everturn/everturn/workflows"
	"github.com/everturn/everturn/workflows/turn"
)

func awayFor(retry time.Duration) error {
	return &journal.AwayError{Since: time.Now(), Retry: retry, Cause: errors.New("full")}
}

// TestAnActivityWaitsForTheJournalOutsideOfTheWorker: it fails, and says when to begin again, until its time is over.
func TestAnActivityWaitsForTheJournalOutsideOfTheWorker(t *testing.T) {
	for name, c := range map[string]struct {
		err   error
		more  bool
		delay time.Duration
	}{
		"away":              {awayFor(7 * time.Second), true, 7 * time.Second},
		"away for too long": {awayFor(time.Second), false, time.Second},
		"of unknown cause":  {errors.New("disk I/O error"), true, 0},
	} {
		t.Run(name, func(t *testing.T) {
			var suite testsuite.WorkflowTestSuite
			env := suite.NewTestActivityEnvironment()
			retryFor := time.Hour
			if !c.more {
				retryFor = 0
			}
			act := func(ctx context.Context) error { return Failure(ctx, retryFor, c.err) }
			env.RegisterActivity(act)
			_, err := env.ExecuteActivity(act)
			var app *temporal.ApplicationError
			require.ErrorAs(t, err, &app)
			assert.Equal(t, string(turn.CodeJournalUnavailable), app.Type())
			assert.Equal(t, c.more, !app.NonRetryable())
			assert.Equal(t, c.delay, app.NextRetryDelay())
		})
	}
}

// TestAWriteGoesOnAsSoonAsTheJournalIsBack, and the wait is no working time.
func TestAWriteGoesOnAsSoonAsTheJournalIsBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		back := make(chan struct{})
		ctx, clock, end, err := New(nil, 0).Begin(t.Context(), "t", 1, "")
		require.NoError(t, err)
		defer end()
		began, asked := time.Now(), 0
		time.AfterFunc(3*time.Second, func() { close(back) })
		_, err = RetryUntilAvailable(ctx, time.Hour, func(context.Context) (int, error) {
			if asked++; asked == 1 {
				return 0, &journal.AwayError{Since: began, Retry: time.Minute, Back: back, Cause: errors.New("full")}
			}
			return 0, nil
		})
		require.NoError(t, err)
		assert.Equal(t, 2, asked)
		assert.Equal(t, 3*time.Second, time.Since(began))
		assert.Zero(t, clock.Busy())
	})
}

// TestASettlementWaitsAsLongAsItsActivityMayRun checks that CallTool retries a settlement until shortly before its
// activity's deadline.
func TestASettlementWaitsAsLongAsItsActivityMayRun(t *testing.T) {
	var suite testsuite.WorkflowTestSuite
	env := suite.NewTestActivityEnvironment()
	within := func(ctx context.Context) (left [2]time.Duration, err error) {
		return [2]time.Duration{New(nil, 0).SettleWithin(ctx), time.Until(activity.GetInfo(ctx).Deadline)}, nil
	}
	env.RegisterActivity(within)
	value, err := env.ExecuteActivity(within)
	require.NoError(t, err)
	var got [2]time.Duration
	require.NoError(t, value.Get(&got))
	require.Greater(t, got[1], 2*workflows.SettleWithin, "or this test says nothing")
	assert.InDelta(t, got[1]-workflows.CallRoom, got[0], float64(time.Second))
}

// TestWhatTheJournalRefusesIsNotTriedAgain checks that an error is returned at once if the journal refuses an
// operation. Only an unavailable journal is tried again.
func TestWhatTheJournalRefusesIsNotTriedAgain(t *testing.T) {
	for _, err := range []error{
		journal.ErrConflict, journal.ErrClosed, journal.ErrStale, journal.ErrNotFound, journal.ErrUnapproved,
		journal.ErrNewer,
	} {
		assert.NotEqual(t, turn.CodeJournalUnavailable, AsTurnError(fmt.Errorf("asking: %w", err)).Code, "%v", err)
	}
}
