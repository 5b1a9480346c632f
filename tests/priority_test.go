package tests

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	commonpb "go.temporal.io/api/common/v1"
	enumspb "go.temporal.io/api/enums/v1"

	"github.com/everturn/everturn/client"
	"github.com/everturn/everturn/config"
	"github.com/everturn/everturn/tests/fakellm"
	"github.com/everturn/everturn/workflows/turn"
)

// priorities returns the priorities of a run's activities, in the order of their events.
func (te *env) priorities(session, run string) (list []*commonpb.Priority) {
	for _, e := range te.events(session, run) {
		if a := e.GetActivityTaskScheduledEventAttributes(); a != nil {
			list = append(list, a.GetPriority())
		}
	}
	return list
}

// TestAUserOvertakesASchedule lets a backlog build up at the only worker that calls the model: a turn that no user
// waits for, and then one of a user. A worker that also carries the turns may get activities eagerly, outside of the
// queue and its order.
func TestAUserOvertakesASchedule(t *testing.T) {
	t.Parallel()
	for name, workers := range map[string][][]config.Role{
		"apart":    {{config.RoleTurns}, {config.RoleInference}},
		"together": {{config.RoleTurns, config.RoleInference, config.RoleTools}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			overtakes(t, workers)
		})
	}
}

func overtakes(t *testing.T, workers [][]config.Role) {
	t.Helper()
	temporal := newRestartableTemporal(t, "", 0)
	temporal.kill()
	// the default since server 1.31
	temporal.args = append(temporal.args, "--dynamic-config-value", "matching.useNewMatcher=true")
	temporal.start()
	gate := fakellm.NewGate()
	e := newEnv(t, fakellm.Cases(
		fakellm.When("Occupy it.", fakellm.Text("Occupied.").Hold(1, gate)), fakellm.When("", fakellm.Text("Done."))))
	temporal.serves(e)
	for _, roles := range workers {
		e.process(role(roles...), func(c *config.Config) { c.Worker.MaxConcurrentActivities = 1 })
	}
	tenant := client.New(e.client, client.Options{Journal: e.journal.Tenant("acme"), TaskQueue: e.cfg.Temporal.TaskQueue,
		Tenant: "acme"})
	send := func(session, text string, background bool) client.Turn {
		sent, err := tenant.Send(t.Context(), client.SendInput{Session: session,
			Message: turn.UserMessage{Text: text, Background: background}})
		require.NoError(t, err)
		return sent
	}
	send("first", "Occupy it.", false)
	e.reach(gate)
	for _, one := range []client.Turn{send("scheduled", "From a schedule.", true), send("user", "From a user.", false)} {
		e.happened(e.client.GetWorkflow(t.Context(), tenant.WorkflowID(one.Session), ""),
			enumspb.EVENT_TYPE_ACTIVITY_TASK_SCHEDULED)
	}
	gate.Release()
	for _, session := range []string{"first", "scheduled", "user"} {
		require.NoError(t, e.client.GetWorkflow(t.Context(), tenant.WorkflowID(session), "").Get(t.Context(), nil))
	}
	requests := e.model.Requests()
	require.Len(t, requests, 3)
	assert.True(t, strings.Contains(string(requests[1].Body), "From a user."), "a user's turn overtakes a scheduled one")
	for session, key := range map[string]int32{"scheduled": 5, "user": 3} {
		list := e.priorities(tenant.WorkflowID(session), "")
		require.Len(t, list, 1)
		assert.Equal(t, key, list[0].GetPriorityKey())
		assert.Equal(t, "acme", list[0].GetFairnessKey())
	}
}

func TestLaterStepsOutrankFirstSteps(t *testing.T) {
	t.Parallel()
	e := newEnv(t, fakellm.Steps(fakellm.Call("local_list_files", `{}`), fakellm.Text("None.")),
		func(c *config.Config) { c.Worker.SeparateQueues = true })
	e.process(role(config.RoleTurns))
	e.process(role(config.RoleInference, config.RoleTools))
	e.published("local")
	run := e.begin(t.Name(), "Which files are here?", nil)
	require.Equal(t, "None.", e.result(run).Answer)
	var keys []int32
	for _, p := range e.priorities(t.Name(), run.GetRunID()) {
		keys = append(keys, p.GetPriorityKey())
	}
	assert.Equal(t, []int32{3, 2, 2}, keys, "the first inference, the call, the second inference")
}
