package tests

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/testsuite"
	"go.temporal.io/sdk/workflow"

	"github.com/everturn/everturn/activities"
	"github.com/everturn/everturn/activities/tools"
	"github.com/everturn/everturn/config"
	"github.com/everturn/everturn/engine"
	"github.com/everturn/everturn/journal"
	"github.com/everturn/everturn/journal/sqlite"
	"github.com/everturn/everturn/tests/fakellm"
	"github.com/everturn/everturn/workflows"
	"github.com/everturn/everturn/workflows/turn"
)

// TestAnApprovalOutlivesWorkerAndServer stops everything while a call waits for an approval, and starts it again. Only
// the files of the journal and of the Temporal server remain. Worker, server and operator are separate processes.
func TestAnApprovalOutlivesWorkerAndServer(t *testing.T) {
	t.Parallel()
	server := newRestartableTemporal(t, filepath.Join(t.TempDir(), "temporal.db"), 0)
	l := newEffectServer(t)
	provider := fakellm.Start(t, fakellm.Steps(fakellm.Call("mcp_ledger_append", `{"text":"x"}`),
		fakellm.Text("Appended.")))
	h := newUserFolder(t, asking(provider)+"[policy]\nask = [\"mcp/ledger/append\"]\n"+
		hosting(t, "ledger", "[mcp.servers.tools.append]\nrisk = \"low\"", "-ledger", l.file, "-release", l.release,
			"-pidfile", l.pid))
	h.moves(server)

	worker := h.worker()
	begun := decoded[ids](h.everturn("run", "--detach", "-o", "json", "Append it.").exits(0))
	require.Eventually(t, func() bool {
		return strings.Contains(h.everturn("approvals", "-o", "json").out.String(),
			begun.Turn)
	}, within, 50*time.Millisecond, "the turn asks nobody")
	worker.signal(syscall.SIGTERM)
	worker.wait()
	server.kill()

	assert.Contains(t, h.everturn("approvals").exits(0).out.String(), "mcp/ledger/append", "what waits is in the journal")
	h.everturn("approve", begun.Session, "--all", "-y").exits(5)
	assert.Zero(t, l.count("begun", "x"))

	server.start()
	h.worker()
	h.everturn("approve", begun.Session, "--all", "-y").exits(0)
	assert.Equal(t, "Appended.\n", h.everturn("attach", begun.Session, "-q").exits(0).out.String())
	assert.Equal(t, 1, l.count("begun", "x"), "the call ran once")
	assert.Equal(t, 1, l.count("effect", "x"))
	assert.Len(t, provider.Requests(), 2, "no inference was asked again")
	h.everturn("approve", begun.Session, "--all", "-y").exits(3)
	assert.Equal(t, 1, l.count("begun", "x"))
}

// moves points the home at another server.
func (h *userFolder) moves(m *restartableTemporal) {
	h.t.Helper()
	b, err := os.ReadFile(h.path("agent.toml"))
	require.NoError(h.t, err)
	h.write("agent.toml", strings.Replace(string(b), h.address, m.address, 1))
	h.address = m.address
}

// timeSkippingEnv is Temporal's test environment, which skips time while nothing happens, with the real workflow, the
// real activities, a real journal and a real tool.
type timeSkippingEnv struct {
	*testsuite.TestWorkflowEnvironment
	t       *testing.T
	journal *journal.DB
	effects atomic.Int32
	began   time.Time
}

// touchOnce is a model that makes one call and then answers with its result.
type touchOnce struct{}

func (touchOnce) Takes(turn.Prompt, string) bool { return false }

func (touchOnce) Infer(_ context.Context, p turn.Prompt, sink turn.Sink) (turn.Completion, error) {
	last := p.Messages[len(p.Messages)-1]
	if last.Role != turn.RoleTool {
		return turn.Completion{ToolCalls: []turn.ToolCall{{WireID: "c", Tool: "local_touch", Arguments: `{"text":"a"}`}},
			FinishReason: "tool_calls"}, nil
	}
	sink.Text("It said: " + last.Text)
	return turn.Completion{Text: "It said: " + last.Text, FinishReason: "stop"}, nil
}

