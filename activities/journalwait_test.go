package activities

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/testsuite"

	"github.com/everturn/everturn/journal"
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
			act := func(ctx context.Context) error { return failure(ctx, retryFor, c.err) }
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
		clock := startClock(t.Context())
		began, asked := time.Now(), 0
		time.AfterFunc(3*time.Second, func() { close(back) })
		_, err := retryUntilAvailable(withClock(t.Context(), clock), time.Hour, func(context.Context) (int, error) {
			if asked++; asked == 1 {
				return 0, &journal.AwayError{Since: began, Retry: time.Minute, Back: back, Cause: errors.New("full")}
			}
			return 0, nil
		})
		require.NoError(t, err)
		assert.Equal(t, 2, asked)
		assert.Equal(t, 3*time.Second, time.Since(began))
		assert.Zero(t, clock.busy())
	})
}

// fullStream is a journal that takes no events before a time.
type fullStream struct {
	Journal
	until  time.Time
	events []turn.Event
}

func (j *fullStream) AppendStream(_ context.Context, in journal.StreamInput) error {
	if time.Now().Before(j.until) {
		return errors.New("database or disk is full")
	}
	j.events = append(j.events, in.Events...)
	return nil
}

// TestAStreamOutlivesAnOutageOfTheJournal: what it has said is paid for.
func TestAStreamOutlivesAnOutageOfTheJournal(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		j := &fullStream{until: time.Now().Add(5 * time.Second)}
		ctx, abort := context.WithCancelCause(t.Context())
		s := openStream(ctx, j, journal.Inference{}, false, 0, abort)
		s.Text("one ")
		time.Sleep(2 * time.Second)
		s.Text("two ")
		time.Sleep(5 * time.Second)
		require.NoError(t, ctx.Err())
		require.Len(t, j.events, 1)
		assert.Equal(t, "one two ", j.events[0].Text)
		s.Text("three")
		rest := s.close()
		require.Len(t, rest, 1)
		assert.Equal(t, "three", rest[0].Text)
	})
}
