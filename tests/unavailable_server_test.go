package tests

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/client"

	"github.com/everturn/everturn/config"
	"github.com/everturn/everturn/tests/fakellm"
	"github.com/everturn/everturn/workflows"
	"github.com/everturn/everturn/workflows/turn"
)

// The tests of this file make a tool server unavailable while turns need it; some bring it back.

// removableServer is a stdio server whose command can be removed.
type removableServer struct {
	*effectServer
	command, program string
}

func newRemovableServer(t *testing.T) *removableServer {
	return &removableServer{effectServer: newEffectServer(t), command: filepath.Join(t.TempDir(), "server"),
		program: binary(t, "./tests/mcpserver")}
}

func (s *removableServer) host(tool config.MCPTool, change ...func(*config.MCPServer)) func(*config.Config) {
	return func(c *config.Config) {
		s.effectServer.host(tool)(c)
		c.MCP.Servers[0].Command = s.command
		for _, f := range change {
			f(&c.MCP.Servers[0])
		}
	}
}

func (s *removableServer) comeBack() { require.NoError(s.t, os.Symlink(s.program, s.command)) }

// leave removes the command and kills the running process.
func (s *removableServer) leave() {
	require.NoError(s.t, os.Remove(s.command))
	s.kill()
}

// waiting returns when a call of the run waits: it was tried and will be tried again.
func (e *env) waiting(run client.WorkflowRun) {
	e.t.Helper()
	require.Eventually(e.t, func() bool {
		d, err := e.client.DescribeWorkflowExecution(e.t.Context(), run.GetID(), run.GetRunID())
		require.NoError(e.t, err)
		for _, a := range d.GetPendingActivities() {
			if a.GetActivityType().GetName() == "CallTool" && a.GetAttempt() > 2 {
				return true
			}
		}
		return false
	}, within, 5*time.Millisecond, "no call waits")
}

// askWithout begins a turn whose server goes away before its call.
func (e *env) askWithout(s *removableServer, gate *fakellm.Gate, limits *workflows.LimitsRequest) client.WorkflowRun {
	e.t.Helper()
	run := e.begin(session(e.t), "Append it.", limits)
	e.reach(gate)
	s.leave()
	e.catalogued("away", isAway) // a call that is sent before the worker notices may have reached the server
	gate.Release()
	return run
}

// removable returns a harness whose server is available, and whose model calls it once the gate is open.
func removable(t *testing.T) (*env, *removableServer, *fakellm.Gate) {
	gate, s := fakellm.NewGate(), newRemovableServer(t)
	s.comeBack()
	call := fakellm.Call("mcp_ledger_append", `{"text":"x"}`).WithText("One moment.").Hold(2, gate)
	return newEnv(t, fakellm.Steps(call, fakellm.Text("Done.")), s.host(config.MCPTool{})), s, gate
}

func limited(turnTimeout, toolTimeout string) *workflows.LimitsRequest {
	return &workflows.LimitsRequest{TurnTimeout: &turnTimeout, ToolTimeout: &toolTimeout}
}

// attempted returns the activity attempts in which a run's calls were started, according to the history.
func (te *env) attempted(run client.WorkflowRun) (attempts []int32) {
	calls := map[int64]bool{}
	for _, e := range te.events(run.GetID(), run.GetRunID()) {
		if e.GetActivityTaskScheduledEventAttributes().GetActivityType().GetName() == "CallTool" {
			calls[e.EventId] = true
		}
		if a := e.GetActivityTaskStartedEventAttributes(); a != nil && calls[a.ScheduledEventId] {
			attempts = append(attempts, a.Attempt)
		}
	}
	return attempts
}

func TestACallWaitsForItsServer(t *testing.T) {
	t.Parallel()
	e, s, gate := removable(t)
	e.work()
	run := e.askWithout(s, gate, limited("5m", "2m"))
	e.waiting(run)
	s.comeBack()
	res := e.result(run)
	assert.Equal(t, turn.FinishAnswered, res.FinishReason)
	assert.Equal(t, 1, s.count("effect", "x"))
	call := e.calls(run.GetRunID(), 1)[0]
	assert.Equal(t, turn.OutcomeOK, call.Outcome)
	assert.Equal(t, 1, call.Runs, "the claims of attempts that sent nothing are released")
	attempts := e.attempted(run)
	require.Len(t, attempts, 1, "waiting costs no history")
	assert.Greater(t, attempts[0], int32(2))
	shown := []turn.ErrorEvent{{Code: turn.CodeToolNotSent, CallID: "1.0", Tool: call.Call.Tool}}
	assert.Equal(t, shown, e.failures(run.GetRunID()), "once, not with every attempt")
	e.keep("v1-waited", session(t), run.GetRunID())
}

func TestTheModelLearnsWhyACallWasNotSent(t *testing.T) {
	t.Parallel()
	e, s, gate := removable(t)
	e.work()
	run := e.askWithout(s, gate, limited("5m", "2s"))
	res := e.result(run)
	assert.Equal(t, turn.FinishAnswered, res.FinishReason)
	told := results(e.model.Requests()[1].Chat)
	require.Len(t, told, 1)
	for _, part := range []string{"mcp/ledger/append was not called",
		`MCP server "ledger" is unavailable: its command was not found`, "tried for 2s", "next try in "} {
		assert.Contains(t, told[0], part)
	}
	call := e.calls(run.GetRunID(), 1)[0]
	assert.Equal(t, turn.OutcomeError, call.Outcome, "that nothing happened is certain")
	assert.Equal(t, turn.CodeToolNotSent, call.Code)
	assert.Zero(t, s.count("begun", "x"))
	e.keep("v1-waited-in-vain", session(t), run.GetRunID())
}