func newTimeSkippingEnv(t *testing.T) *timeSkippingEnv {
	t.Helper()
	ctx := t.Context()
	s := &timeSkippingEnv{t: t}
	var err error
	s.journal, err = sqlite.Open(ctx, filepath.Join(t.TempDir(), "journal.db"), sqlite.Options{Synchronous: "normal"})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, s.journal.Close()) })
	registry := tools.New(tools.Options{MaxResultBytes: 1 << 10}, nil)
	require.NoError(t, tools.Add(registry, "touch", "Touches.", func(_ context.Context, in echoIn) (string, error) {
		s.effects.Add(1)
		return "touched " + in.Text, nil
	}, engine.Risk(turn.RiskHigh)))
	t.Cleanup(func() { require.NoError(t, registry.Close()) })
	for _, c := range registry.Catalogues(ctx) {
		require.NoError(t, s.journal.PublishCatalogue(ctx, c))
	}
	policy := turn.DefaultPolicy()
	policy.Ask = []string{"local/touch"}
	people := config.Default().Approvals
	acts, err := activities.New(activities.Options{Journal: s.journal, Model: touchOnce{}, Tools: registry,
		Settings: activities.Settings{
			Models: func(string, string) ([]turn.Model, error) { return []turn.Model{{Mode: turn.ModeNative}}, nil },
			Limits: turn.DefaultLimits(), Policy: policy, Servers: []string{"local"},
			Approvals: people,
		}})
	require.NoError(t, err)
	var suite testsuite.WorkflowTestSuite
	suite.SetLogger(quiet)
	s.TestWorkflowEnvironment = suite.NewTestWorkflowEnvironment()
	s.RegisterWorkflowWithOptions(workflows.Turn, workflow.RegisterOptions{Name: workflows.TurnWorkflow})
	s.RegisterActivity(acts)
	s.SetStartWorkflowOptions(client.StartWorkflowOptions{ID: "s"})
	s.SetTestTimeout(within)
	return s
}

// run runs a turn to its end.
func (s *timeSkippingEnv) run() (res workflows.Result, took time.Duration) {
	s.t.Helper()
	s.began = s.Now()
	// Runs in this environment have no first run ID, which would be the turn's ID. Only a continued run can be given
	// one.
	s.SetContinuedExecutionRunID("r0")
	s.ExecuteWorkflow(workflows.TurnWorkflow,
		workflows.Input{Turn: "t", Message: &workflows.Message{ID: "m1", Text: "Touch it."}})
	require.True(s.t, s.IsWorkflowCompleted())
	require.NoError(s.t, s.GetWorkflowError())
	require.NoError(s.t, s.GetWorkflowResult(&res))
	return res, s.Now().Sub(s.began)
}

// wait returns the only request of the session.
func (s *timeSkippingEnv) wait() turn.Request {
	s.t.Helper()
	turns, err := s.journal.Turns(s.t.Context(), "s")
	require.NoError(s.t, err)
	require.Len(s.t, turns, 1)
	requests, err := s.journal.Requests(s.t.Context(), turns[0].ID)
	require.NoError(s.t, err)
	require.Len(s.t, requests, 1)
	return requests[0]
}

func TestAnApprovalTheNextDay(t *testing.T) {
	t.Parallel()
	s := newTimeSkippingEnv(t)
	s.RegisterDelayedCallback(func() {
		w := s.wait()
		assert.Nil(t, w.Decision)
		assert.Zero(t, s.effects.Load())
		s.UpdateWorkflow(workflows.DecideUpdate, "u", &testsuite.TestUpdateCallback{
			OnReject: func(err error) { assert.NoError(t, err) }, OnAccept: func() {},
			OnComplete: func(_ any, err error) { assert.NoError(t, err) },
		}, workflows.DecideInput{Request: w.ID, Allow: true, ArgumentsHash: w.ArgumentsHash, By: "ann"})
	}, 24*time.Hour)
	res, took := s.run()
	assert.Equal(t, "It said: touched a", res.Answer)
	assert.EqualValues(t, 1, s.effects.Load())
	assert.Equal(t, turn.StatusAllowed, s.wait().Decision.Status)
	assert.GreaterOrEqual(t, took, 24*time.Hour)
	assert.Less(t, took, 25*time.Hour)
	assert.Equal(t, 2, res.Steps, "a day costs no step, and none of the turn's time")
}
