package tests

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	commonpb "go.temporal.io/api/common/v1"
	enumspb "go.temporal.io/api/enums/v1"
	updatepb "go.temporal.io/api/update/v1"
	"go.temporal.io/api/workflowservice/v1"
	sdk "go.temporal.io/sdk/client"

	"github.com/everturn/everturn/client"
	"github.com/everturn/everturn/tests/fakellm"
	"github.com/everturn/everturn/workflows"
	"github.com/everturn/everturn/workflows/turn"
)

// resumed terminates the session's run and continues the turn in a new run, as continue-as-new does, with a message
// that is already admitted when the new run begins. No worker may run before.
func (e *env) resumed(sessionID, turnID string, m workflows.Message) sdk.WorkflowRun {
	e.t.Helper()
	ctx := e.t.Context()
	begun, err := e.journal.Begin(ctx, turn.BeginInput{Session: sessionID, Turn: turnID, WorkflowID: sessionID,
		RunID: turnID, Message: turn.UserMessage{ID: "m1", Text: "One."}})
	require.NoError(e.t, err)
	require.True(e.t, begun.Resumed)
	_, head := e.transcript(sessionID)
	p := turn.Progress{Head: head, From: 1, Anchor: begun.Head.Seq, Counters: turn.Counters{Step: 1, Spent: 1}}
	require.NoError(e.t, json.Unmarshal(begun.Config, &p.Config))
	require.NoError(e.t, e.client.TerminateWorkflow(ctx, sessionID, "", "a test"))
	run := e.handedOn(sessionID, workflows.Input{Version: workflows.WireVersion, Session: sessionID, Turn: turnID,
		Continued: &p})
	sent := make(chan error, 1)
	go func() {
		h, err := e.client.UpdateWorkflow(ctx,
			sdk.UpdateWorkflowOptions{UpdateID: m.ID, WorkflowID: sessionID, UpdateName: workflows.SendUpdate,
				Args: []any{m}, WaitForStage: sdk.WorkflowUpdateStageCompleted})
		if err == nil {
			err = h.Get(ctx, nil)
		}
		sent <- err
	}()
	admitted := &workflowservice.PollWorkflowExecutionUpdateRequest{
		Namespace: sdk.DefaultNamespace,
		UpdateRef: &updatepb.UpdateRef{WorkflowExecution: &commonpb.WorkflowExecution{WorkflowId: sessionID},
			UpdateId: m.ID},
		WaitPolicy: &updatepb.WaitPolicy{LifecycleStage: enumspb.UPDATE_WORKFLOW_EXECUTION_LIFECYCLE_STAGE_ADMITTED},
	}
	require.Eventually(e.t, func() bool {
		_, err := e.client.WorkflowService().PollWorkflowExecutionUpdate(ctx, admitted)
		return err == nil
	}, within, 5*time.Millisecond)
	e.work()
	require.NoError(e.t, <-sent)
	return run
}

// TestAContinuedRunAcceptsAMessageInItsFirstTask checks that a continued run accepts a message although its update
// handlers run before any other code of the run.
func TestAContinuedRunAcceptsAMessageInItsFirstTask(t *testing.T) {
	t.Parallel()
	e := newEnv(t, fakellm.Cases(fakellm.When("Two.", fakellm.Text("To both.")),
		fakellm.When("One.", fakellm.Call("ask_user", `{"question":"And then?"}`))))
	stop := e.work()
	begun := e.say(session(t), workflows.Message{ID: "m1", Text: "One."})
	e.waits(begun.ID, 1)
	stop()      // until the message is there
	e.ran = nil // a terminated run cannot be replayed
	run := e.resumed(session(t), begun.ID, workflows.Message{ID: "m2", Text: "Two."})
	rec := e.answered(session(t), "m2")
	assert.Equal(t, begun.ID, rec.ID)
	assert.Equal(t, "To both.", rec.Answer)
	assert.Equal(t, "To both.", e.result(run).Answer)
}

