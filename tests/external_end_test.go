package tests

import (
	"context"
	"fmt"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	commonpb "go.temporal.io/api/common/v1"
	enumspb "go.temporal.io/api/enums/v1"
	"go.temporal.io/api/workflowservice/v1"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/worker"
	"go.temporal.io/sdk/workflow"

	"github.com/everturn/everturn/activities"
	"github.com/everturn/everturn/activities/completion"
	"github.com/everturn/everturn/config"
	"github.com/everturn/everturn/internal/temporalconn"
	"github.com/everturn/everturn/journal"
	"github.com/everturn/everturn/journal/sqlite"
	"github.com/everturn/everturn/tests/fakellm"
	"github.com/everturn/everturn/workflows"
	"github.com/everturn/everturn/workflows/turn"
)

// The tests of this file do what operators do in the Web UI and in a terminal.

// endings are the ways in which the server ends a turn without its cooperation.
var endings = map[string]struct {
	timeout time.Duration
	end     func(*env, client.WorkflowRun)
}{
	"terminate": {end: func(r *env, run client.WorkflowRun) {
		require.NoError(r.t, r.client.TerminateWorkflow(r.t.Context(), run.GetID(), run.GetRunID(), "pressed"))
	}},
	"run timeout": {timeout: 3 * time.Second, end: func(*env, client.WorkflowRun) {}},
}

// beginWithin starts a turn with a run timeout; 0 means none.
func (e *env) beginWithin(session, text string, timeout time.Duration) client.WorkflowRun {
	e.t.Helper()
	run, err := e.client.ExecuteWorkflow(e.t.Context(), client.StartWorkflowOptions{
		ID: session, TaskQueue: e.cfg.Temporal.TaskQueue, WorkflowRunTimeout: timeout,
		WorkflowExecutionErrorWhenAlreadyStarted: true,
	}, workflows.TurnWorkflow, workflows.Input{Message: &workflows.Message{Text: text}})
	require.NoError(e.t, err)
	e.ran = append(e.ran, workflow.Execution{ID: run.GetID(), RunID: run.GetRunID()})
	return run
}

// over waits for a run that does not complete and returns its error.
func (e *env) over(run client.WorkflowRun) error {
	e.t.Helper()
	ctx, cancel := context.WithTimeout(e.t.Context(), within)
	defer cancel()
	err := run.GetWithOptions(ctx, nil, client.WorkflowRunGetOptions{DisableFollowingRuns: true})
	require.Error(e.t, err)
	require.NoError(e.t, ctx.Err())
	return err
}

func TestTheNextTurnClosesATurnTerminatedDuringAnInference(t *testing.T) {
	t.Parallel()
	for name, ending := range endings {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			gate := fakellm.NewGate()
			e := newEnv(t, fakellm.Cases(
				fakellm.When("first", fakellm.Text("This is never finished.").Hold(3, gate)),
				fakellm.When("second", fakellm.Text("The second answer.")),
			))
			e.work()
			run := e.beginWithin(t.Name(), "The first question.", ending.timeout)
			e.reach(gate)
			e.shown(run.GetRunID(), "This is ")
			ending.end(e, run)
			e.over(run)
			e.keep(map[string]string{"terminate": "v1-terminated", "run timeout": "v1-run-timeout"}[name], t.Name(),
				run.GetRunID())
			assert.Equal(t, "The second answer.", e.ask(t.Name(), "The second question.").Answer)
			_, head := e.transcript(t.Name())

			gate.Release() // the rest of the first answer reaches a closed turn
			require.NoError(t, e.model.Await(t.Context(),
				func(all []fakellm.Request) bool { return all[0].Outcome != fakellm.Open }))
			record := e.closed(run)
			assert.Contains(t, record, "ended from outside")
			assert.Equal(t, []int{0, 0}, e.steps())
			_, same := e.transcript(t.Name())
			assert.Equal(t, head, same)
		})
	}
}

// closed checks that the next turn closed this one, and returns the message of its record.
func (e *env) closed(run client.WorkflowRun) string {
	e.t.Helper()
	record, err := e.journal.Turn(e.t.Context(), run.GetRunID())
	require.NoError(e.t, err)
	assert.Equal(e.t, turn.StateClosed, record.State)
	assert.Equal(e.t, turn.FinishTerminated, record.Reason)
	return record.Message
}

