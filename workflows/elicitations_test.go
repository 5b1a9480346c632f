package workflows

import (
	"context"
	"crypto/rand"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/log"
	"go.temporal.io/sdk/testsuite"
	"go.temporal.io/sdk/workflow"

	"github.com/everturn/everturn/workflows/turn"
)

// elicitingPort is a port whose model requests calls once. A user responds to each elicitation after a second.
type elicitingPort struct {
	*port
	env    *testsuite.TestWorkflowEnvironment
	calls  []string
	call   func(CallInput) (CallResult, error)
	silent bool // no user responds
	// decisions, if set, receives the decisions that the journal gets.
	decisions chan turn.Decision
	opened    []turn.Request
	queues    []string // of the calls' attempts
	finished  FinishInput
	outcomes  []turn.CallOutcome
	whenAsked func() // called when requests are opened; it may be nil
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
	out := turn.Proposal{Kind: turn.ProposeCalls, Permits: map[string]turn.Permit{}}
	for _, id := range p.calls {
		out.Calls = append(out.Calls, turn.ToolCall{ID: id, Tool: "mcp/a/x"})
		out.Permits[id] = turn.Permit{Permission: turn.Allow}
	}
	return InferResult{Proposal: out}, nil
}

func (p *elicitingPort) Ask(_ context.Context, requests []turn.Request) ([]turn.Decision, error) {
	p.opened = append(p.opened, requests...)
	if p.whenAsked != nil {
		p.whenAsked()
	}
	for _, r := range requests {
		if !p.silent {
			p.env.RegisterDelayedCallback(func() { p.respond(r.ID, turn.ElicitationDecline) }, time.Second)
		}
	}
	return nil, nil
}

func (p *elicitingPort) respond(id string, action turn.ElicitationAction) {
	callback := &testsuite.TestUpdateCallback{OnReject: func(error) {}, OnAccept: func() {},
		OnComplete: func(any, error) {}}
	p.env.UpdateWorkflow(DecideUpdate, "u"+id, callback,
		DecideInput{Request: id, Response: &turn.ElicitationResponse{Action: action}})
}

func (p *elicitingPort) CallTool(ctx context.Context, in CallInput) (CallResult, error) {
	p.queues = append(p.queues, activity.GetInfo(ctx).TaskQueue)
	res, err := p.call(in)
	res.CallID, res.Tool = in.Call.ID, in.Tool.ID
	return res, err
}

func (p *elicitingPort) Finish(_ context.Context, in FinishInput) (FinishResult, error) {
	p.finished = in
	return FinishResult{State: in.Result.State}, nil
}

// elicits runs a turn with the port until it ends.
func elicits(t *testing.T, p *elicitingPort) {
	t.Helper()
	p.runs(t, p)
	require.NoError(t, p.env.GetWorkflowError())
}

