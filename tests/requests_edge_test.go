package tests

import (
	"context"
	"database/sql"
	"strings"
	"sync/atomic"
	"testing"
	"time"

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
	ctx, cancel := context.WithTimeout(r.t.Context(), 20*time.Second)
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
	refused(t, turn.CodeConfigInvalid, r.update(session(t), workflows.SendUpdate,
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

// TestAStoppedTurnRejectsAnswers checks that a stopped turn, while it is being settled, rejects answers that it could
// not use any more.
func TestAStoppedTurnRejectsAnswers(t *testing.T) {
	t.Parallel()
	r := newEnv(t, fakellm.Call("ask_user", `{"question":"Which file?"}`))
	r.work()
	first := r.say(session(t), workflows.Message{Text: "Read."})
	r.waits(first.ID, 1)
	r.searched(`EverturnState = "waiting" AND WorkflowId = "`+session(t)+`"`, first.ID)
	release := r.lock()
	require.NoError(t, r.people().Stop(t.Context(), session(t)))
	require.Eventually(t, func() bool {
		return count(r.events(session(t), first.ID), enumspb.EVENT_TYPE_WORKFLOW_EXECUTION_CANCEL_REQUESTED) > 0 &&
			count(r.events(session(t), first.ID), enumspb.EVENT_TYPE_ACTIVITY_TASK_SCHEDULED) > 1
	}, time.Minute, 50*time.Millisecond, "the turn is never settled with patience")
	refused(t, turn.CodeNotWaiting, r.update(session(t), workflows.AnswerUpdate,
		workflows.Answer{Question: "q1", Text: "main.go"}))
	release()
	assert.Equal(t, turn.StateCancelled, r.ended(first.ID).State)
}

// lock keeps all writers out of the journal until the returned function is called.
func (r *env) lock() (release func()) {
	r.t.Helper()
	db, err := sql.Open("sqlite", "file:"+r.cfg.Journal.Path+"?_pragma=busy_timeout(10000)")
	require.NoError(r.t, err)
	r.t.Cleanup(func() { db.Close() })
	c, err := db.Conn(r.t.Context())
	require.NoError(r.t, err)
	_, err = c.ExecContext(r.t.Context(), "BEGIN IMMEDIATE")
	require.NoError(r.t, err)
	return func() {
		_, err := c.ExecContext(r.t.Context(), "ROLLBACK")
		require.NoError(r.t, err)
	}
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
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	h, err := r.client.UpdateWithStartWorkflow(ctx, sdk.UpdateWithStartWorkflowOptions{
		StartWorkflowOperation: r.client.NewWithStartWorkflowOperation(o, workflows.TurnWorkflow, workflows.Input{}),
		UpdateOptions: sdk.UpdateWorkflowOptions{UpdateID: "m1", WorkflowID: id, UpdateName: workflows.SendUpdate,
			Args: []any{workflows.Message{ID: "m1", Text: "Hello?"}}, WaitForStage: sdk.WorkflowUpdateStageCompleted},
	})
	if err == nil {
		err = h.Get(ctx, nil)
	}
	refused(t, turn.CodeConfigInvalid, err)
	app, _ := r.failure(r.client.GetWorkflow(ctx, id, ""))
	assert.Equal(t, string(turn.CodeConfigInvalid), app.Type())
	d, err := r.client.DescribeWorkflowExecution(ctx, id, "")
	require.NoError(t, err)
	assert.Equal(t, d.WorkflowExecutionInfo.FirstRunId, d.WorkflowExecutionInfo.Execution.RunId,
		"it went on in no other run")
	r.ran = append(r.ran, workflow.Execution{ID: id, RunID: d.WorkflowExecutionInfo.FirstRunId})
}

// TestALateGrantIsRejected checks that "always" for a call that was already allowed once is rejected, because no
// grant came of it.
func TestALateGrantIsRejected(t *testing.T) {
	t.Parallel()
	var effects atomic.Int32
	r := newEnv(t, fakellm.Steps(fakellm.Calls(fakellm.ToolCall{Name: "local_touch", Arguments: `{"text":"a"}`},
		fakellm.ToolCall{Name: "local_touch", Arguments: `{"text":"b"}`}), fakellm.Text("Done.")), askToTouch)
	r.work(touching(&effects))
	first := r.say(session(t), workflows.Message{Text: "Touch."})
	w := r.waits(first.ID, 2)
	once := workflows.Approval{Call: w[0].ID, Allow: true, ArgumentsHash: w[0].ArgumentsHash, By: "ann"}
	always := once
	always.Grant = turn.GrantTool
	for _, a := range []workflows.Approval{once, once} {
		require.NoError(t, r.update(session(t), workflows.ApproveUpdate, a))
	}
	refused(t, turn.CodeNotWaiting, r.update(session(t), workflows.ApproveUpdate, always))
	always.Call, always.ArgumentsHash = w[1].ID, w[1].ArgumentsHash
	require.NoError(t, r.update(session(t), workflows.ApproveUpdate, always))
	assert.Equal(t, "Done.", r.ended(first.ID).Answer)
	rules, err := r.store.Grants(t.Context(), first.ID)
	require.NoError(t, err)
	assert.Len(t, rules, 1)
}
