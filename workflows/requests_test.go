package workflows

import (
	"context"
	"encoding/json"
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

// TestADecisionOutlivesTheNextRequestOfItsStep checks that a call's decision is kept until the call has read it, even
// if another call of the step opens a request meanwhile.
func TestADecisionOutlivesTheNextRequestOfItsStep(t *testing.T) {
	var s requestSet
	first, second := turn.Request{ID: "e1.0.1", Step: 1}, turn.Request{ID: "e1.1.1", Step: 1}
	s.add(first)
	s.decide(turn.Decision{ID: first.ID, Status: turn.StatusAnswered})
	s.add(second)
	decision, ok := s.decision(first.ID)
	assert.True(t, ok)
	assert.Equal(t, turn.StatusAnswered, decision.Status)
	s.add(turn.Request{ID: "2.0", Step: 2})
	_, ok = s.decision(first.ID)
	assert.False(t, ok, "requests of earlier steps are forgotten")
}

// TestAMovedTurnTakesWhatArrivesWithItsStart sends the answer to a question before the run that the turn has moved to
// opens the question again. A message from before the question is not the answer.
func TestAMovedTurnTakesWhatArrivesWithItsStart(t *testing.T) {
	for name, arrived := range map[string]func(*Input){
		"a message": func(in *Input) {
			in.Continued.Inbox = append(in.Continued.Inbox, Message{ID: "answer", Text: "Both."})
		},
		"nothing": func(*Input) {},
	} {
		t.Run(name, func(t *testing.T) {
			u := &unavailable{}
			env := u.environment()
			var decided []turn.Request
			env.RegisterActivityWithOptions(func(context.Context, []turn.Request) ([]turn.Decision, error) { return nil, nil },
				activity.RegisterOptions{Name: "Ask"})
			env.RegisterActivityWithOptions(func(_ context.Context, in []turn.Request) (bool, error) {
				decided = append(decided, in...)
				return false, nil
			}, activity.RegisterOptions{Name: "Decide"})
			question := turn.Request{ID: "q1", Kind: turn.RequestQuestion, Step: 1, Question: "Which?"}
			in := Input{Turn: "t", Continued: &turn.Progress{
				Config: turn.Config{Limits: turn.DefaultLimits()}, Head: turn.Head{Seq: 2}, Counters: turn.Counters{Step: 1},
				Waiting: &turn.Waiting{Proposal: turn.Proposal{Kind: turn.ProposeAsk, Question: "Which?"},
					Requests: []turn.Request{question}, MessagesBefore: 1}}}
			in.Continued.Inbox = []Message{{ID: "before", Text: "Hm."}}
			arrived(&in)
			env.RegisterDelayedCallback(env.CancelWorkflow, time.Minute)
			env.SetContinuedExecutionRunID("the run before")
			env.ExecuteWorkflow(TurnWorkflow, in)
			require.True(t, env.IsWorkflowCompleted())
			if name == "nothing" {
				assert.Empty(t, decided)
				return
			}
			require.Len(t, decided, 1)
			assert.Equal(t, []string{"answer"}, decided[0].Decision.Messages)
		})
	}
}

// TestARequestThatIsOpenedAgainKeepsItsDecision checks a decision that arrives in a continued run before the run opens
// its requests again.
func TestARequestThatIsOpenedAgainKeepsItsDecision(t *testing.T) {
	ask := turn.Request{ID: "1.0", Kind: turn.RequestApproval, Step: 1}
	s := requestSet{requests: []turn.Request{ask}}
	s.decide(turn.Decision{ID: "1.0", Status: turn.StatusAllowed, Allowed: true})
	s.add(ask)
	_, decided := s.decision("1.0")
	assert.True(t, decided)
	s.add(turn.Request{ID: "2.0", Kind: turn.RequestApproval, Step: 2})
	_, decided = s.decision("1.0")
	assert.False(t, decided, "of an earlier step")
}

// TestADecisionWithoutEffectIsRejected covers a workflow task that has a decision and also the reason why it can have
// no effect. The SDK then runs the update's validator before the workflow code that notices the reason.
func TestADecisionWithoutEffectIsRejected(t *testing.T) {
	approval := turn.Request{ID: "1.0", Kind: turn.RequestApproval, Step: 1, ArgumentsHash: "h"}
	question := turn.Request{ID: "q1", Kind: turn.RequestQuestion, Step: 1}
	elicitation := turn.Request{ID: "e1.0.1", Kind: turn.RequestElicitation, Step: 1, Call: "1.0",
		Elicitation: &turn.Elicitation{Key: "1", Message: "?"}}
	approve := func(ctx workflow.Context, r *run) error {
		return r.validateDecide(ctx, DecideInput{Request: approval.ID, Allow: true, ArgumentsHash: "h"})
	}
	answer := func(ctx workflow.Context, r *run) error {
		return r.validateDecide(ctx, DecideInput{Request: question.ID, Text: "x"})
	}
	respond := func(ctx workflow.Context, r *run) error {
		return r.validateDecide(ctx, DecideInput{Request: elicitation.ID,
			Response: &turn.ElicitationResponse{Action: turn.ElicitationDecline}})
	}
	type state struct {
		*run
		call   *callState
		end    workflow.Settable // of the call's attempt
		cancel func()
	}
	nothing := func(*state) {}
	stop := func(s *state) { s.cancel() }
	for name, c := range map[string]struct {
		decide func(workflow.Context, *run) error
		before func(*state)
		code   turn.Code
	}{
		"an approval":                      {approve, nothing, ""},
		"an approval and a stop":           {approve, stop, turn.CodeNotWaiting},
		"an answer":                        {answer, nothing, ""},
		"an answer and a stop":             {answer, stop, turn.CodeNotWaiting},
		"a response":                       {respond, nothing, ""},
		"a response and a stop":            {respond, stop, turn.CodeNotWaiting},
		"a response and the attempt's end": {respond, func(s *state) { s.end.SetValue(nil) }, turn.CodeNotWaiting},
		"a response and a new elicitation": {respond, func(s *state) { s.call.held = make([]ElicitInput, 1) },
			turn.CodeNotWaiting},
		"a response of a suspended call": {respond, func(s *state) { s.call.running = nil }, ""},
	} {
		t.Run(name, func(t *testing.T) {
			var suite testsuite.WorkflowTestSuite
			env := suite.NewTestWorkflowEnvironment()
			env.ExecuteWorkflow(func(ctx workflow.Context) error {
				ctx, cancel := workflow.WithCancel(ctx)
				attempt, end := workflow.NewFuture(ctx)
				call := &callState{CallInput: CallInput{Call: turn.ToolCall{ID: "1.0"}}, running: attempt}
				s := &state{run: &run{calls: []*callState{call}}, call: call, end: end, cancel: cancel}
				s.requests.add(approval, question, elicitation)
				c.before(s)
				if err := c.decide(ctx, s.run); c.code != "" {
					assert.Equal(t, c.code, code(err))
				} else {
					assert.NoError(t, err)
				}
				return nil
			})
			require.NoError(t, env.GetWorkflowError())
		})
	}
}

// TestADecisionFitsTheKindOfItsRequest sends decisions that have fields for another kind of request. In particular, a
// text must not deny a call, and nothing but the response of an elicitation may settle it.
func TestADecisionFitsTheKindOfItsRequest(t *testing.T) {
	response := &turn.ElicitationResponse{Action: turn.ElicitationDecline}
	for name, in := range map[string]DecideInput{
		"text for an approval":             {Request: "1.0", Text: "yes", ArgumentsHash: "h"},
		"a response for an approval":       {Request: "1.0", Response: response},
		"allow for a question":             {Request: "q1", Allow: true, Text: "yes"},
		"nothing for a question":           {Request: "q1"},
		"a response for a question":        {Request: "q1", Response: response},
		"deny for an elicitation":          {Request: "e1.0.1"},
		"text for an elicitation":          {Request: "e1.0.1", Text: "yes"},
		"allow and a response":             {Request: "e1.0.1", Allow: true, Response: response},
		"text and a response":              {Request: "e1.0.1", Text: "yes", Response: response},
		"a changed plan of an elicitation": {Request: "e1.0.1", ChangedPlan: json.RawMessage(`{}`)},
	} {
		t.Run(name, func(t *testing.T) {
			inWorkflow(t, func(ctx workflow.Context) {
				var r run
				r.requests.add(turn.Request{ID: "1.0", Kind: turn.RequestApproval, Step: 1, ArgumentsHash: "h"},
					turn.Request{ID: "q1", Kind: turn.RequestQuestion, Step: 1},
					turn.Request{ID: "e1.0.1", Kind: turn.RequestElicitation, Step: 1, Elicitation: &turn.Elicitation{Key: "1"}})
				assert.Equal(t, turn.CodeInputInvalid, code(r.validateDecide(ctx, in)))
			})
		})
	}
}

// TestASecondDecisionGetsTheFirst covers repeated and contradicting decisions of each kind of request.
func TestASecondDecisionGetsTheFirst(t *testing.T) {
	inWorkflow(t, func(ctx workflow.Context) {
		var r run
		r.requests.add(turn.Request{ID: "1.0", Kind: turn.RequestApproval, Step: 1, ArgumentsHash: "h"},
			turn.Request{ID: "q1", Kind: turn.RequestQuestion, Step: 1},
			turn.Request{ID: "e1.0.1", Kind: turn.RequestElicitation, Step: 1, Elicitation: &turn.Elicitation{Key: "1"}})
		response := &turn.ElicitationResponse{Action: turn.ElicitationDecline}
		for _, c := range []struct {
			first, second DecideInput
			again         bool // the second is accepted
		}{
			{DecideInput{Request: "1.0", Allow: true, ArgumentsHash: "h", By: "ann"},
				DecideInput{Request: "1.0", Allow: true, ArgumentsHash: "h", By: "ben"}, true},
			{DecideInput{Request: "1.0", Allow: true, ArgumentsHash: "h", By: "ann"},
				DecideInput{Request: "1.0", ArgumentsHash: "h", By: "ben"}, false},
			{DecideInput{Request: "q1", Text: "x", By: "ann"}, DecideInput{Request: "q1", Text: "x"}, false},
			{DecideInput{Request: "e1.0.1", Response: response, By: "ann"},
				DecideInput{Request: "e1.0.1", Response: response}, false},
		} {
			require.NoError(t, r.validateDecide(ctx, c.first))
			_, err := r.decide(ctx, c.first)
			require.NoError(t, err)
			err = r.validateDecide(ctx, c.second)
			if c.again {
				require.NoError(t, err)
				continue
			}
			var refused *temporal.ApplicationError
			require.ErrorAs(t, err, &refused)
			assert.Equal(t, string(turn.CodeNotWaiting), refused.Type())
			var stands turn.Decision
			require.NoError(t, refused.Details(&stands))
			assert.Equal(t, "ann", stands.By)
		}
		assert.Len(t, r.progress.Inbox, 1, "the answer is a message, once")
	})
}

// TestAGrantAllowsTheCallsThatItCovers decides one of four calls with a grant of its tool.
func TestAGrantAllowsTheCallsThatItCovers(t *testing.T) {
	inWorkflow(t, func(ctx workflow.Context) {
		var r run
		requests := []turn.Request{{ID: "1.0", Tool: "a"}, {ID: "1.1", Tool: "b"}, {ID: "1.2", Tool: "a"},
			{ID: "1.3", Tool: "a", MaxGrant: turn.GrantNever}}
		for i := range requests {
			requests[i].Kind, requests[i].Step, requests[i].ArgumentsHash = turn.RequestApproval, 1, "of "+requests[i].ID
		}
		r.requests.add(requests...)
		in := DecideInput{Request: "1.0", Allow: true, ArgumentsHash: "of 1.0", Grant: turn.GrantTool, Covered: true, By: "ann"}
		decided, err := r.decide(ctx, in)
		require.NoError(t, err)
		also, _ := r.requests.decision("1.2")
		require.Len(t, decided, 2)
		assert.Equal(t, []any{"1.0", also}, []any{decided[0].ID, decided[1]})
		assert.Len(t, r.requests.open(), 2)
		assert.Equal(t, turn.Decision{ID: "1.2", Status: turn.StatusAllowed, Allowed: true, ArgumentsHash: "of 1.2", By: "ann",
			Grant: turn.GrantTool, At: also.At}, also)
	})
}

// inWorkflow runs f as the code of a workflow.
func inWorkflow(t *testing.T, f func(workflow.Context)) {
	t.Helper()
	var suite testsuite.WorkflowTestSuite
	env := suite.NewTestWorkflowEnvironment()
	env.ExecuteWorkflow(func(ctx workflow.Context) error { f(ctx); return nil })
	require.NoError(t, env.GetWorkflowError())
}
