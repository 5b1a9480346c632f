package workflows

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	enumspb "go.temporal.io/api/enums/v1"
	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/testsuite"
	"go.temporal.io/sdk/workflow"

	"github.com/everturn/everturn/codec"
	"github.com/everturn/everturn/workflows/turn"
)

// TestACallsDeadlineIsTheSumOfItsParts checks that a call's deadline on the server covers everything that CallTool may
// wait for.
func TestACallsDeadlineIsTheSumOfItsParts(t *testing.T) {
	var suite testsuite.WorkflowTestSuite
	env := suite.NewTestWorkflowEnvironment()
	var deadline time.Duration
	env.RegisterActivityWithOptions(func(ctx context.Context, _ CallInput) (CallResult, error) {
		deadline = activity.GetInfo(ctx).StartToCloseTimeout
		return CallResult{}, nil
	}, activity.RegisterOptions{Name: "CallTool"})
	env.ExecuteWorkflow(func(ctx workflow.Context) error {
		_, err := (&run{}).regularCall(ctx, &callState{}, CallInput{Timeout: 15 * time.Second}, "")
		return err
	})
	require.NoError(t, env.GetWorkflowError())
	assert.GreaterOrEqual(t, deadline, ClaimWithin+15*time.Second+SettleWithin+2*time.Second)
}

// TestACallThatWasMadeOnceIsNotSaidToHaveFailed checks that a repeatable call whose outcome is unknown stays unknown if
// it cannot be attempted again: the first attempt was sent.
func TestACallThatWasMadeOnceIsNotSaidToHaveFailed(t *testing.T) {
	for name, c := range map[string]struct {
		first, second error
		outcome       turn.Outcome
		once          bool // the tool is not repeatable
	}{
		"asked, then changed": {nil, ended(turn.CodeToolDrift), turn.OutcomeUnknown, false},
		"unknown, then not sent": {ended(turn.CodeToolOutcomeUnknown), ended(turn.CodeToolNotSent), turn.OutcomeUnknown,
			false},
		"unknown, then changed": {ended(turn.CodeToolOutcomeUnknown), ended(turn.CodeToolDrift), turn.OutcomeUnknown,
			false},
		"unknown, then state lost": {ended(turn.CodeToolOutcomeUnknown), ended(turn.CodeToolStateLost), turn.OutcomeUnknown,
			false},
		"lost, then not sent": {errors.New("context canceled"), ended(turn.CodeToolNotSent), turn.OutcomeUnknown,
			false},
		"unknown, then not allowed": {ended(turn.CodeToolOutcomeUnknown), ended(turn.CodePolicyDenied), turn.OutcomeUnknown,
			false},
		"not sent in its time": {ended(turn.CodeToolNotSent), nil, turn.OutcomeError, false},
		"lost, then denied": {errors.New("context canceled"), ended(turn.CodePolicyDenied), turn.OutcomeUnknown,
			true},
	} {
		t.Run(name, func(t *testing.T) {
			var suite testsuite.WorkflowTestSuite
			env := suite.NewTestWorkflowEnvironment()
			env.RegisterActivityWithOptions(func(_ context.Context, in CallInput) (CallResult, error) {
				if in.Attempt == 1 {
					return CallResult{}, c.first
				}
				return CallResult{}, c.second
			}, activity.RegisterOptions{Name: "CallTool"})
			env.ExecuteWorkflow(func(ctx workflow.Context) (turn.CallOutcome, error) {
				tool := turn.Tool{ID: "mcp/x/pay", Timeout: time.Second, Repeatable: !c.once}
				r := &run{connecting: map[string]bool{}}
				r.progress.Config = turn.Config{Tools: []turn.Tool{tool}, Limits: turn.DefaultLimits()}
				cs := &callState{CallInput: CallInput{Call: turn.ToolCall{ID: "c", Tool: tool.ID}}, permit: turn.Permit{Permission: turn.Allow}}
				if c.first == nil { // the previous attempt returned an elicitation, which has a response
					cs.Attempt, cs.elicited = 1, 1
				}
				settled, receipt, err := r.oneCall(ctx, cs)
				assert.Equal(t, settled.Outcome, receipt.Outcome, "the turn's policy sees what the model sees")
				return settled, err
			})
			var settled turn.CallOutcome
			require.NoError(t, env.GetWorkflowResult(&settled))
			assert.Equal(t, c.outcome, settled.Outcome)
			if c.outcome == turn.OutcomeUnknown {
				assert.Contains(t, settled.Text, "Outcome unknown: the ")
				assert.Contains(t, settled.Text, message(c.second), "why it was not made again")
			}
		})
	}
}

