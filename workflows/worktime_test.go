package workflows

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/testsuite"
	"go.temporal.io/sdk/workflow"

	"github.com/everturn/everturn/workflows/turn"
)

// TestAStepKeepsToTheTurnsTime checks that calls that wait for others of their step get only what those leave of
// turn_timeout, and that a step's working time is the time in which its calls worked.
func TestAStepKeepsToTheTurnsTime(t *testing.T) {
	const s = time.Second
	for _, c := range []struct {
		parallel int
		granted  []time.Duration // to the calls that were attempted
		worked   time.Duration
		denied   int
	}{
		{1, []time.Duration{6 * s, 2 * s}, 6 * s, 3},
		{2, []time.Duration{6 * s, 6 * s, 2 * s, 2 * s}, 6 * s, 1},
		{5, []time.Duration{6 * s, 6 * s, 6 * s, 6 * s, 6 * s}, 4 * s, 0},
	} {
		t.Run(fmt.Sprint(c.parallel), func(t *testing.T) {
			var suite testsuite.WorkflowTestSuite
			env := suite.NewTestWorkflowEnvironment()
			var mu sync.Mutex
			var granted []time.Duration
			all := make(chan struct{}) // closed when all calls that run at the same time have begun
			env.RegisterActivityWithOptions(func(_ context.Context, in CallInput) (CallResult, error) {
				mu.Lock()
				began := all
				if granted = append(granted, in.Timeout); len(granted)%c.parallel == 0 {
					close(all)
					all = make(chan struct{})
				}
				mu.Unlock()
				<-began
				return CallResult{CallID: in.Call.ID, Outcome: turn.OutcomeOK, Busy: min(4*s, in.Timeout)}, nil
			}, activity.RegisterOptions{Name: "CallTool"})
			env.ExecuteWorkflow(func(ctx workflow.Context) (turn.Counters, error) {
				r, states := stepOf(turn.Tool{ID: "local/a", Timeout: time.Minute}, 5)
				r.progress.Config.Limits.MaxParallelCalls = c.parallel
				r.runCalls(ctx, states)
				denied := 0
				var receipts []CallResult
				for _, cs := range states {
					receipts = append(receipts, cs.receipt)
					if cs.outcome.Code == turn.CodeLimitExceeded && cs.receipt.Outcome == turn.OutcomeDenied {
						denied++
					}
				}
				assert.Equal(t, c.denied, denied)
				r.count(receipts, nil, 0)
				return r.progress.Counters, nil
			})
			var counters turn.Counters
			require.NoError(t, env.GetWorkflowResult(&counters))
			assert.Equal(t, c.worked, counters.Busy)
			assert.Equal(t, c.granted, granted)
		})
	}
}

// stepOf returns a run with a turn_timeout of 6 s, and n calls of the tool.
func stepOf(tool turn.Tool, n int) (*run, []*callState) {
	r := &run{connecting: map[string]bool{}}
	r.progress.Config = turn.Config{Tools: []turn.Tool{tool}, Limits: turn.DefaultLimits()}
	r.progress.Config.Limits.TurnTimeout = 6 * time.Second
	states := make([]*callState, n)
	for i := range states {
		call := turn.ToolCall{ID: fmt.Sprintf("1.%d", i), Tool: tool.ID}
		states[i] = &callState{CallInput: CallInput{Call: call}, permit: turn.Permit{Permission: turn.Allow},
			outcome: turn.CallOutcome{CallID: call.ID}}
	}
	return r, states
}

// TestAgentsOfAStepKeepToTheTurnsTime checks that an agent that begins after others of its step gets only the time that
// those leave.
func TestAgentsOfAStepKeepToTheTurnsTime(t *testing.T) {
	var suite testsuite.WorkflowTestSuite
	env := suite.NewTestWorkflowEnvironment()
	var mu sync.Mutex
	var granted []time.Duration
	env.RegisterActivityWithOptions(func(_ context.Context, in CallInput) (CallResult, error) {
		mu.Lock()
		defer mu.Unlock()
		granted = append(granted, in.Granted.Time)
		return CallResult{Message: &Message{ID: in.Call.ID, Text: "Do it."}}, nil
	}, activity.RegisterOptions{Name: "BeginSubagent"})
	env.RegisterActivityWithOptions(func(_ context.Context, in CallInput) (CallResult, error) {
		return CallResult{CallID: in.Call.ID, Outcome: turn.OutcomeOK}, nil
	}, activity.RegisterOptions{Name: "SettleSubagent"})
	env.RegisterWorkflowWithOptions(func(workflow.Context, Input) (Result, error) {
		return Result{Busy: 5 * time.Second}, nil
	}, workflow.RegisterOptions{Name: TurnWorkflow})
	env.ExecuteWorkflow(func(ctx workflow.Context) (time.Duration, error) {
		r, states := stepOf(turn.Tool{ID: turn.AgentTools + "a", Activity: turn.ActivityAgent}, maxSubagents+1)
		r.turnID, r.session = "t", "s"
		r.runCalls(ctx, states)
		return r.worked, nil
	})
	var worked time.Duration
	require.NoError(t, env.GetWorkflowResult(&worked))
	slices.Sort(granted)
	assert.Equal(t, []time.Duration{time.Second, 6 * time.Second, 6 * time.Second, 6 * time.Second, 6 * time.Second}, granted)
	assert.Equal(t, 10*time.Second, worked)
}
