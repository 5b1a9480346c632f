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
func (r *env) update(session, name string, arg any) error {
	ctx, cancel := context.WithTimeout(r.t.Context(), within)
	defer cancel()
	h, err := r.client.UpdateWorkflow(ctx, sdk.UpdateWorkflowOptions{
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
	r := newEnv(t, fakellm.Cases(
		fakellm.When("And this?", fakellm.Text("one two three four").StallAfter(4)),
		fakellm.When("", fakellm.Call("local_echo", `{"text":"a"}`).Hold(1, gate)),
	))
	r.work(withEcho()...)
	first := r.say(session(t), workflows.Message{ID: "m1", Text: "Go."})
	r.reach(gate)
	require.NoError(t, r.update(session(t), workflows.SendUpdate, workflows.Message{Text: "And this?"}))
	gate.Release()
	r.awaitChunk(first.ID, turn.ChunkTextDelta)
	require.NoError(t, r.people().Stop(t.Context(), session(t)))
	assert.Equal(t, turn.StateCancelled, r.ended(first.ID).State)
	messages, _ := r.transcript(session(t))
	var said []string
	for _, m := range messages {
		if m.Role == turn.RoleUser {
			said = append(said, m.Text)
		}
	}
	assert.Equal(t, []string{"Go.", "And this?"}, said)
}

// TestTheInboxIsBoundedByItsEncodedSize checks that an inbox is bounded by its encoded size: JSON encodes some
// characters in six bytes.
func TestTheInboxIsBoundedByItsEncodedSize(t *testing.T) {
	t.Parallel()
	gate := fakellm.NewGate()
	r := newEnv(t, fakellm.Func(func(q fakellm.Request) fakellm.Reply {
		if strings.HasPrefix(q.Chat.Last("user").Content, "<") {
			return fakellm.Text("Done.")
		}
		return fakellm.Call("local_echo", `{"text":"a"}`).Hold(1, gate)
	}))
	r.work(withEcho()...)
	first := r.say(session(t), workflows.Message{ID: "m1", Text: "Go."})
	r.reach(gate)
	bulky := strings.Repeat("<", 170<<10) // about a megabyte when encoded
	require.NoError(t, r.update(session(t), workflows.SendUpdate, workflows.Message{ID: "inline", Text: bulky}))
	refused(t, turn.CodeSessionBusy, r.update(session(t), workflows.SendUpdate,
		workflows.Message{ID: "more", Text: bulky}))
	refused(t, turn.CodeInputInvalid, r.update(session(t), workflows.SendUpdate,
		workflows.Message{ID: "long", Text: bulky + bulky}))
	for _, id := range []string{"a", "b", "c"} { // these texts go through the journal
		_, err := r.people().Send(t.Context(),
			client.SendInput{Session: session(t), Message: workflows.Message{ID: id, Text: bulky}})
		require.NoError(t, err)
	}
	gate.Release()
	assert.Equal(t, "Done.", r.ended(first.ID).Answer)
	assert.Equal(t, first.ID, r.answered(session(t), "c").ID)
}

// TestARunThatCannotBeginRejectsMessages checks that a run that cannot begin rejects messages: it would pass them to a
// run that cannot begin either.
func TestARunThatCannotBeginRejectsMessages(t *testing.T) {
	t.Parallel()
	r := newEnv(t, fakellm.Text("Hello."))
	r.work()
	id := session(t) + " "
	o := sdk.StartWorkflowOptions{ID: id, TaskQueue: r.cfg.Temporal.TaskQueue,
		WorkflowIDConflictPolicy: enumspb.WORKFLOW_ID_CONFLICT_POLICY_USE_EXISTING}
	ctx, cancel := context.WithTimeout(t.Context(), within)
	defer cancel()
	h, err := r.client.UpdateWithStartWorkflow(ctx, sdk.UpdateWithStartWorkflowOptions{
		StartWorkflowOperation: r.client.NewWithStartWorkflowOperation(o, workflows.TurnWorkflow, workflows.Input{}),
		UpdateOptions: sdk.UpdateWorkflowOptions{UpdateID: "m1", WorkflowID: id, UpdateName: workflows.SendUpdate,
			Args: []any{workflows.Message{ID: "m1", Text: "Hello?"}}, WaitForStage: sdk.WorkflowUpdateStageCompleted},
	})
	if err == nil {
		err = h.Get(ctx, nil)
	}
	refused(t, turn.CodeInputInvalid, err)
	app, _ := r.failure(r.client.GetWorkflow(ctx, id, ""))
	assert.Equal(t, string(turn.CodeInputInvalid), app.Type())
	d, err := r.client.DescribeWorkflowExecution(ctx, id, "")
	require.NoError(t, err)
	assert.Equal(t, d.WorkflowExecutionInfo.FirstRunId, d.WorkflowExecutionInfo.Execution.RunId,
		"it went on in no other run")
	r.ran = append(r.ran, workflow.Execution{ID: id, RunID: d.WorkflowExecutionInfo.FirstRunId})
}
