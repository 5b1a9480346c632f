package call

import (
	"context"
	"encoding/json"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/temporal"

	"github.com/everturn/everturn/journal"
	"github.com/everturn/everturn/journal/fleet"
	"github.com/everturn/everturn/workflows"
	"github.com/everturn/everturn/workflows/turn"
)

func TestARetryDelayIsTheBreakersWithinItsBounds(t *testing.T) {
	const ms = time.Millisecond
	for name, c := range map[string]struct {
		attempt                        int32
		refused                        bool
		after, wait, left, least, most time.Duration
	}{
		"not known":     {1, false, 0, 15 * time.Second, 15 * time.Second, retryAtLeast, 2 * retryAtLeast},
		"the breaker's": {1, false, time.Second, 15 * time.Second, 15 * time.Second, time.Second, 1250 * ms},
		"another worker's turn": {1, false, time.Minute, 15 * time.Second, 15 * time.Second, retryAtMost,
			retryAtMost * 5 / 4},
		"at the end of the time":  {1, false, time.Minute, 15 * time.Second, 300 * ms, 300 * ms, 300 * ms},
		"of a long wait":          {1, false, time.Hour, time.Hour, time.Hour, 36 * time.Second, 45 * time.Second},
		"not known for a while":   {4, false, 0, 15 * time.Second, 15 * time.Second, 800 * ms, 1000 * ms},
		"as the server has asked": {1, true, 19 * time.Second, time.Minute, time.Minute, 19 * time.Second, 24 * time.Second},
		"not known for long":      {900, false, 0, time.Hour, time.Hour, 36 * time.Second, 45 * time.Second},
	} {
		for range 20 {
			got, more := retryDelay(&turn.Error{RetryAfter: c.after, Refused: c.refused}, c.wait, c.left, c.attempt)
			require.True(t, more, name)
			assert.GreaterOrEqual(t, got, c.least, name)
			assert.LessOrEqual(t, got, c.most, name)
		}
	}
	_, more := retryDelay(&turn.Error{}, time.Second, retryAtLeast-1, 1)
	assert.False(t, more, "the time is over")
}

// unsent is a tool host whose server is unavailable, or whose calls fail with a journal error.
type unsent struct{ err error }

func (unsent) Check(turn.Descriptor, json.RawMessage) error { return nil }

func (u unsent) Call(context.Context, turn.ToolRequest) (turn.ToolResult, error) {
	return turn.ToolResult{}, u.err
}

// TestOnlyACallThatWasNotSentMayBeRetried checks that Temporal retries only calls that were not sent: the journal
// decides about an attempt with an unknown end.
func TestOnlyACallThatWasNotSentMayBeRetried(t *testing.T) {
	away := &turn.Error{Code: turn.CodeToolNotSent, Message: "away", RetryAfter: time.Second}
	for name, c := range map[string]struct {
		err   error
		wait  time.Duration
		retry bool
	}{
		"not sent":                      {away, 15 * time.Second, true},
		"not sent, and no time is left": {away, time.Nanosecond, false},
		"drift":                         {turn.NewError(turn.CodeToolDrift, nil, "changed"), 15 * time.Second, false},
		"a server that lost its state":  {turn.NewError(turn.CodeToolStateLost, nil, "gone"), 15 * time.Second, false},
		"the journal is away":           {context.DeadlineExceeded, 15 * time.Second, false},
	} {
		t.Run(name, func(t *testing.T) {
			in := workflows.CallInput{Call: turn.ToolCall{ID: "1.0"}, Attempt: 1,
				Timeout: time.Second, ServerWait: c.wait}
			a := newRunner(t, allowing{&readyJournal{}, in}, Options{Tools: unsent{c.err}})
			_, err := a.CallTool(t.Context(), in)
			var app *temporal.ApplicationError
			require.ErrorAs(t, err, &app)
			assert.Equal(t, c.retry, !app.NonRetryable())
			if c.retry {
				assert.Positive(t, app.NextRetryDelay())
			}
			var busy time.Duration
			assert.NoError(t, app.Details(&busy), "the turn is told how long it took")
		})
	}
}

// readyJournal grants every claim.
type readyJournal struct{ wholeJournal }

func (*readyJournal) StepMessage(context.Context, journal.StepKey) (turn.Message, error) {
	return turn.Message{ToolCalls: []turn.ToolCall{{ID: "1.0"}}}, nil
}

func (*readyJournal) ClaimCall(context.Context, journal.CallRecord, bool, ...string) (journal.CallRecord, error) {
	return journal.CallRecord{Claim: journal.ClaimGranted}, nil
}

func (*readyJournal) Workers(context.Context) ([]fleet.WorkerReport, error) { return nil, nil }

func (*readyJournal) OfferedBy(context.Context, map[string]string) ([]turn.Catalogue, error) {
	return nil, nil
}

func (*readyJournal) ReleaseCall(context.Context, string, string, int) error { return nil }
