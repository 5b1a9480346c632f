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
	t      *testing.T
	model  *fakellm.Server
	cfg    config.Config
	dir    string
	client client.Client
	store  *journal.DB
	ran    []workflow.Execution
	open   bool // the test leaves a turn unfinished
}

// newEnv makes a rig without a worker. change may adapt the configuration.
func newEnv(t *testing.T, s fakellm.Script, change ...func(*config.Config)) *env {
	t.Helper()
	r := &env{t: t, dir: t.TempDir(), cfg: config.Default()}
	r.model = fakellm.Start(t, s)
	r.cfg.LLM.Provider, r.cfg.LLM.BaseURL, r.cfg.LLM.Model = config.ProviderOpenAI, r.model.URL(), "scripted"
	r.cfg.Runtime.Mode = turn.ModeNative
	r.cfg.Runtime.Workspace = filepath.Join(r.dir, "workspace")
	r.cfg.Journal.Path = filepath.Join(r.dir, "journal.db")
	r.cfg.Journal.Synchronous = config.SynchronousNormal
	r.cfg.Temporal.Address = stack.Address
	r.cfg.Temporal.TaskQueue = "q-" + strings.ReplaceAll(t.Name(), "/", "-") + fmt.Sprint(time.Now().UnixNano())
	r.cfg.Worker.DrainTimeout = 5 * time.Second
	r.cfg.Policy.Taint = turn.TaintOff // most tests trust their servers; those about taint turn it on
	for _, c := range change {
		c(&r.cfg)
	}
	require.NoError(t, os.MkdirAll(r.cfg.Runtime.Workspace, 0o700))
	var err error
	r.client, err = temporalconn.Dial(t.Context(), temporalconn.Options{Address: stack.Address})
	require.NoError(t, err)
	t.Cleanup(r.client.Close)
	if r.cfg.Journal.Driver == config.DriverPostgres {
		r.store, err = postgres.Open(t.Context(), string(r.cfg.Journal.URL), postgres.Options{})
	} else {
		r.store, err = sqlite.Open(t.Context(), r.cfg.Journal.Path, sqlite.Options{Synchronous: "normal"})
	}
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, r.store.Close()) })
	t.Cleanup(r.checkAll)
	return r
}

// work runs a worker in this process until the test ends or the returned function is called.
func (r *env) work(opts ...engine.Option) (stop func()) {
	r.t.Helper()
	opts = append([]engine.Option{engine.WithEnviron(os.Environ())}, opts...)
	e, err := engine.New(r.t.Context(), r.cfg, opts...)
	require.NoError(r.t, err)
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- e.Run(ctx) }()
	var once sync.Once
	stop = func() {
		once.Do(func() {
			cancel()
			require.NoError(r.t, <-done)
			require.NoError(r.t, e.Close())
		})
	}
	r.t.Cleanup(stop)
	return stop
}

func (r *env) begin(session, text string, limits *workflows.LimitsRequest) client.WorkflowRun {
	r.t.Helper()
	return r.start(session, workflows.Input{Message: &workflows.Message{Text: text}, Limits: limits})
}

func (r *env) start(session string, in any) client.WorkflowRun {
	r.t.Helper()
	run, err := r.client.ExecuteWorkflow(r.t.Context(), client.StartWorkflowOptions{
		ID: session, TaskQueue: r.cfg.Temporal.TaskQueue, WorkflowIDConflictPolicy: enumspb.WORKFLOW_ID_CONFLICT_POLICY_FAIL,
		// otherwise a session ID used twice would silently attach to the other run
		WorkflowExecutionErrorWhenAlreadyStarted: true,
	}, workflows.TurnWorkflow, in)
	require.NoError(r.t, err)
	r.ran = append(r.ran, workflow.Execution{ID: run.GetID(), RunID: run.GetRunID()})
	return run
}

// handedOn starts a workflow that continues as a turn with this input, as a turn does by itself. A client may not pass
// the fields that a run hands to the next one.
func (r *env) handedOn(session string, in workflows.Input) client.WorkflowRun {
	r.t.Helper()
	queue := "continues " + session
	w := worker.New(r.client, queue, worker.Options{DisableRegistrationAliasing: true})
	w.RegisterWorkflowWithOptions(func(ctx workflow.Context, in workflows.Input) error {
		return workflow.NewContinueAsNewError(workflow.WithWorkflowTaskQueue(ctx, r.cfg.Temporal.TaskQueue),
			workflows.TurnWorkflow, in)
	}, workflow.RegisterOptions{Name: "Continue"})
	require.NoError(r.t, w.Start())
	defer w.Stop()
	run, err := r.client.ExecuteWorkflow(r.t.Context(), client.StartWorkflowOptions{ID: session, TaskQueue: queue},
		"Continue", in)
	require.NoError(r.t, err)
	end, err := r.client.GetWorkflowHistory(r.t.Context(), session, run.GetRunID(), true,
		enumspb.HISTORY_EVENT_FILTER_TYPE_CLOSE_EVENT).Next()
	require.NoError(r.t, err)
	return r.client.GetWorkflow(r.t.Context(), session,
		end.GetWorkflowExecutionContinuedAsNewEventAttributes().GetNewExecutionRunId())
}

// ask runs a turn to its result.
func (r *env) ask(session, text string) workflows.Result {
	r.t.Helper()
	return r.result(r.begin(session, text, nil))
}

func (r *env) result(run client.WorkflowRun) workflows.Result {
	r.t.Helper()
	ctx, cancel := context.WithTimeout(r.t.Context(), within)
	defer cancel()
	var res workflows.Result
	require.NoError(r.t, run.Get(ctx, &res))
	return res
}

// events returns the history of one run.
func (r *env) events(session, run string) []*historypb.HistoryEvent {
	r.t.Helper()
	return r.eventsOf(r.t.Context(), session, run)
}

func (r *env) eventsOf(ctx context.Context, session, run string) []*historypb.HistoryEvent {
	r.t.Helper()
	var out []*historypb.HistoryEvent
	iter := r.client.GetWorkflowHistory(ctx, session, run, false, enumspb.HISTORY_EVENT_FILTER_TYPE_ALL_EVENT)
	for iter.HasNext() {
		e, err := iter.Next()
		require.NoError(r.t, err)
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
func (r *env) checkAll() {
	ctx, cancel := context.WithTimeout(context.Background(), within)
	defer cancel()
	runs := map[string]map[string]*historypb.History{} // by session
	for _, e := range r.ran {
		if runs[e.ID] == nil {
			runs[e.ID] = map[string]*historypb.History{}
		}
		runs[e.ID][e.RunID] = &historypb.History{Events: r.eventsOf(ctx, e.ID, e.RunID)}
	}
	for session, of := range runs {
		r.sound(ctx, session, of)
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
		binaries.err = build(binaries.dir+"/", "./worker", "./starter", "./tests/mcpserver")
	})
	require.NoError(t, binaries.err)
	return filepath.Join(binaries.dir, filepath.Base(pkg))
}

func removeBinaries() {
	if binaries.dir != "" {
		os.RemoveAll(binaries.dir)
	}
}