// TestARepeatedMessageAnswersNoQuestion checks that a message that the session already has does not answer a later
// question when it is sent again.
func TestARepeatedMessageAnswersNoQuestion(t *testing.T) {
	t.Parallel()
	for name, turns := range map[string]bool{"of this turn": false, "of a turn before": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			e := newEnv(t, fakellm.Cases(
				fakellm.When("The first.", fakellm.Text("The first it is.")),
				fakellm.When("Old.", fakellm.Text("That was long ago.")),
				fakellm.When("Which?", fakellm.Call("ask_user", `{"question":"Which one?"}`)),
			))
			e.work()
			old := workflows.Message{ID: "m1", Text: "Old."}
			if turns {
				e.ended(e.say(session(t), old).ID)
			}
			again := workflows.Message{ID: "m2", Text: "Which?"}
			begun := e.say(session(t), again)
			e.waits(begun.ID, 1)
			if turns {
				again = old
			}
			for range 2 {
				_, err := e.people().Send(t.Context(), client.SendInput{Session: session(t), Message: again})
				require.NoError(t, err)
			}
			// Until the journal reports that the session already has the message, an answer waits.
			err := e.people().Answer(t.Context(), client.DecideInput{Session: session(t), Request: "q1", Text: "The first."})
			require.NoError(t, err)
			assert.Equal(t, "The first it is.", e.ended(begun.ID).Answer)
			messages, _ := e.transcript(session(t))
			assert.Equal(t, "The first.", messages[len(messages)-2].Text)
		})
	}
}

// TestARepeatedFinishReportsUndeliveredMessages settles a turn twice: a workflow task that settles a turn may be lost,
// and its repetition may have accepted another message.
func TestARepeatedFinishReportsUndeliveredMessages(t *testing.T) {
	t.Parallel()
	acts, j, _ := infer(t, deaf{make(chan struct{})})
	in := workflows.FinishInput{FinishInput: turn.FinishInput{Session: "s", Turn: "t",
		Messages: []workflows.Message{{ID: "m2", Text: "Two."}},
		Result:   turn.Result{State: turn.StateCancelled, Reason: turn.FinishCancelled}}}
	first, err := acts.Finish(t.Context(), in)
	require.NoError(t, err)
	assert.Empty(t, first.Undelivered)
	in.Messages = append(in.Messages, workflows.Message{ID: "m3", Text: "Three."})
	for range 2 {
		again, err := acts.Finish(t.Context(), in)
		require.NoError(t, err)
		assert.Equal(t, []string{"m3"}, again.Undelivered)
	}
	rec, err := j.Delivered(t.Context(), "s", "m2")
	require.NoError(t, err)
	assert.Equal(t, "t", rec.ID)
}

// TestAWaitingTurnStaysReachable sends the same message over and over to a turn that waits for an answer. Temporal
// counts each of these updates, and refuses all of a run that has had too many: the turn continues in a new run before.
func TestAWaitingTurnStaysReachable(t *testing.T) {
	t.Parallel()
	server := newRestartableTemporal(t, "", 60)
	e := newEnv(t, fakellm.Cases(fakellm.When("Blue.", fakellm.Text("Blue it is.")),
		fakellm.When("Which?", fakellm.Call("ask_user", `{"question":"Which one?"}`))))
	server.serves(e)
	e.work()
	m := workflows.Message{ID: "m1", Text: "Which?"}
	begun := e.say(session(t), m)
	e.waits(begun.ID, 1)
	for range 60 { // each is an update of its own
		h, err := e.client.UpdateWorkflow(t.Context(), sdk.UpdateWorkflowOptions{WorkflowID: session(t),
			UpdateName: workflows.SendUpdate, Args: []any{m}, WaitForStage: sdk.WorkflowUpdateStageCompleted})
		require.NoError(t, err)
		require.NoError(t, h.Get(t.Context(), nil))
	}
	d, err := e.client.DescribeWorkflowExecution(t.Context(), session(t), "")
	require.NoError(t, err)
	assert.NotEqual(t, begun.ID, d.WorkflowExecutionInfo.GetExecution().GetRunId(), "the turn waits in a later run")
	// As above, the repeated message counts as the answer until the journal reports that the session already has it.
	require.Eventually(t, func() bool {
		return e.people().Answer(t.Context(), client.DecideInput{Session: session(t), Request: "q1", Text: "Blue."}) == nil
	}, within, 50*time.Millisecond)
	assert.Equal(t, "Blue it is.", e.ended(begun.ID).Answer)
}