func TestAStopEndsTheWaitForAServer(t *testing.T) {
	t.Parallel()
	e, s, gate := removable(t)
	e.work()
	run := e.askWithout(s, gate, limited("1h", "30m"))
	e.waiting(run)
	require.NoError(t, e.client.CancelWorkflow(t.Context(), run.GetID(), run.GetRunID()))
	require.Error(t, run.Get(t.Context(), nil))
	call := e.calls(run.GetRunID(), 1)[0]
	assert.Equal(t, turn.OutcomeCancelled, call.Outcome, "that nothing happened is certain")
	assert.Zero(t, call.Runs)
	e.keep("v1-stopped-waiting", session(t), run.GetRunID())
}

// TestARepeatableCallIsRepeatedUntilItsTimeout makes the server die in each of the first calls, more often than the
// immediate repetitions of a call.
func TestARepeatableCallIsRepeatedUntilItsTimeout(t *testing.T) {
	t.Parallel()
	l := newEffectServer(t)
	e := newEnv(t, appendOnce("before"), l.host(config.MCPTool{Repeatable: true}))
	e.work()
	run := e.begin(session(t), "Append it.", limited("5m", "2m"))
	for n := range workflows.Repeats + 1 {
		require.Eventually(t, func() bool { return l.count("begun", "x") > n }, within, 5*time.Millisecond,
			"call %d was not made", n+1)
		l.kill()
	}
	l.open()
	res := e.result(run)
	assert.Equal(t, turn.FinishAnswered, res.FinishReason)
	assert.Equal(t, 1, l.count("effect", "x"))
	assert.Equal(t, turn.OutcomeOK, e.calls(run.GetRunID(), 1)[0].Outcome)
	e.keep("v1-repeated-often", session(t), run.GetRunID())
}

// catalogued returns when the server's catalogue in the journal satisfies ok.
func (e *env) catalogued(what string, ok func(turn.Catalogue) bool) {
	e.t.Helper()
	require.Eventually(e.t, func() bool {
		list, err := e.journal.Catalogues(e.t.Context())
		require.NoError(e.t, err)
		return slices.ContainsFunc(list, func(c turn.Catalogue) bool { return c.Server == "ledger" && ok(c) })
	}, within, 10*time.Millisecond, "the server is not %s", what)
}

func isAway(c turn.Catalogue) bool { return c.Problem != "" }
func isBack(c turn.Catalogue) bool { return c.Problem == "" }

func TestATurnHasTheToolsOfAnUnavailableServer(t *testing.T) {
	t.Parallel()
	s := newRemovableServer(t)
	s.comeBack()
	e := newEnv(t, fakellm.Steps(fakellm.Call("mcp_ledger_append", `{"text":"x"}`), fakellm.Text("Done.")),
		s.host(config.MCPTool{}))
	stop := e.work()
	s.leave()
	e.catalogued("away", isAway)
	stop()
	e.work() // a restarted worker knows the tools from the journal
	run := e.begin(session(t), "Append it.", limited("5m", "2m"))
	e.waiting(run)
	s.comeBack()
	assert.Equal(t, turn.FinishAnswered, e.result(run).FinishReason)
	assert.Equal(t, turn.OutcomeOK, e.calls(run.GetRunID(), 1)[0].Outcome)
	assert.Equal(t, 1, s.count("effect", "x"))
}

func TestATurnGetsTheToolsOfAServerThatReturns(t *testing.T) {
	t.Parallel()
	s := newRemovableServer(t)
	gate := fakellm.NewGate()
	list, last := fakellm.Call("local_list_files", `{}`), fakellm.Text("Done.")
	e := newEnv(t, fakellm.Steps(list, list.WithText("One moment.").Hold(2, gate),
		fakellm.Call("mcp_ledger_append", `{"text":"x"}`), last),
		s.host(config.MCPTool{}))
	e.work()
	run := e.begin(session(t), "Append it.", nil)
	e.reach(gate)
	s.comeBack()
	e.catalogued("back", isBack)
	gate.Release()
	assert.Equal(t, turn.FinishAnswered, e.result(run).FinishReason)
	assert.Equal(t, 1, s.count("effect", "x"))
	assert.Equal(t, turn.OutcomeOK, e.calls(run.GetRunID(), 3)[2].Outcome)

	offers := func(q fakellm.Request) bool { return slices.Contains(q.Chat.ToolNames(), "mcp_ledger_append") }
	away := func(q fakellm.Request) bool {
		return strings.Contains(q.Chat.Last("system").Content, `"ledger" is unavailable`)
	}
	requests := e.model.Requests()
	for i, want := range []bool{false, false, true, true} {
		assert.Equal(t, want, offers(requests[i]), "step %d", i+1)
	}
	assert.True(t, strings.Contains(string(requests[1].Body), `\"ledger\" is unavailable`))
	assert.Contains(t, string(requests[2].Body), "Available again", "the model is told")
	assert.NotContains(t, string(requests[3].Body), "Available again", "once")
	assert.False(t, away(requests[3]))
	e.keep("v1-tools-back", session(t), run.GetRunID())
}