// results returns the tool results of a prompt.
func results(c fakellm.Chat) []string {
	var out []string
	for _, m := range c.Messages {
		if m.Role == "tool" {
			out = append(out, m.Content)
		}
	}
	return out
}

// reset resets a run to an event of its history and returns the new run.
func (e *env) reset(run client.WorkflowRun, event int64) client.WorkflowRun {
	e.t.Helper()
	res, err := e.client.ResetWorkflowExecution(e.t.Context(), &workflowservice.ResetWorkflowExecutionRequest{
		Namespace: temporalconn.DefaultNamespace, Reason: "pressed", WorkflowTaskFinishEventId: event,
		WorkflowExecution: &commonpb.WorkflowExecution{WorkflowId: run.GetID(), RunId: run.GetRunID()},
		RequestId:         fmt.Sprintf("%s-%d", run.GetRunID(), event),
	})
	require.NoError(e.t, err)
	e.ran = append(e.ran, workflow.Execution{ID: run.GetID(), RunID: res.RunId})
	return e.client.GetWorkflow(e.t.Context(), run.GetID(), res.RunId)
}

// tasks returns the IDs of the events to which a run can be reset.
func (te *env) tasks(run client.WorkflowRun) []int64 {
	te.t.Helper()
	var out []int64
	for _, e := range te.events(run.GetID(), run.GetRunID()) {
		if e.EventType == enumspb.EVENT_TYPE_WORKFLOW_TASK_COMPLETED {
			out = append(out, e.EventId)
		}
	}
	require.NotEmpty(te.t, out)
	return out
}

func TestAResetReusesSettledSteps(t *testing.T) {
	t.Parallel()
	l := newEffectServer(t)
	gate := fakellm.NewGate()
	e := newEnv(t, fakellm.Steps(
		fakellm.Call("mcp_ledger_append", `{"text":"x"}`),
		fakellm.Attempts(fakellm.Text("It is appended.").Hold(2, gate), fakellm.Text("It is appended.")),
	), l.host(config.MCPTool{}))
	e.work()
	run := e.begin(t.Name(), "Append it.", nil)
	e.reach(gate)
	followed, err := e.people().Find(t.Context(), t.Name(), run.GetRunID())
	require.NoError(t, err)
	ends := make(chan workflows.Result, 1)
	go func() {
		res, err := e.people().Wait(t.Context(), followed)
		assert.NoError(t, err)
		ends <- res.Result
	}()
	again := e.reset(run, e.tasks(run)[0])
	var terminated *temporal.TerminatedError
	require.ErrorAs(t, e.over(run), &terminated)
	res := e.result(again)

	assert.Equal(t, "It is appended.", res.Answer)
	assert.Equal(t, run.GetRunID(), res.Turn, "the turn keeps its ID")
	assert.Equal(t, "It is appended.", (<-ends).Answer, "who followed the turn gets its answer")
	assert.Equal(t, []int{0, 1, 1}, e.steps(), "only the inference that was open is asked again")
	assert.Equal(t, 1, l.count("effect", "x"))
	gate.Release()
	assert.Equal(t, []int{1, 2}, e.attempts(run.GetRunID()))
	text, _, _ := e.story(run.GetRunID())
	assert.Equal(t, "It is appended.", text)
	e.keep("v1-reset", t.Name(), again.GetRunID())
}

