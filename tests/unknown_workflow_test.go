package tests

import (
	"context"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	enumspb "go.temporal.io/api/enums/v1"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/temporal"

	"github.com/everturn/everturn/tests/fakellm"
	"github.com/everturn/everturn/workflows"
	"github.com/everturn/everturn/workflows/turn"
)

// TestAnUnknownWorkflowTypeDoesNotBlockItsSession checks that a session stays usable although any Temporal client may
// start any workflow under its ID.
func TestAnUnknownWorkflowTypeDoesNotBlockItsSession(t *testing.T) {
	t.Parallel()
	e := newEnv(t, fakellm.Text("Here."))
	e.work()
	run, err := e.client.ExecuteWorkflow(t.Context(),
		client.StartWorkflowOptions{ID: session(t), TaskQueue: e.cfg.Temporal.TaskQueue}, "Nope", "x")
	require.NoError(t, err)
	ctx, cancel := context.WithTimeout(t.Context(), within)
	defer cancel()
	var app *temporal.ApplicationError
	require.ErrorAs(t, run.Get(ctx, nil), &app)
	assert.Equal(t, string(turn.CodeConfigInvalid), app.Type())
	assert.True(t, app.NonRetryable())
	assert.Equal(t, turn.FinishAnswered, e.ask(session(t), "Are you there?").FinishReason)
}

// TestCLIStopsATurnWithoutAWorkerByForceOnly checks that only --force ends a turn whose task queue no worker polls.
func TestCLIStopsATurnWithoutAWorkerByForceOnly(t *testing.T) {
	t.Parallel()
	h := newUserFolder(t, asking(fakellm.Start(t, fakellm.Text("Here."))))
	h.worker()
	c := h.dial()
	run, err := c.ExecuteWorkflow(t.Context(), client.StartWorkflowOptions{ID: "kept", TaskQueue: "polled by no worker"},
		workflows.TurnWorkflow, map[string]any{"message": map[string]any{"text": "hello"}})
	require.NoError(t, err)
	refused := h.everturn("stop", "kept", "--timeout", "1s").exits(124)
	assert.Contains(t, refused.err.String(), "everturn stop kept --force")
	d, err := c.DescribeWorkflowExecution(t.Context(), "kept", run.GetRunID())
	require.NoError(t, err)
	assert.Equal(t, enumspb.WORKFLOW_EXECUTION_STATUS_RUNNING, d.WorkflowExecutionInfo.Status)
	h.everturn("stop", "kept", "--timeout", "1s", "--force").exits(0)
	assert.Equal(t, "Here.\n", h.everturn("run", "-q", "-s", "kept", "Are you there?").exits(0).out.String())
}
