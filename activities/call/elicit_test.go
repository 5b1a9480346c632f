package call

import (
	"context"
	"encoding/json"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/testsuite"

	"github.com/everturn/everturn/activities/attempt"
	"github.com/everturn/everturn/journal"
	"github.com/everturn/everturn/workflows"
	"github.com/everturn/everturn/workflows/turn"
)

// TestAWorkerHasABoundedNumberOfWaitingCalls checks that a server gets a cancel, and no user is asked, while half of
// the worker's slots wait already.
func TestAWorkerHasABoundedNumberOfWaitingCalls(t *testing.T) {
	for slots, most := range map[int]int64{1: 0, 3: 1, 100: maxWaitingCalls} {
		a := newRunner(t, nil, Options{Slots: slots})
		require.True(t, a.waitingCalls.TryAcquire(most))
		e := &elicitor{Runner: a, ctx: t.Context(), left: time.Hour}
		response := e.elicit(turn.Elicitation{Key: "1", Message: "?"}, nil)
		assert.Equal(t, turn.ElicitationResponse{Key: "1", Action: turn.ElicitationCancel}, response)
		assert.False(t, e.hasAsked())
	}
}

// failing is a tool host whose tool returns an error.
type failing struct{}

func (failing) Check(turn.Descriptor, json.RawMessage) error { return nil }

func (failing) Call(context.Context, turn.ToolRequest) (turn.ToolResult, error) {
	return turn.ToolResult{Outcome: turn.OutcomeError, Text: "no"}, nil
}

// TestACallThatHasAskedIsNotRepeatedAfterItsError checks that a call whose server has asked the user is settled if it
// fails, because another attempt would ask again.
func TestACallThatHasAskedIsNotRepeatedAfterItsError(t *testing.T) {
	for _, asked := range []bool{false, true} {
		db, in := claimable(t)
		a := newRunner(t, allowing{db, in}, Options{Tools: failing{}})
		in.Attempt, in.RetryIfError = 1, true
		e := &elicitor{}
		e.asked.Store(asked)
		receipt, err := a.callTool(t.Context(), in, attempt.StartClock(t.Context()), e)
		if !asked {
			assert.Equal(t, turn.CodeToolFailed, turn.CodeOf(err), "the workflow attempts it again")
			continue
		}
		require.NoError(t, err)
		assert.Equal(t, turn.OutcomeError, receipt.Outcome)
	}
}

// TestAStoppingWorkerPassesOnTheResponseThatCameFirst checks that a stopping worker withdraws the elicitation before
// the server gets a cancel, and that the server gets the response if the workflow has accepted one before.
func TestAStoppingWorkerPassesOnTheResponseThatCameFirst(t *testing.T) {
	decline := &turn.ElicitationResponse{Action: turn.ElicitationDecline}
	for name, c := range map[string]struct {
		decided turn.Decision // by the withdrawal
		action  turn.ElicitationAction
	}{
		"a response":  {turn.Decision{ID: "e1.0.1", Status: turn.StatusAnswered, Response: decline}, turn.ElicitationDecline},
		"no response": {turn.Decision{ID: "e1.0.1", Status: turn.StatusExpired}, turn.ElicitationCancel},
	} {
		t.Run(name, func(t *testing.T) {
			db, in := claimable(t)
			_, err := db.ClaimCall(t.Context(), journal.CallRecord{Turn: "t", Step: 1, Attempt: 1, ClaimedAt: time.Now(),
				Call: turn.ToolCall{ID: "1.0", Tool: "mcp/x/y", Arguments: "{}"}}, false)
			require.NoError(t, err)
			a := newRunner(t, db, Options{Slots: 2})
			stopping, withdrawn := make(chan struct{}), false
			update := func(ctx context.Context, u workflows.ElicitInput) (string, error) {
				if u.Elicitation == nil {
					withdrawn = true
					return "", db.Decide(ctx, "s", "t", []turn.Decision{c.decided}, time.Now())
				}
				defer close(stopping)
				_, err := db.Ask(ctx, "s", "t", []turn.Request{{ID: "e1.0.1",
					Kind: turn.RequestElicitation, Step: 1, Tool: "mcp/x/y", Call: "1.0", Elicitation: u.Elicitation}}, time.Now())
				return "e1.0.1", err
			}
			var suite testsuite.WorkflowTestSuite
			env := suite.NewTestActivityEnvironment()
			env.SetWorkerStopChannel(stopping)
			elicit := func(ctx context.Context) (turn.ElicitationResponse, error) {
				e := &elicitor{Runner: a, ctx: ctx, in: in, clock: attempt.StartClock(ctx), left: time.Hour, update: update}
				defer e.clock.Stop()
				return e.elicit(turn.Elicitation{Key: "1", Message: "?"}, nil), nil
			}
			env.RegisterActivityWithOptions(elicit, activity.RegisterOptions{Name: "elicit"})
			encoded, err := env.ExecuteActivity("elicit")
			require.NoError(t, err)
			var response turn.ElicitationResponse
			require.NoError(t, encoded.Get(&response))
			assert.Equal(t, turn.ElicitationResponse{Key: "1", Action: c.action}, response)
			assert.True(t, withdrawn)
		})
	}
}
