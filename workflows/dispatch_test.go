package workflows

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/testsuite"
	"go.temporal.io/sdk/workflow"

	"github.com/everturn/everturn/workflows/turn"
)

// The server's deadline of a call leaves time for all that CallTool may wait for.
func TestACallsDeadlineIsTheSumOfItsParts(t *testing.T) {
	var suite testsuite.WorkflowTestSuite
	env := suite.NewTestWorkflowEnvironment()
	var deadline time.Duration
	env.RegisterActivityWithOptions(func(ctx context.Context, _ CallInput) (CallResult, error) {
		deadline = activity.GetInfo(ctx).StartToCloseTimeout
		return CallResult{}, nil
	}, activity.RegisterOptions{Name: "CallTool"})
	env.ExecuteWorkflow(func(ctx workflow.Context) error {
		_, err := (&run{}).regularCall(ctx, CallInput{Timeout: 15 * time.Second}, "")
		return err
	})
	require.NoError(t, env.GetWorkflowError())
	assert.GreaterOrEqual(t, deadline, ClaimWithin+15*time.Second+SettleWithin+2*time.Second)
}

// While a worker stops, the SDK may report an error of its own where the activity had a result.
func TestACallWhoseEndWasNotReportedIsAskedOfTheLedger(t *testing.T) {
	var suite testsuite.WorkflowTestSuite
	env := suite.NewTestWorkflowEnvironment()
	var attempts []int
	env.RegisterActivityWithOptions(func(_ context.Context, in CallInput) (CallResult, error) {
		attempts = append(attempts, in.Attempt)
		if in.Attempt == 1 {
			return CallResult{}, errors.New("context canceled")
		}
		return CallResult{CallID: in.Call.ID, Outcome: turn.OutcomeUnknown}, nil
	}, activity.RegisterOptions{Name: "CallTool"})
	env.ExecuteWorkflow(func(ctx workflow.Context) (turn.Outcome, error) {
		r := &run{progress: turn.Progress{Pins: turn.Pins{Version: turn.PinsVersion}}}
		receipt, err := r.dispatch(ctx, &flight{call: turn.CallProposal{ID: "c"}}, turn.Tool{Timeout: time.Second})
		return receipt.Outcome, err
	})
	require.NoError(t, env.GetWorkflowError())
	var outcome turn.Outcome
	require.NoError(t, env.GetWorkflowResult(&outcome))
	assert.Equal(t, turn.OutcomeUnknown, outcome)
	assert.Equal(t, []int{1, 2}, attempts)
}