// TestAResetOfAnOldTurnWritesNothing checks that an old turn that is reset after its session has continued may
// repeat what the journal has, but writes nothing.
func TestAResetOfAnOldTurnWritesNothing(t *testing.T) {
	t.Parallel()
	gate := fakellm.NewGate()
	e := newEnv(t, fakellm.Cases(
		fakellm.When("first", fakellm.Steps(fakellm.Call("local_quick_echo", `{"text":"a"}`),
			fakellm.Text("The first answer."))),
		fakellm.When("open", fakellm.Steps(fakellm.Call("local_quick_echo", `{"text":"b"}`),
			fakellm.Text("This is never finished.").Hold(3, gate))),
		fakellm.When("third", fakellm.Text("The third answer.")),
		fakellm.When("fourth", fakellm.Text("The fourth answer.")),
	))
	e.work(withEcho()...)
	first := e.begin(t.Name(), "The first question.", nil)
	answer := e.result(first)
	open := e.begin(t.Name(), "The open question.", nil)
	e.reach(gate)
	require.NoError(t, e.client.TerminateWorkflow(t.Context(), open.GetID(), open.GetRunID(), "pressed"))
	require.Equal(t, "The third answer.", e.ask(t.Name(), "The third question.").Answer)
	before, head := e.transcript(t.Name())
	asked := len(e.model.Requests())

	assert.Equal(t, answer, e.result(e.reset(first, e.tasks(first)[0])), "what was answered is answered again")
	var failed *temporal.ApplicationError
	require.ErrorAs(t, e.over(e.reset(open, e.tasks(open)[0])), &failed)
	assert.Equal(t, string(turn.CodeSessionBusy), failed.Type())
	after, same := e.transcript(t.Name())
	assert.Equal(t, head, same)
	assert.Equal(t, before, after)
	assert.Len(t, e.model.Requests(), asked)
	e.closed(open)

	assert.Equal(t, "The fourth answer.", e.ask(t.Name(), "The fourth question.").Answer, "the session goes on")
	longer, _ := e.transcript(t.Name())
	assert.Equal(t, before, longer[:len(before)])
}

// cancelledRun checks that a run ended as Temporal's Canceled with a result whose state is cancelled.
func (e *env) cancelledRun(run client.WorkflowRun) workflows.Result {
	e.t.Helper()
	var stop *temporal.CanceledError
	require.ErrorAs(e.t, e.over(run), &stop)
	var res workflows.Result
	require.NoError(e.t, stop.Details(&res))
	assert.Equal(e.t, turn.StateCancelled, res.State)
	return res
}

// happened returns when a run's history has an event of the kind.
func (te *env) happened(run client.WorkflowRun, kind enumspb.EventType) {
	te.t.Helper()
	ctx, cancel := context.WithTimeout(te.t.Context(), within)
	defer cancel()
	iter := te.client.GetWorkflowHistory(ctx, run.GetID(), run.GetRunID(), true,
		enumspb.HISTORY_EVENT_FILTER_TYPE_ALL_EVENT)
	for iter.HasNext() {
		e, err := iter.Next()
		require.NoError(te.t, err, "%s never happened", kind)
		if e.EventType == kind {
			return
		}
	}
	require.Fail(te.t, "the run ended without "+kind.String())
}

// TestAStoppedWorkerFinishesItsInference performs a rolling restart: the old worker is asked to stop during an
// inference and gets the
// time to finish it.
func TestAStoppedWorkerFinishesItsInference(t *testing.T) {
	t.Parallel()
	gate := fakellm.NewGate()
	e := newEnv(t, fakellm.Cases(
		fakellm.When("long", fakellm.Steps(fakellm.Text("It ends after all.").Hold(3, gate))),
		fakellm.When("short", fakellm.Text("A short answer.")),
	), func(c *config.Config) { c.Worker.DrainTimeout = 30 * time.Second })
	old := e.process()
	run := e.begin(t.Name(), "The long question.", nil)
	e.reach(gate)
	old.signal(syscall.SIGTERM)
	e.process()
	assert.Equal(t, "A short answer.", e.ask(t.Name()+"-2", "A short question.").Answer, "others are served meanwhile")
	old.running()
	gate.Release()
	old.exit()
	assert.Equal(t, "It ends after all.", e.result(run).Answer)
	assert.Equal(t, []int{1}, e.attempts(run.GetRunID()))
	assert.Len(t, e.model.Requests(), 2)
}

// deaf is a model that emits a few words and then waits until its context ends.
type deaf struct{ reached chan struct{} }

func (deaf) Takes(turn.Prompt, string) bool { return false }

func (d deaf) Infer(ctx context.Context, _ turn.Prompt, sink turn.Sink) (turn.Completion, error) {
	sink.Text("This is ")
	close(d.reached)
	<-ctx.Done()
	return turn.Completion{}, turn.NewError(turn.CodeLLMTransport, ctx.Err(), "the connection was lost")
}

// patient is a model that answers once the test lets it.
type patient struct{ reached, answer chan struct{} }

func (patient) Takes(turn.Prompt, string) bool { return false }

