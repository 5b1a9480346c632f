package workflows

import (
	"context"
	"log/slog"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/log"
	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/testsuite"
	"go.temporal.io/sdk/workflow"

	"github.com/everturn/everturn/workflows/turn"
)

// elicitingPort is a port whose model requests calls once. A user responds to each elicitation after a second.
type elicitingPort struct {
	*port
	env      *testsuite.TestWorkflowEnvironment
	calls    []string
	call     func(CallInput) (CallResult, error)
	await    func() error // AwaitCall
	silent   bool         // no user responds
	opened   []turn.Request
	queues   []string // of the calls' attempts
	finished FinishInput
	outcomes []turn.CallOutcome
}

func (p *elicitingPort) Begin(context.Context, BeginInput) (BeginResult, error) {
	return BeginResult{Config: turn.Config{Limits: turn.DefaultLimits(),
		Tools: []turn.Tool{{ID: "mcp/a/x", Timeout: time.Minute, ElicitationTimeout: time.Hour}}}}, nil
}

func (p *elicitingPort) Infer(_ context.Context, in InferInput) (InferResult, error) {
	p.outcomes = in.Outcomes
	if p.steps++; p.steps > 1 {
		return InferResult{Proposal: turn.Proposal{Kind: turn.ProposeFinal, Text: "done"}}, nil
	}
	out := turn.Proposal{Kind: turn.ProposeCalls}
	for _, id := range p.calls {
		out.Calls = append(out.Calls, turn.CallProposal{ToolCall: turn.ToolCall{ID: id, Tool: "mcp/a/x"},
			Permission: turn.Allow})
	}
	return InferResult{Proposal: out}, nil
}

func (p *elicitingPort) Ask(_ context.Context, in AskInput) (AskResult, error) {
	p.opened = append(p.opened, in.Requests...)
	for _, r := range in.Requests {
		if !p.silent {
			p.env.RegisterDelayedCallback(func() { p.respond(r.ID, turn.ElicitationDecline) }, time.Second)
		}
	}
	return AskResult{}, nil
}

func (p *elicitingPort) respond(id string, action turn.ElicitationAction) {
	callback := &testsuite.TestUpdateCallback{OnReject: func(error) {}, OnAccept: func() {},
		OnComplete: func(any, error) {}}
	p.env.UpdateWorkflow(AnswerUpdate, "u"+id, callback,
		Answer{Question: id, Response: &turn.ElicitationResponse{Action: action}})
}

func (p *elicitingPort) CallTool(ctx context.Context, in CallInput) (CallResult, error) {
	p.queues = append(p.queues, activity.GetInfo(ctx).TaskQueue)
	res, err := p.call(in)
	res.CallID, res.Tool = in.Call.ID, in.Tool.ID
	return res, err
}

func (p *elicitingPort) AwaitCall(context.Context, AwaitCallInput) error {
	return p.await()
}

func (p *elicitingPort) Finish(_ context.Context, in FinishInput) (FinishResult, error) {
	p.finished = in
	return FinishResult{State: in.Result.State}, nil
}

// elicits runs a turn with the port until it ends.
func elicits(t *testing.T, p *elicitingPort) {
	t.Helper()
	var suite testsuite.WorkflowTestSuite
	suite.SetLogger(log.NewStructuredLogger(slog.New(slog.DiscardHandler)))
	p.port, p.env = &port{}, suite.NewTestWorkflowEnvironment()
	p.env.RegisterWorkflowWithOptions(Turn, workflow.RegisterOptions{Name: TurnWorkflow})
	for name, act := range map[string]any{
		"Begin": p.Begin, "Infer": p.Infer, "Ask": p.Ask, "Decide": p.Decide, "CallTool": p.CallTool,
		"AwaitCall": p.AwaitCall, "Finish": p.Finish,
	} {
		p.env.RegisterActivityWithOptions(act, activity.RegisterOptions{Name: name})
	}
	p.env.ExecuteWorkflow(TurnWorkflow, Input{Message: &Message{Text: "hi"}})
	require.True(t, p.env.IsWorkflowCompleted())
	require.NoError(t, p.env.GetWorkflowError())
}

