package tests

import (
	"fmt"
	"syscall"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	enumspb "go.temporal.io/api/enums/v1"
	"go.temporal.io/api/workflowservice/v1"
	"go.temporal.io/sdk/client"

	"github.com/everturn/everturn/config"
	"github.com/everturn/everturn/internal/temporalconn"
	"github.com/everturn/everturn/tests/fakellm"
	"github.com/everturn/everturn/workflows/turn"
)

// lateTasks are the events of a task that a stopped worker took with it.
var lateTasks = []enumspb.EventType{
	enumspb.EVENT_TYPE_ACTIVITY_TASK_TIMED_OUT, enumspb.EVENT_TYPE_WORKFLOW_TASK_TIMED_OUT,
}

// TestARollingRestartUnderLoad replaces the worker of each role in turn while turns run. No inference is requested
// twice, no call is repeated or unknown, and no task waits for a timeout.
func TestARollingRestartUnderLoad(t *testing.T) {
	t.Parallel()
	const turns, hops = 12, 3
	l := newEffectServer(t)
	steps := make([]fakellm.Script, 0, hops+1)
	for i := range hops {
		steps = append(steps, fakellm.Call("mcp_ledger_append", fmt.Sprintf(`{"text":"%d"}`, i)))
	}
	e := newEnv(t, fakellm.Steps(append(steps, fakellm.Text("Appended."))...), l.host(config.MCPTool{}),
		func(c *config.Config) { c.Worker.DrainTimeout = within })
	roles := []config.Role{config.RoleTurns, config.RoleInference, config.RoleTools}
	running := make([]*process, len(roles))
	for i, one := range roles {
		running[i] = e.process(role(one))
	}
	e.published("ledger")
	var runs []client.WorkflowRun
	for i := range turns {
		runs = append(runs, e.begin(fmt.Sprintf("%s-%d", t.Name(), i), "Append them.", nil))
		if one := i / 2; i%2 == 1 && one < len(roles) {
			next := e.process(role(roles[one]))
			running[one].signal(syscall.SIGTERM)
			running[one].exit()
			running[one] = next
		}
	}
	for _, run := range runs {
		require.Equal(t, turn.StateCompleted, e.result(run).State)
		for _, c := range e.calls(run.GetRunID(), hops) {
			assert.Equal(t, turn.OutcomeOK, c.Outcome)
			assert.Equal(t, 1, c.Runs)
		}
	}
	assert.Len(t, e.model.Requests(), turns*(hops+1), "no inference is paid for twice")
	if !e.drainsPolls() {
		t.Log("not checked: that no task waits for a timeout; it needs a Temporal server of 1.31 or newer with " +
			"frontend.enableCancelWorkerPollsOnShutdown")
		return
	}
	for _, run := range runs {
		for _, kind := range lateTasks {
			assert.Zero(t, count(e.events(run.GetID(), run.GetRunID()), kind), kind)
		}
	}
}

// drainsPolls reports whether the server ends the polls of a worker that stops.
func (e *env) drainsPolls() bool {
	e.t.Helper()
	got, err := e.client.WorkflowService().DescribeNamespace(e.t.Context(),
		&workflowservice.DescribeNamespaceRequest{Namespace: temporalconn.DefaultNamespace})
	require.NoError(e.t, err)
	return got.GetNamespaceInfo().GetCapabilities().GetWorkerPollCompleteOnShutdown()
}