// TestACallThatWasRefusedAndThenLostIsAttemptedAgain covers an attempt whose first attempt the server refused and whose
// second one died with its worker: Temporal's timeout has the refusal as its cause.
func TestACallThatWasRefusedAndThenLostIsAttemptedAgain(t *testing.T) {
	refused := temporal.NewApplicationError("not sent: connection refused", string(turn.CodeToolNotSent), nil,
		time.Second, false)
	lost := temporal.NewTimeoutError(enumspb.TIMEOUT_TYPE_HEARTBEAT, refused, 3*time.Second)
	var suite testsuite.WorkflowTestSuite
	env := suite.NewTestWorkflowEnvironment()
	env.RegisterActivityWithOptions(func(_ context.Context, in CallInput) (CallResult, error) {
		if in.Attempt == 1 {
			return CallResult{}, lost
		}
		return CallResult{CallID: in.Call.ID, Outcome: turn.OutcomeOK}, nil
	}, activity.RegisterOptions{Name: "CallTool"})
	c := &callState{CallInput: CallInput{Call: turn.ToolCall{ID: "c"}}}
	env.ExecuteWorkflow(func(ctx workflow.Context) (CallResult, error) {
		r := &run{progress: turn.Progress{Config: turn.Config{}}}
		return r.attemptCall(ctx, c, turn.Tool{Timeout: time.Second, Repeatable: true})
	})
	var receipt CallResult
	require.NoError(t, env.GetWorkflowResult(&receipt))
	assert.Equal(t, turn.OutcomeOK, receipt.Outcome)
	assert.Equal(t, 3*time.Second, c.busy, "the working time of the attempt that was lost, not that of the first one")
	assert.Empty(t, code(lost))
	assert.Equal(t, turn.CodeToolNotSent, code(refused))
}

func ended(c turn.Code, details ...any) error {
	return temporal.NewNonRetryableApplicationError("mcp/x/pay ended in "+string(c), string(c), nil, details...)
}

// TestACallWhoseEndWasNotReportedIsAskedOfTheLedger covers a stopping worker, for which the SDK may report an error of
// its own although the activity returned a result.
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
		r := &run{progress: turn.Progress{Config: turn.Config{}}}
		receipt, err := r.attemptCall(ctx, &callState{CallInput: CallInput{Call: turn.ToolCall{ID: "c"}}},
			turn.Tool{Timeout: time.Second})
		return receipt.Outcome, err
	})
	require.NoError(t, env.GetWorkflowError())
	var outcome turn.Outcome
	require.NoError(t, env.GetWorkflowResult(&outcome))
	assert.Equal(t, turn.OutcomeUnknown, outcome)
	assert.Equal(t, []int{1, 2}, attempts)
}

func TestACallThatNoWorkerCouldDecryptWasNotSent(t *testing.T) {
	err := explainKeyError(temporal.NewApplicationError("decrypting", codec.KeyErrorType))
	assert.Equal(t, turn.OutcomeError, outcomeOf(err))
	assert.False(t, mayHaveRun(err))
	lost := errors.New("lost")
	assert.Equal(t, lost, explainKeyError(lost))
}
