package activities

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/testsuite"

	"github.com/everturn/everturn/journal"
	"github.com/everturn/everturn/workflows"
	"github.com/everturn/everturn/workflows/turn"
)

// absent is a journal that has received no message.
type absent struct{}

func (absent) Delivered(context.Context, string, string) (journal.TurnRecord, error) {
	return journal.TurnRecord{}, journal.ErrNotFound
}

func (absent) AnswerKept(context.Context, string, string) (bool, error) { return false, nil }

func TestWhatASessionSaysToADelivery(t *testing.T) {
	for name, c := range map[string]struct {
		err       error
		code      turn.Code // of the activity's error; empty: no error
		retryable bool
	}{
		"taken":                     {},
		"an inbox that is full":     {err: turn.NewError(turn.CodeSessionBusy, nil, "100 messages wait")},
		"a turn that is ending":     {err: turn.NewError(turn.CodeSessionEnding, nil, "in a moment")},
		"a message that is refused": {turn.NewError(turn.CodeInputInvalid, nil, "no"), turn.CodeInputInvalid, false},
		"no server":                 {errors.New("connection refused"), turn.CodeTemporalUnavailable, true},
	} {
		t.Run(name, func(t *testing.T) {
			var suite testsuite.WorkflowTestSuite
			env := suite.NewTestActivityEnvironment()
			sent := 0
			d := NewDeliveries(DeliveryOptions{
				RetryFor: time.Hour,
				Journal:  func(string) Deliverer { return absent{} },
				Running:  func(context.Context, workflows.HandOverInput) (bool, error) { return false, nil },
				Send:     func(context.Context, workflows.HandOverInput) (string, error) { sent++; return "t", c.err },
			})
			env.RegisterActivity(d)
			v, err := env.ExecuteActivity(d.HandOver,
				workflows.HandOverInput{Session: "s", Message: workflows.Message{ID: "m"}, MaxWait: time.Millisecond})
			assert.Equal(t, 1, sent)
			if c.code == "" {
				var res workflows.DeliverResult
				require.NoError(t, err)
				require.NoError(t, v.Get(&res))
				want := workflows.DeliverResult{Session: "s", MessageID: "m", Undelivered: true}
				if c.err == nil {
					want.Accepted = map[string]string{"m": "t"}
				}
				assert.Equal(t, want, res, "it is looked at, and sent, again")
				return
			}
			var app *temporal.ApplicationError
			require.ErrorAs(t, err, &app)
			assert.Equal(t, string(c.code), app.Type())
			assert.Equal(t, c.retryable, !app.NonRetryable())
		})
	}
}
