package workflows

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/testsuite"
	"go.temporal.io/sdk/workflow"
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
		_, err := (&run{}).regularCall(ctx, CallInput{Timeout: 15 * time.Second})
		return err
	})
	require.NoError(t, env.GetWorkflowError())
	assert.GreaterOrEqual(t, deadline, ClaimWithin+15*time.Second+SettleWithin+2*time.Second)
}
