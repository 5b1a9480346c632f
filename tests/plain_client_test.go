package tests

import (
	"context"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	enumspb "go.temporal.io/api/enums/v1"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/workflow"

	"github.com/everturn/everturn/tests/fakellm"
	"github.com/everturn/everturn/workflows"
	"github.com/everturn/everturn/workflows/turn"
)

// send starts a session's turn with a message, or merges the message into the running one, as everturn does:
// update-with-start under the message's ID.
func (e *env) send(ctx context.Context, session string,
	m workflows.Message) (client.WorkflowRun, workflows.SendResult, error) {
	start := e.client.NewWithStartWorkflowOperation(client.StartWorkflowOptions{
		ID: session, TaskQueue: e.cfg.Temporal.TaskQueue,
		WorkflowIDConflictPolicy: enumspb.WORKFLOW_ID_CONFLICT_POLICY_USE_EXISTING,
	}, workflows.TurnWorkflow, workflows.Input{})
	var res workflows.SendResult
	update, err := e.client.UpdateWithStartWorkflow(ctx, client.UpdateWithStartWorkflowOptions{
		StartWorkflowOperation: start,
		UpdateOptions: client.UpdateWorkflowOptions{
			UpdateID: m.ID, UpdateName: workflows.SendUpdate, WaitForStage: client.WorkflowUpdateStageCompleted, Args: []any{m},
		},
	})
	if err != nil {
		return nil, res, err
	}
	if err := update.Get(ctx, &res); err != nil {
		return nil, res, err
	}
	run, err := start.Get(ctx)
	return run, res, err
}

func TestAnyClientStartsATurnWithPlainJSON(t *testing.T) {
	t.Parallel()
	e := newEnv(t, fakellm.Text("Hello back.").Usage(10, 2, 0))
	e.work()
	id := session(t)
	run, err := e.client.ExecuteWorkflow(t.Context(),
		client.StartWorkflowOptions{ID: id, TaskQueue: e.cfg.Temporal.TaskQueue}, "Turn",
		map[string]any{"session": id, "message": map[string]any{"id": "m1", "text": "Hello."}, "agent": "default",
			"limits": map[string]any{"max_steps": 3}})
	require.NoError(t, err)
	var out map[string]any
	require.NoError(t, run.Get(t.Context(), &out))
	assert.Equal(t, map[string]any{
		"v": 1.0, "session": id, "turn": run.GetRunID(), "state": "completed", "finish_reason": "answered",
		"answer": "Hello back.",
		"usage": map[string]any{"input_tokens": 10.0, "output_tokens": 2.0,
			"unpriced": true}, "steps": 1.0, "tool_calls": 0.0,
		"model": "scripted",
	}, out)
}

func TestTheEventsOfATurnStartedByUpdate(t *testing.T) {
	t.Parallel()
	e := newEnv(t, fakellm.Text("It is a test."))
	e.work()
	id := session(t)
	plain := e.begin(id, "What is this?", nil)
	e.result(plain)
	run, sent, err := e.send(t.Context(), id, workflows.Message{ID: "m1", Text: "What is this?"})
	require.NoError(t, err)
	e.ran = append(e.ran, workflow.Execution{ID: id, RunID: run.GetRunID()})
	assert.Equal(t, run.GetRunID(), sent.Turn)
	assert.Equal(t, "It is a test.", e.result(run).Answer)
	before, events := e.events(id, plain.GetRunID()), e.events(id, run.GetRunID())
	t.Logf("%d events by input, %d by update", len(before), len(events))
	assert.Len(t, events, len(before)+2)
	withinBudget(t, events, 16)
	e.keep("v1-by-update", id, run.GetRunID())
}

func TestAMessageIsAnsweredOnceInItsSession(t *testing.T) {
	t.Parallel()
	e := newEnv(t, fakellm.Text("the first answer"))
	e.work()
	id, m := session(t), workflows.Message{ID: "m1", Text: "Ask."}
	first := e.result(e.start(id, workflows.Input{Message: &m}))
	assert.Equal(t, "the first answer", first.Answer)
	e.model.SetScript(fakellm.Text("another answer"))
	again := e.result(e.start(id, workflows.Input{Message: &m}))
	assert.Equal(t, turn.FinishDuplicate, again.FinishReason)
	assert.Equal(t, "the first answer", again.Answer)
	assert.Contains(t, again.Message, first.Turn)
	e.keep("v1-duplicate", id, again.Turn)
	run, _, err := e.send(t.Context(), id, m)
	require.NoError(t, err)
	assert.Equal(t, turn.FinishDuplicate, e.result(run).FinishReason)
	e.keep("v1-duplicate-by-update", id, run.GetRunID())
	assert.Len(t, e.model.Requests(), 1, "nothing was asked again")
	messages := paired(t, e, id)
	assert.Len(t, messages, 2)
	other := e.result(e.start(id+" other", workflows.Input{Message: &m}))
	assert.Equal(t, "another answer", other.Answer, "the ID means nothing in another session")
}
