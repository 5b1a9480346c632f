package tests

import (
	"context"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	enumspb "go.temporal.io/api/enums/v1"
	sdk "go.temporal.io/sdk/client"
	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/workflow"

	"github.com/everturn/everturn/client"
	"github.com/everturn/everturn/tests/fakellm"
	"github.com/everturn/everturn/workflows"
	"github.com/everturn/everturn/workflows/turn"
)

// update sends an update as any other Temporal client would.
func (e *env) update(session, name string, arg any) error {
	ctx, cancel := context.WithTimeout(e.t.Context(), within)
	defer cancel()
	h, err := e.client.UpdateWorkflow(ctx, sdk.UpdateWorkflowOptions{
		WorkflowID: session, UpdateName: name, Args: []any{arg}, WaitForStage: sdk.WorkflowUpdateStageCompleted,
	})
	if err != nil {
		return err
	}
	return h.Get(ctx, nil)
}

// refused checks that an update was rejected with a code.
func refused(t *testing.T, code turn.Code, err error) {
	t.Helper()
	var app *temporal.ApplicationError
	require.ErrorAs(t, err, &app)
	assert.Equal(t, string(code), app.Type(), app.Message())
}

// TestAMessageWithoutAnIDIsAppendedOnce checks that a message that another client sends without an ID gets its update's
// ID: the transcript has it once, even if the inference whose prompt holds it is stopped.
func TestAMessageWithoutAnIDIsAppendedOnce(t *testing.T) {
	t.Parallel()
	gate := fakellm.NewGate()
	e := newEnv(t, fakellm.Cases(
		fakellm.When("And this?", fakellm.Text("one two three four").StallAfter(4)),
		fakellm.When("", fakellm.Call("local_echo", `{"text":"a"}`).Hold(1, gate)),
	))
	e.work(withEcho()...)
	first := e.say(session(t), workflows.Message{ID: "m1", Text: "Go."})
	e.reach(gate)
	require.NoError(t, e.update(session(t), workflows.SendUpdate, workflows.Message{Text: "And this?"}))
	gate.Release()
	e.awaitEvent(first.ID, turn.EventTextDelta)
	require.NoError(t, e.people().Stop(t.Context(), session(t)))
	assert.Equal(t, turn.StateCancelled, e.ended(first.ID).State)
	messages, _ := e.transcript(session(t))
	var output []string
	for _, m := range messages {
		if m.Role == turn.RoleUser {
			output = append(output, m.Text)
		}
	}
	assert.Equal(t, []string{"Go.", "And this?"}, output)
}

// TestTheInboxIsBoundedByItsEncodedSize checks that an inbox is bounded by its encoded size: JSON encodes some
// characters in six bytes.
func TestTheInboxIsBoundedByItsEncodedSize(t *testing.T) {
	t.Parallel()
	gate := fakellm.NewGate()
	e := newEnv(t, fakellm.Func(func(q fakellm.Request) fakellm.Reply {
		if strings.HasPrefix(q.Chat.Last("user").Content, "<") {
			return fakellm.Text("Done.")
		}
		return fakellm.Call("local_echo", `{"text":"a"}`).Hold(1, gate)
	}))
	e.work(withEcho()...)
	first := e.say(session(t), workflows.Message{ID: "m1", Text: "Go."})
	e.reach(gate)
	bulky := strings.Repeat("<", 170<<10) // about a megabyte when encoded
	require.NoError(t, e.update(session(t), workflows.SendUpdate, workflows.Message{ID: "inline", Text: bulky}))
	refused(t, turn.CodeSessionBusy, e.update(session(t), workflows.SendUpdate,
		workflows.Message{ID: "more", Text: bulky}))
	refused(t, turn.CodeInputInvalid, e.update(session(t), workflows.SendUpdate,
		workflows.Message{ID: "long", Text: bulky + bulky}))
	for _, id := range []string{"a", "b", "c"} { // these texts go through the journal
		_, err := e.people().Send(t.Context(),
			client.SendInput{Session: session(t), Message: workflows.Message{ID: id, Text: bulky}})
		require.NoError(t, err)
	}
	gate.Release()
	assert.Equal(t, "Done.", e.ended(first.ID).Answer)
	assert.Equal(t, first.ID, e.answered(session(t), "c").ID)
}

// TestARunThatCannotBeginRejectsMessages checks that a run that cannot begin rejects messages: it would pass them to a
// run that cannot begin either.
func TestARunThatCannotBeginRejectsMessages(t *testing.T) {
	t.Parallel()
	e := newEnv(t, fakellm.Text("Hello."))
	e.work()
	id := session(t) + " "
	o := sdk.StartWorkflowOptions{ID: id, TaskQueue: e.cfg.Temporal.TaskQueue,
		WorkflowIDConflictPolicy: enumspb.WORKFLOW_ID_CONFLICT_POLICY_USE_EXISTING}
	ctx, cancel := context.WithTimeout(t.Context(), within)
	defer cancel()
	h, err := e.client.UpdateWithStartWorkflow(ctx, sdk.UpdateWithStartWorkflowOptions{
		StartWorkflowOperation: e.client.NewWithStartWorkflowOperation(o, workflows.TurnWorkflow, workflows.Input{}),
		UpdateOptions: sdk.UpdateWorkflowOptions{UpdateID: "m1", WorkflowID: id, UpdateName: workflows.SendUpdate,
			Args: []any{workflows.Message{ID: "m1", Text: "Hello?"}}, WaitForStage: sdk.WorkflowUpdateStageCompleted},
	})
	if err == nil {
		err = h.Get(ctx, nil)
	}
	refused(t, turn.CodeInputInvalid, err)
	app, _ := e.failure(e.client.GetWorkflow(ctx, id, ""))
	assert.Equal(t, string(turn.CodeInputInvalid), app.Type())
	d, err := e.client.DescribeWorkflowExecution(ctx, id, "")
	require.NoError(t, err)
	assert.Equal(t, d.WorkflowExecutionInfo.FirstRunId, d.WorkflowExecutionInfo.Execution.RunId,
		"it went on in no other run")
	e.ran = append(e.ran, workflow.Execution{ID: id, RunID: d.WorkflowExecutionInfo.FirstRunId})
}
