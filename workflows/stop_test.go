package workflows

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/temporal"

	"github.com/everturn/everturn/workflows/turn"
)

// eliciting is a port whose model requests two calls: the first one ends with an elicitation, and the second one runs
// until it is cancelled.
type eliciting struct{ *unavailable }

func (eliciting) Begin(context.Context, BeginInput) (BeginResult, error) {
	tool := turn.Tool{ID: "mcp/a/x", Activity: turn.ActivityRegular, Timeout: 10 * time.Second}
	return BeginResult{Config: turn.Config{Limits: turn.DefaultLimits(), Tools: []turn.Tool{tool}},
		Head: turn.Head{Seq: 1}}, nil
}

func (eliciting) Infer(context.Context, InferInput) (InferResult, error) {
	return InferResult{Proposal: turn.Proposal{Kind: turn.ProposeCalls,
		Calls:   []turn.ToolCall{{ID: "1.0", Tool: "mcp/a/x"}, {ID: "1.1", Tool: "mcp/a/x"}},
		Permits: map[string]turn.Permit{"1.0": {Permission: turn.Allow}, "1.1": {Permission: turn.Allow}}}}, nil
}

func (eliciting) CallTool(ctx context.Context, in CallInput) (CallResult, error) {
	if in.Call.ID == "1.0" {
		return CallResult{CallID: "1.0", Tool: "mcp/a/x", Elicitations: []turn.Elicitation{{Key: "k", Message: "?"}}}, nil
	}
	<-ctx.Done()
	return CallResult{}, temporal.NewCanceledError()
}

// TestAStopBesideAnOpenElicitationEndsTheTurn checks that a turn is settled as cancelled if it is stopped while one of
// its calls waits for an elicitation to be opened and another one runs.
func TestAStopBesideAnOpenElicitationEndsTheTurn(t *testing.T) {
	u := &unavailable{}
	env := u.environment()
	e := eliciting{u}
	env.SetTestTimeout(10 * time.Second)
	for name, act := range map[string]any{"Begin": e.Begin, "Infer": e.Infer, "CallTool": e.CallTool} {
		env.RegisterActivityWithOptions(act, activity.RegisterOptions{Name: name})
	}
	env.RegisterDelayedCallback(env.CancelWorkflow, time.Second)
	env.ExecuteWorkflow(TurnWorkflow, Input{Message: &Message{ID: "first", Text: "Hello."}})
	require.True(t, temporal.IsCanceledError(env.GetWorkflowError()))
	require.Len(t, u.finished, 1)
	assert.Equal(t, turn.StateCancelled, u.finished[0].Result.State)
}

// flaky is a port whose model fails in its first inference. The policy repeats the step.
type flaky struct {
	*unavailable
	inferences int
}

func (*flaky) Begin(context.Context, BeginInput) (BeginResult, error) {
	policy := turn.DefaultPolicy()
	policy.OnModelError = turn.ErrorRetry
	return BeginResult{Config: turn.Config{Limits: turn.DefaultLimits(), Policy: policy}, Head: turn.Head{Seq: 1}}, nil
}

func (f *flaky) Infer(context.Context, InferInput) (InferResult, error) {
	if f.inferences++; f.inferences == 1 {
		return InferResult{}, temporal.NewNonRetryableApplicationError("503", string(turn.CodeLLMTransport), nil,
			7*time.Second, "")
	}
	return InferResult{Proposal: turn.Proposal{Kind: turn.ProposeFinal, Text: "done"}, Failures: 2, Busy: time.Second}, nil
}

// TestFailedInferencesCount checks that a turn's counters have the working time of failed inferences, and each attempt
// once, if the policy repeats the step.
func TestFailedInferencesCount(t *testing.T) {
	f := &flaky{unavailable: &unavailable{}}
	env := f.environment()
	env.RegisterActivityWithOptions(f.Begin, activity.RegisterOptions{Name: "Begin"})
	env.RegisterActivityWithOptions(f.Infer, activity.RegisterOptions{Name: "Infer"})
	env.ExecuteWorkflow(TurnWorkflow, Input{Message: &Message{ID: "first", Text: "Hello."}})
	require.NoError(t, env.GetWorkflowError())
	require.Len(t, f.finished, 1)
	assert.Equal(t, 4, f.finished[0].Counters.Spent, "a failure, two streams that were cut, and the answer")
	assert.Equal(t, 8*time.Second, f.finished[0].Counters.Busy)
}