func (p patient) Infer(ctx context.Context, _ turn.Prompt, sink turn.Sink) (turn.Completion, error) {
	close(p.reached)
	select {
	case <-p.answer:
		sink.Text("Here.")
		return turn.Completion{Text: "Here.", FinishReason: "stop"}, nil
	case <-ctx.Done():
		return turn.Completion{}, turn.NewError(turn.CodeLLMTransport, ctx.Err(), "the connection was lost")
	}
}

// TestAnInferenceOutlivesItsConnectionToTemporal loses the Temporal server for a moment, which ends an activity's
// context too. The inference that is under way is paid for, so it completes, and the next attempt waits for it and uses
// its completion.
func TestAnInferenceOutlivesItsConnectionToTemporal(t *testing.T) {
	t.Parallel()
	model := patient{make(chan struct{}), make(chan struct{})}
	acts, j, in := infer(t, model)
	first, lose := context.WithCancel(t.Context())
	defer lose()
	type outcome struct {
		result workflows.InferResult
		err    error
	}
	results := make(chan outcome, 2)
	ask := func(ctx context.Context) {
		result, err := acts.Infer(ctx, in)
		results <- outcome{result, err}
	}
	go ask(first)
	<-model.reached
	lose()
	go ask(t.Context()) // a second request to the model would close reached twice
	close(model.answer)
	for range 2 {
		o := <-results
		require.NoError(t, o.err)
		assert.Equal(t, "Here.", o.result.Proposal.Text)
	}
	list, err := j.Inferences(t.Context(), "t")
	require.NoError(t, err)
	require.Len(t, list, 1)
	assert.True(t, list[0].Settled)
	assert.Equal(t, 1, list[0].Attempt)
}

// infer makes activities around a model, begins a turn, and returns the input of its first inference.
func infer(t *testing.T, model completion.Model) (*activities.Activities, *journal.DB, workflows.InferInput) {
	t.Helper()
	j, err := sqlite.Open(t.Context(), filepath.Join(t.TempDir(), "journal.db"), sqlite.Options{Synchronous: "normal"})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, j.Close()) })
	acts, err := activities.New(activities.Options{Journal: j, Model: model, Settings: activities.Settings{
		Limits: turn.DefaultLimits(), Policy: turn.DefaultPolicy(),
		Models: func(string, string) ([]turn.Model, error) { return []turn.Model{{Mode: turn.ModeNative}}, nil },
	}})
	require.NoError(t, err)
	begun, err := acts.Begin(t.Context(), workflows.BeginInput{BeginInput: turn.BeginInput{
		Session: "s", Turn: "t", WorkflowID: "s", RunID: "t", Message: workflows.Message{Text: "A question."},
	}})
	require.NoError(t, err)
	return acts, j, workflows.InferInput{
		Session: "s", Turn: "t", Step: 1, Expect: begun.Head, Budget: time.Minute,
		Prompt: turn.PromptSpec{Mode: turn.ModeNative, PromptConfig: begun.Config.PromptConfig, From: 1, Anchor: 1},
	}
}

// TestAWorkerShutdownIsNotACancellation checks that only a cancelled error counts as a stop, because a worker's
// shutdown ends the same
// context. It calls the activity without a worker process: a process that stops exits too soon to report the
// difference.
func TestAWorkerShutdownIsNotACancellation(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		cause error
		code  turn.Code // empty: cancelled
	}{
		"cancel":       {temporal.NewCanceledError(), ""},
		"worker stops": {worker.ErrWorkerShutdown, turn.CodeWorkerUnavailable},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			model := deaf{make(chan struct{})}
			acts, j, in := infer(t, model)
			ctx, cancel := context.WithCancelCause(t.Context())
			defer cancel(nil)
			go func() {
				<-model.reached
				cancel(c.cause)
			}()
			_, err := acts.Infer(ctx, in)
			if c.code == "" {
				require.True(t, temporal.IsCanceledError(err), "%v", err)
				return
			}
			var failed *temporal.ApplicationError
			require.ErrorAs(t, err, &failed)
			assert.Equal(t, string(c.code), failed.Type())
			assert.False(t, failed.NonRetryable())
			list, err := j.Inferences(t.Context(), "t")
			require.NoError(t, err)
			require.Len(t, list, 1)
			assert.Zero(t, list[0].Failures, "it is no failure of the provider")
		})
	}
}
