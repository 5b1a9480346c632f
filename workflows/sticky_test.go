package workflows

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	enumspb "go.temporal.io/api/enums/v1"
	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/testsuite"
	"go.temporal.io/sdk/workflow"

	"github.com/everturn/everturn/workflows/turn"
)

// TestCallsSayWhichStateTheyCountOn checks that calls that rely on a stateful server's state name the call that created
// it, so that a late call cannot use another state.
func TestCallsSayWhichStateTheyCountOn(t *testing.T) {
	type attemptCall struct {
		call, founder string
		resume        bool
	}
	var suite testsuite.WorkflowTestSuite
	env := suite.NewTestWorkflowEnvironment()
	var got []attemptCall
	env.RegisterActivityWithOptions(func(_ context.Context, in CallInput) (CallResult, error) {
		got = append(got, attemptCall{in.Call.ID, in.OwningCall, in.Resume})
		if in.Call.ID == "lost" {
			return CallResult{}, temporal.NewNonRetryableApplicationError("server state lost", string(turn.CodeToolStateLost),
				nil)
		}
		return CallResult{CallID: in.Call.ID, Outcome: turn.OutcomeOK, Tool: in.Tool.ID,
			StickyQueue: "default-test-taskqueue"}, nil
	}, activity.RegisterOptions{Name: "CallTool"})
	env.ExecuteWorkflow(func(ctx workflow.Context) error {
		tool := turn.Tool{ID: "mcp/git/commit", Timeout: time.Second, Effects: turn.Effects{SessionAffinity: true}}
		r := &run{connecting: map[string]bool{}}
		r.progress.Config = turn.Config{Tools: []turn.Tool{tool}, Limits: turn.DefaultLimits()}
		for _, id := range []string{"first", "second", "lost", "third", "fourth"} {
			if _, _, err := r.oneCall(ctx, &callState{
				CallInput: CallInput{Call: turn.ToolCall{ID: id, Tool: tool.ID}}, permit: turn.Permit{Permission: turn.Allow}}); err != nil {
				return err
			}
		}
		return nil
	})
	require.NoError(t, env.GetWorkflowError())
	assert.Equal(t, []attemptCall{
		{"first", "", false}, {"second", "first", true}, {"lost", "first", true}, {"third", "", false},
		{"fourth", "third", true},
	}, got)
}

// TestNoCallRunsWithoutTheStateThatItDependsOn checks parallel calls to a stateful server whose worker is gone: each of
// them learns that the state is lost, and none runs on a new server. Only the next call does.
func TestNoCallRunsWithoutTheStateThatItDependsOn(t *testing.T) {
	for name, gone := range map[string]error{
		"not started": temporal.NewTimeoutError(enumspb.TIMEOUT_TYPE_SCHEDULE_TO_START, nil),
		"died":        temporal.NewHeartbeatTimeoutError(),
	} {
		t.Run(name, func(t *testing.T) {
			var suite testsuite.WorkflowTestSuite
			env := suite.NewTestWorkflowEnvironment()
			fresh := map[string]bool{} // whether a call ran without the state
			var mu sync.Mutex
			env.RegisterActivityWithOptions(func(_ context.Context, in CallInput) (CallResult, error) {
				mu.Lock()
				fresh[in.Call.ID] = !in.Resume
				mu.Unlock()
				switch {
				case !in.Resume:
					return CallResult{CallID: in.Call.ID, Outcome: turn.OutcomeOK, Tool: in.Tool.ID,
						StickyQueue: "default-test-taskqueue"}, nil
				case in.Attempt > 1:
					return CallResult{}, temporal.NewNonRetryableApplicationError("server state lost", string(turn.CodeToolStateLost),
						nil)
				}
				return CallResult{}, gone
			}, activity.RegisterOptions{Name: "CallTool"})
			env.ExecuteWorkflow(func(ctx workflow.Context) ([]turn.Code, error) {
				tool := turn.Tool{ID: "mcp/git/commit", Timeout: time.Second, Repeatable: true,
					Effects: turn.Effects{SessionAffinity: true}}
				r := &run{connecting: map[string]bool{}}
				r.progress.Config = turn.Config{Tools: []turn.Tool{tool}, Limits: turn.DefaultLimits()}
				r.setStickyQueue("mcp/git", "default-test-taskqueue")
				r.setOwningCall("mcp/git", "1.0")
				var flights []*callState
				for _, id := range []string{"2.0", "2.1", "3.0"} {
					flights = append(flights,
						&callState{CallInput: CallInput{Call: turn.ToolCall{ID: id, Tool: tool.ID}}, permit: turn.Permit{Permission: turn.Allow}})
				}
				r.runCalls(ctx, flights[:2])
				r.runCalls(ctx, flights[2:])
				var codes []turn.Code
				for _, c := range flights {
					codes = append(codes, c.outcome.Code)
				}
				return codes, nil
			})
			require.NoError(t, env.GetWorkflowError())
			var codes []turn.Code
			require.NoError(t, env.GetWorkflowResult(&codes))
			want := turn.CodeToolStateLost
			if name == "died" { // the call may have run before its worker died
				want = turn.CodeToolOutcomeUnknown
			}
			assert.Equal(t, []turn.Code{want, want, ""}, codes)
			assert.Equal(t, map[string]bool{"2.0": false, "2.1": false, "3.0": true}, fresh)
		})
	}
}
