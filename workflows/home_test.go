package workflows

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/testsuite"
	"go.temporal.io/sdk/workflow"

	"github.com/everturn/everturn/workflows/turn"
)

// TestCallsSayWhichStateTheyCountOn checks that calls that rely on a stateful server's state name the call that created
// it, so that a late call cannot use another state.
func TestCallsSayWhichStateTheyCountOn(t *testing.T) {
	type dispatch struct {
		call, founder string
		resume        bool
	}
	var suite testsuite.WorkflowTestSuite
	env := suite.NewTestWorkflowEnvironment()
	var got []dispatch
	env.RegisterActivityWithOptions(func(_ context.Context, in CallInput) (CallResult, error) {
		got = append(got, dispatch{in.Call.ID, in.OwningCall, in.Resume})
		if in.Call.ID == "lost" {
			return CallResult{}, temporal.NewNonRetryableApplicationError("server state lost", string(turn.CodeToolStateLost), nil)
		}
		return CallResult{CallID: in.Call.ID, Outcome: turn.OutcomeOK, Tool: in.Tool.ID, StickyQueue: "default-test-taskqueue"}, nil
	}, activity.RegisterOptions{Name: "CallTool"})
	env.ExecuteWorkflow(func(ctx workflow.Context) error {
		tool := turn.Tool{ID: "mcp/git/commit", Timeout: time.Second, Effects: turn.Effects{SessionAffinity: true}}
		r := &run{settling: map[string]bool{}}
		r.progress.Config = turn.Config{Tools: []turn.Tool{tool}, Limits: turn.DefaultLimits()}
		for _, id := range []string{"first", "second", "lost", "third", "fourth"} {
			if _, _, err := r.oneCall(ctx, &flight{call: turn.CallProposal{ID: id, Tool: tool.ID, Permission: turn.Allow}}); err != nil {
				return err
			}
		}
		return nil
	})
	require.NoError(t, env.GetWorkflowError())
	assert.Equal(t, []dispatch{
		{"first", "", false}, {"second", "first", true}, {"lost", "first", true}, {"third", "", false}, {"fourth", "third", true},
	}, got)
}
