package tests

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	enumspb "go.temporal.io/api/enums/v1"
	historypb "go.temporal.io/api/history/v1"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/log"
	"go.temporal.io/sdk/worker"
	"go.temporal.io/sdk/workflow"

	"github.com/everturn/everturn/config"
	"github.com/everturn/everturn/engine"
	"github.com/everturn/everturn/internal/temporalconn"
	"github.com/everturn/everturn/journal"
	"github.com/everturn/everturn/journal/postgres"
	"github.com/everturn/everturn/journal/sqlite"
	"github.com/everturn/everturn/tests/fakellm"
	"github.com/everturn/everturn/workflows"
	"github.com/everturn/everturn/workflows/turn"
)

var quiet = log.NewStructuredLogger(slog.New(slog.DiscardHandler))

// env is a complete Everturn: scripted model, configuration, journal and task queue. If work is called, a worker runs
// in this process; processes of the real worker command can run beside it or instead.
type env struct {
	t       *testing.T
	model   *fakellm.Server
	cfg     config.Config
	dir     string
	client  client.Client
	journal *journal.DB
	ran     []workflow.Execution
	open    bool // the test leaves a turn unfinished
}

// newEnv makes a harness without a worker. change may adapt the configuration.
func newEnv(t *testing.T, s fakellm.Script, change ...func(*config.Config)) *env {
	t.Helper()
	e := &env{t: t, dir: t.TempDir(), cfg: config.Default()}
	e.cfg.SetPreset(config.PresetBrief) // so that a script that never answers ends soon
	e.model = fakellm.Start(t, s)
	e.cfg.LLM.Provider, e.cfg.LLM.BaseURL, e.cfg.LLM.Model = config.ProviderOpenAI, e.model.URL(), "scripted"
	e.cfg.Runtime.Workspace = filepath.Join(e.dir, "workspace")
	e.cfg.Journal.Path = filepath.Join(e.dir, "journal.db")
	e.cfg.Journal.Synchronous = config.SynchronousNormal
	e.cfg.Temporal.Address = stack.Address
	e.cfg.Temporal.TaskQueue = "q-" + strings.ReplaceAll(t.Name(), "/", "-") + fmt.Sprint(time.Now().UnixNano())
	e.cfg.Worker.DrainTimeout = 5 * time.Second
	e.cfg.Policy.Taint = turn.TaintOff // most tests trust their servers; those about taint turn it on
	for _, c := range change {
		c(&e.cfg)
	}
	require.NoError(t, os.MkdirAll(e.cfg.Runtime.Workspace, 0o700))
	var err error
	e.client, err = temporalconn.Dial(t.Context(), temporalconn.Options{Address: stack.Address})
	require.NoError(t, err)
	t.Cleanup(e.client.Close)
	if e.cfg.Journal.Postgres() {
		e.journal, err = postgres.Open(t.Context(), string(e.cfg.Journal.URL), postgres.Options{})
	} else {
		e.journal, err = sqlite.Open(t.Context(), e.cfg.Journal.Path, sqlite.Options{Synchronous: "normal"})
	}
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, e.journal.Close()) })
	t.Cleanup(e.checkAll)
	return e
}

// inJSON makes the scripted model one that writes JSON actions, because it cannot call tools.
func inJSON(c *config.Config) {
	c.Models = append(c.Models, config.Model{Name: "openai:scripted", Capabilities: []string{"json_mode"}})
}

// withMode makes the scripted model request tools in a mode.
func withMode(mode turn.Mode) func(*config.Config) {
	if mode == turn.ModeJSON {
		return inJSON
	}
	return func(*config.Config) {}
}

// work runs a worker in this process until the test ends or the returned function is called.
func (te *env) work(opts ...engine.Option) (stop func()) {
	te.t.Helper()
	opts = append([]engine.Option{engine.WithEnviron(os.Environ())}, opts...)
	e, err := engine.New(te.t.Context(), te.cfg, opts...)
	require.NoError(te.t, err)
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- e.Run(ctx) }()
	var once sync.Once
	stop = func() {
		once.Do(func() {
			cancel()
			require.NoError(te.t, <-done)
			require.NoError(te.t, e.Close())
		})
	}
	te.t.Cleanup(stop)
	return stop
}

func (e *env) begin(session, text string, limits *workflows.LimitsRequest) client.WorkflowRun {
	e.t.Helper()
	return e.start(session, workflows.Input{Message: &workflows.Message{Text: text}, Limits: limits})
}

func (e *env) start(session string, in any) client.WorkflowRun {
	e.t.Helper()
	run, err := e.client.ExecuteWorkflow(e.t.Context(), client.StartWorkflowOptions{
		ID: session, TaskQueue: e.cfg.Temporal.TaskQueue, WorkflowIDConflictPolicy: enumspb.WORKFLOW_ID_CONFLICT_POLICY_FAIL,
		// otherwise a session ID used twice would silently attach to the other run
		WorkflowExecutionErrorWhenAlreadyStarted: true,
	}, workflows.TurnWorkflow, in)
	require.NoError(e.t, err)
	e.ran = append(e.ran, workflow.Execution{ID: run.GetID(), RunID: run.GetRunID()})
	return run
}

