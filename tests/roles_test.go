package tests

import (
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	historypb "go.temporal.io/api/history/v1"
	"go.temporal.io/sdk/temporal"

	"github.com/everturn/everturn/config"
	"github.com/everturn/everturn/tests/fakellm"
	"github.com/everturn/everturn/workflows"
	"github.com/everturn/everturn/workflows/turn"
)

// role returns the change of a configuration that limits a worker to some roles.
func role(roles ...config.Role) func(*config.Config) {
	return func(c *config.Config) { c.Worker.Roles = roles }
}

// split starts a worker for each role.
func (e *env) split() {
	e.process(role(config.RoleTurns))
	e.process(role(config.RoleInference))
	e.process(role(config.RoleTools))
}

// published returns when the journal has the tools of a server.
func (e *env) published(server string) {
	e.t.Helper()
	require.Eventually(e.t, func() bool {
		all, err := e.journal.Catalogues(e.t.Context())
		return err == nil && slices.ContainsFunc(all, func(c turn.Catalogue) bool {
			return c.Server == server && c.Usable(time.Now())
		})
	}, within, 5*time.Millisecond)
}

// queues returns the task queues of a run's activities, in the order of their events.
func (te *env) queues(session, run string) (queues []string) {
	for _, e := range te.events(session, run) {
		if a, ok := e.Attributes.(*historypb.HistoryEvent_ActivityTaskScheduledEventAttributes); ok {
			queues = append(queues, a.ActivityTaskScheduledEventAttributes.TaskQueue.Name)
		}
	}
	return queues
}

func TestEachRoleHasItsWorkers(t *testing.T) {
	t.Parallel()
	l := newEffectServer(t)
	e := newEnv(t, appendOnce(""), l.host(config.MCPTool{}))
	e.split()
	e.published("ledger")
	run := e.begin(t.Name(), "Append it.", nil)
	assert.Equal(t, "Appended.", e.result(run).Answer)
	assert.Equal(t, 1, l.count("effect", "x"))
	inference, tools := e.cfg.Queue(config.RoleInference), e.cfg.Queue(config.RoleTools)
	assert.Equal(t, []string{inference, tools, inference}, e.queues(t.Name(), run.GetRunID()))
	e.keep("v1-roles", t.Name(), run.GetRunID())
}

// TestATurnOutlivesItsQueues begins a turn on a worker of all roles and ends it on workers of one role each.
func TestATurnOutlivesItsQueues(t *testing.T) {
	t.Parallel()
	l := newEffectServer(t)
	gate := fakellm.NewGate()
	e := newEnv(t, fakellm.Steps(
		fakellm.Attempts(fakellm.Text("Lost.").Hold(1, gate), fakellm.Call("mcp_ledger_append", `{"text":"x"}`)),
		fakellm.Text("Appended."),
	), l.host(config.MCPTool{}))
	first := e.process()
	run := e.begin(t.Name(), "Append it.", nil)
	e.reach(gate)
	first.kill()
	e.split()
	assert.Equal(t, "Appended.", e.result(run).Answer)
	assert.Equal(t, 1, l.count("effect", "x"))
	e.keep("v1-roles-moved", t.Name(), run.GetRunID())
}

func TestAServerIsOnlyOnSomeWorkers(t *testing.T) {
	t.Parallel()
	l := newEffectServer(t)
	once := fakellm.Steps(fakellm.Call("mcp_ledger_append", `{"text":"x"}`), fakellm.Text("Done."))
	e := newEnv(t, once, l.host(config.MCPTool{}), func(c *config.Config) { c.MCP.Servers[0].Queue = "browser" })
	hosting := e.process(role("browser"))
	e.published("ledger")
	e.process()
	run := e.begin(t.Name(), "Append it.", nil)
	assert.Equal(t, "Done.", e.result(run).Answer)
	assert.Equal(t, 1, l.count("effect", "x"))
	assert.Contains(t, e.queues(t.Name(), run.GetRunID()), e.cfg.ServerQueue("browser"))
	e.keep("v1-server-queue", t.Name(), run.GetRunID())

	hosting.kill()
	soon := "2s"
	lost := e.begin(t.Name()+"-lost", "Append it.", &workflows.LimitsRequest{TurnTimeout: &soon})
	require.Equal(t, turn.StateCompleted, e.result(lost).State)
	call := e.calls(lost.GetRunID(), 1)[0]
	assert.Equal(t, turn.OutcomeError, call.Outcome, "a call that no worker took was not sent")
	assert.Equal(t, 1, l.count("begun", "x"))
}

// TestATurnWaitsForNoUnknownServer begins turns before a worker with the role tools has ever run.
func TestATurnWaitsForNoUnknownServer(t *testing.T) {
	t.Parallel()
	for name, required := range map[string]bool{"required": true, "optional": false} {
		l := newEffectServer(t)
		e := newEnv(t, fakellm.Text("I have no tools."), l.host(config.MCPTool{}), func(c *config.Config) {
			c.MCP.Servers[0].Required = required
			c.Temporal.TaskQueue += name
		})
		e.process(role(config.RoleTurns, config.RoleInference))
		run := e.begin(t.Name()+"-"+name, "Append it.", nil)
		if required {
			var failed *temporal.ApplicationError
			require.ErrorAs(t, run.Get(t.Context(), nil), &failed)
			assert.Equal(t, string(turn.CodeToolNotSent), failed.Type())
			continue
		}
		assert.Equal(t, "I have no tools.", e.result(run).Answer)
		assert.Contains(t, string(e.model.Requests()[0].Body), `The tool server \"ledger\" is unavailable`)
	}
}