func suspended(in CallInput) CallResult {
	return CallResult{Elicitations: []turn.Elicitation{{Key: "k", Message: "?"}}, ElicitationAttempt: in.Attempt,
		Busy: time.Second}
}

// TestACallElicitsABoundedNumberOfTimes checks that no user is asked more often than maxElicitations in one call, that
// the call is unknown after that, and that the working time of every attempt counts once.
func TestACallElicitsABoundedNumberOfTimes(t *testing.T) {
	p := &elicitingPort{calls: []string{"1.0"}}
	var got []turn.ElicitationAction
	p.call = func(in CallInput) (CallResult, error) {
		for _, r := range in.Responses {
			got = append(got, r.Action)
		}
		return suspended(in), nil
	}
	elicits(t, p)
	assert.Len(t, p.opened, maxElicitations)
	assert.Len(t, got, maxElicitations)
	assert.NotContains(t, got, turn.ElicitationCancel, "what a user said is not thrown away")
	require.Len(t, p.outcomes, 1)
	assert.Equal(t, turn.OutcomeUnknown, p.outcomes[0].Outcome)
	assert.Equal(t, (maxElicitations+1)*time.Second, p.finished.Counters.Busy)
}

// TestACallDoesNotWaitForTheElicitationOfAnother checks that the response to one call's elicitation is passed on while
// the elicitation of another call of the step is still open.
func TestACallDoesNotWaitForTheElicitationOfAnother(t *testing.T) {
	p := &elicitingPort{calls: []string{"1.0", "1.1"}, silent: true}
	p.call = func(in CallInput) (CallResult, error) {
		switch {
		case len(in.Responses) == 0 && in.Call.ID == "1.0":
			p.env.RegisterDelayedCallback(func() { p.respond("e1.0.1", turn.ElicitationDecline) }, time.Second)
			return suspended(in), nil
		case len(in.Responses) == 0:
			return suspended(in), nil
		case in.Call.ID == "1.0": // only now, a user responds to the other one
			p.env.RegisterDelayedCallback(func() { p.respond("e1.1.1", turn.ElicitationDecline) }, time.Second)
		}
		return CallResult{Outcome: turn.OutcomeOK}, nil
	}
	elicits(t, p)
	assert.Equal(t, turn.FinishAnswered, p.finished.Result.Reason)
	assert.Len(t, p.queues, 4)
}

// TestASuspendedCallThatEndedIsNotAskedAbout checks that the elicitation of a call that its server keeps open expires
// when the call ends, and that the next attempt goes to the worker with the open call, or to any if that is gone.
func TestASuspendedCallThatEndedIsNotAskedAbout(t *testing.T) {
	for name, gone := range map[string]bool{"the call ended": false, "its worker is gone": true} {
		t.Run(name, func(t *testing.T) {
			p := &elicitingPort{calls: []string{"1.0"}, silent: true}
			p.await = func() error {
				if gone {
					return temporal.NewNonRetryableApplicationError("gone", "", nil)
				}
				return nil
			}
			p.call = func(in CallInput) (CallResult, error) {
				if len(in.Responses) > 0 {
					assert.Equal(t, turn.ElicitationCancel, in.Responses[0].Action)
					return CallResult{Outcome: turn.OutcomeUnknown}, nil
				}
				res := suspended(in)
				res.Held, res.StickyQueue = true, "its worker"
				return res, nil
			}
			elicits(t, p)
			require.Len(t, p.decided, 1)
			require.Len(t, p.decided[0].Decisions, 1)
			assert.Equal(t, turn.StatusExpired, p.decided[0].Decisions[0].Status)
			assert.Equal(t, turn.ReasonCallEnded, p.decided[0].Decisions[0].Reason)
			require.Len(t, p.queues, 2)
			assert.Equal(t, gone, p.queues[1] != "its worker", p.queues)
			assert.WithinDuration(t, time.Now().Add(time.Hour), p.opened[0].ExpiresAt, 10*time.Minute,
				"it is open for timeouts.elicitation")
		})
	}
}