// handedOn starts a workflow that continues as a turn with this input, as a turn does by itself. A client may not pass
// the fields that a run hands to the next one.
func (e *env) handedOn(session string, in workflows.Input) client.WorkflowRun {
	e.t.Helper()
	queue := "continues " + session
	w := worker.New(e.client, queue, worker.Options{DisableRegistrationAliasing: true})
	w.RegisterWorkflowWithOptions(func(ctx workflow.Context, in workflows.Input) error {
		return workflow.NewContinueAsNewError(workflow.WithWorkflowTaskQueue(ctx, e.cfg.Temporal.TaskQueue),
			workflows.TurnWorkflow, in)
	}, workflow.RegisterOptions{Name: "Continue"})
	require.NoError(e.t, w.Start())
	defer w.Stop()
	run, err := e.client.ExecuteWorkflow(e.t.Context(), client.StartWorkflowOptions{ID: session, TaskQueue: queue},
		"Continue", in)
	require.NoError(e.t, err)
	end, err := e.client.GetWorkflowHistory(e.t.Context(), session, run.GetRunID(), true,
		enumspb.HISTORY_EVENT_FILTER_TYPE_CLOSE_EVENT).Next()
	require.NoError(e.t, err)
	return e.client.GetWorkflow(e.t.Context(), session,
		end.GetWorkflowExecutionContinuedAsNewEventAttributes().GetNewExecutionRunId())
}

// ask runs a turn to its result.
func (e *env) ask(session, text string) workflows.Result {
	e.t.Helper()
	return e.result(e.begin(session, text, nil))
}

func (e *env) result(run client.WorkflowRun) workflows.Result {
	e.t.Helper()
	ctx, cancel := context.WithTimeout(e.t.Context(), within)
	defer cancel()
	var res workflows.Result
	require.NoError(e.t, run.Get(ctx, &res))
	return res
}

// events returns the history of one run.
func (e *env) events(session, run string) []*historypb.HistoryEvent {
	e.t.Helper()
	return e.eventsOf(e.t.Context(), session, run)
}

func (te *env) eventsOf(ctx context.Context, session, run string) []*historypb.HistoryEvent {
	te.t.Helper()
	var out []*historypb.HistoryEvent
	iter := te.client.GetWorkflowHistory(ctx, session, run, false, enumspb.HISTORY_EVENT_FILTER_TYPE_ALL_EVENT)
	for iter.HasNext() {
		e, err := iter.Next()
		require.NoError(te.t, err)
		out = append(out, e)
	}
	return out
}

// count returns how many events of a type a history has.
func count(events []*historypb.HistoryEvent, kind enumspb.EventType) int {
	n := 0
	for _, e := range events {
		if e.EventType == kind {
			n++
		}
	}
	return n
}

// checkAll checks the promises about the test's sessions and runs. Those of an open turn are only replayed.
func (te *env) checkAll() {
	ctx, cancel := context.WithTimeout(context.Background(), within)
	defer cancel()
	runs := map[string]map[string]*historypb.History{} // by session
	for _, e := range te.ran {
		if runs[e.ID] == nil {
			runs[e.ID] = map[string]*historypb.History{}
		}
		runs[e.ID][e.RunID] = &historypb.History{Events: te.eventsOf(ctx, e.ID, e.RunID)}
	}
	for session, of := range runs {
		te.sound(ctx, session, of)
	}
}

// binaries are the real commands, built once.
var binaries struct {
	once sync.Once
	dir  string
	err  error
}

// build builds several commands into a folder, or one into a file.
func build(to string, commands ...string) error {
	cmd := exec.Command("go", append([]string{"build", "-o", to}, commands...)...)
	cmd.Dir = ".."
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("building the commands: %w\n%s", err, out)
	}
	return nil
}

// binary returns the path of a command of this module, for instance "./worker".
func binary(t *testing.T, pkg string) string {
	t.Helper()
	binaries.once.Do(func() {
		if binaries.dir, binaries.err = os.MkdirTemp("", "everturn-bin-"); binaries.err != nil {
			return
		}
		if binaries.err = build(binaries.dir+"/", "./worker", "./starter", "./tests/mcpserver"); binaries.err == nil {
			binaries.err = os.Rename(filepath.Join(binaries.dir, "starter"), filepath.Join(binaries.dir, "everturn"))
		}
	})
	require.NoError(t, binaries.err)
	if pkg == "./starter" {
		return filepath.Join(binaries.dir, "everturn") // commands name themselves as the user has called them
	}
	return filepath.Join(binaries.dir, filepath.Base(pkg))
}

func removeBinaries() {
	if binaries.dir != "" {
		os.RemoveAll(binaries.dir)
	}
}