// runs runs a turn until it ends. own has those activities that differ.
func (p *elicitingPort) runs(t *testing.T, own interface {
	Begin(context.Context, BeginInput) (BeginResult, error)
	Decide(context.Context, []turn.Request) (bool, error)
}) {
	t.Helper()
	var suite testsuite.WorkflowTestSuite
	suite.SetLogger(log.NewStructuredLogger(slog.New(slog.DiscardHandler)))
	p.port, p.env = new(port), suite.NewTestWorkflowEnvironment()
	p.env.RegisterWorkflowWithOptions(Turn, workflow.RegisterOptions{Name: TurnWorkflow})
	for name, act := range map[string]any{
		"Begin": own.Begin, "Infer": p.Infer, "Ask": p.Ask, "Decide": own.Decide, "CallTool": p.CallTool,
		"Finish": p.Finish,
	} {
		p.env.RegisterActivityWithOptions(act, activity.RegisterOptions{Name: name})
	}
	p.env.ExecuteWorkflow(TurnWorkflow, Input{Message: &Message{Text: "hi"}})
	require.True(t, p.env.IsWorkflowCompleted())
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

// elicit sends the update Elicit from an activity, and returns the result.
func (p *elicitingPort) elicit(in ElicitInput) (request string, err error) {
	ended := make(chan struct{})
	callback := &testsuite.TestUpdateCallback{OnAccept: func() {},
		OnReject: func(refusal error) { err = refusal; close(ended) },
		OnComplete: func(result any, failure error) {
			request, _ = result.(string)
			err = failure
			close(ended)
		}}
	p.env.RegisterDelayedCallback(func() { p.env.UpdateWorkflow(ElicitUpdate, rand.Text(), callback, in) }, 0)
	<-ended
	return request, err
}

func (p *elicitingPort) Decide(ctx context.Context, in []turn.Request) (bool, error) {
	out, err := p.port.Decide(ctx, in)
	if p.decisions != nil {
		p.decisions <- *in[0].Decision
	}
	return out, err
}

// heldFor returns an ElicitInput of the call's attempt.
func heldFor(in CallInput) ElicitInput {
	return ElicitInput{Call: in.Call.ID, Attempt: in.Attempt, Within: time.Hour,
		Elicitation: &turn.Elicitation{Key: "1", Message: "?"}}
}

// TestAHeldCallGetsItsResponses checks that the elicitations of a call that its server holds open become requests, one
// after the other, while the attempt goes on, and that the journal gets the response to each.
func TestAHeldCallGetsItsResponses(t *testing.T) {
	p := &elicitingPort{calls: []string{"1.0"}, decisions: make(chan turn.Decision, 1)}
	p.call = func(in CallInput) (CallResult, error) {
		for _, id := range []string{"e1.0.1", "e1.0.2"} {
			out, err := p.elicit(heldFor(in))
			assert.NoError(t, err)
			assert.Equal(t, id, out)
			d := <-p.decisions
			assert.Equal(t, id, d.ID)
			assert.Equal(t, turn.ElicitationDecline, d.ResponseTo(turn.Elicitation{Key: "1"}).Action)
		}
		return CallResult{Outcome: turn.OutcomeOK}, nil
	}
	elicits(t, p)
	assert.Len(t, p.queues, 1, "the call is attempted once")
	require.Len(t, p.opened, 2)
	assert.Equal(t, turn.RequestElicitation, p.opened[0].Kind)
	assert.WithinDuration(t, time.Now().Add(time.Hour), p.opened[0].ExpiresAt, 10*time.Minute,
		"it is open for as long as the server waits")
}

// TestAnElicitationExpiresWithItsAttempt checks that a request that is open when the attempt ends, is lost, or no
// longer waits for the response, expires at once.
func TestAnElicitationExpiresWithItsAttempt(t *testing.T) {
	for name, end := range map[string]func(*elicitingPort, CallInput) error{
		"ended": func(*elicitingPort, CallInput) error { return nil },
		"lost":  func(*elicitingPort, CallInput) error { return errors.New("context canceled") }, // while the worker stops
		"withdrawn": func(p *elicitingPort, in CallInput) error {
			withdrawn := heldFor(in)
			withdrawn.Elicitation = nil
			_, err := p.elicit(withdrawn)
			<-p.decisions // while the attempt goes on
			return err
		},
	} {
		t.Run(name, func(t *testing.T) {
			p := &elicitingPort{calls: []string{"1.0"}, silent: true, decisions: make(chan turn.Decision, 1)}
			p.call = func(in CallInput) (CallResult, error) {
				if in.Attempt > 1 {
					return CallResult{Outcome: turn.OutcomeUnknown}, nil
				}
				_, err := p.elicit(heldFor(in))
				assert.NoError(t, err)
				return CallResult{Outcome: turn.OutcomeOK}, end(p, in)
			}
			elicits(t, p)
			require.Len(t, p.opened, 1)
			require.Len(t, p.decided, 1)
			assert.Equal(t, turn.StatusExpired, p.decided[0][0].Decision.Status)
			assert.Equal(t, turn.ReasonCallEnded, p.decided[0][0].Decision.Reason)
		})
	}
}

// TestOnlyAnAttemptUnderWayElicits checks the updates that the workflow rejects.
func TestOnlyAnAttemptUnderWayElicits(t *testing.T) {
	p := &elicitingPort{calls: []string{"1.0"}}
	p.call = func(in CallInput) (CallResult, error) {
		for name, c := range map[string]struct {
			change func(*ElicitInput)
			code   turn.Code
		}{
			"another call":    {func(in *ElicitInput) { in.Call = "1.1" }, turn.CodeNotWaiting},
			"another attempt": {func(in *ElicitInput) { in.Attempt++ }, turn.CodeNotWaiting},
			"without end":     {func(in *ElicitInput) { in.Within = 0 }, turn.CodeInputInvalid},
			"too long":        {func(in *ElicitInput) { in.Within += time.Second }, turn.CodeInputInvalid},
			"too large": {func(in *ElicitInput) { in.Elicitation.Message = strings.Repeat("x", maxElicitInput) },
				turn.CodeInputInvalid},
		} {
			held := heldFor(in)
			c.change(&held)
			_, err := p.elicit(held)
			assert.Equal(t, c.code, code(err), name)
		}
		return CallResult{Outcome: turn.OutcomeOK}, nil
	}
	elicits(t, p)
	assert.Empty(t, p.opened)
}
