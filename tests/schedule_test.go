package tests

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	sdk "go.temporal.io/sdk/client"
	"go.temporal.io/sdk/workflow"

	"github.com/everturn/everturn/client"
	"github.com/everturn/everturn/journal"
	"github.com/everturn/everturn/tests/fakellm"
	"github.com/everturn/everturn/workflows"
	"github.com/everturn/everturn/workflows/turn"
)

// scheduled is a schedule as `schedule list -o json` prints it.
type scheduled struct {
	Name, When, Session string
	Paused              bool
	Next                []time.Time
	Skipped             int
	Last                []struct {
		Session, Turn, Link string
		State               turn.State
	}
}

// schedules lists the schedules until they satisfy the function, because Temporal's list lags briefly.
func (h *userFolder) schedules(as func([]scheduled) bool) []scheduled {
	h.t.Helper()
	var list []scheduled
	require.Eventually(h.t, func() bool {
		list = decoded[[]scheduled](h.everturn("schedule", "list", "-o", "json").exits(0))
		return as(list)
	}, within, 50*time.Millisecond, "the schedules never were as they should be: %+v", list)
	return list
}

// over reports whether the only schedule has come due n times and all of its turns are over.
func over(n int) func([]scheduled) bool {
	return func(list []scheduled) bool {
		if len(list) != 1 || len(list[0].Last) != n {
			return false
		}
		for _, last := range list[0].Last {
			if !last.State.Terminal() {
				return false
			}
		}
		return true
	}
}

// name returns a unique name for a schedule, because all tests share a server.
func name(t *testing.T) string {
	return fmt.Sprintf("%s-%d", strings.ToLower(t.Name()), time.Now().UnixNano())
}

func TestCLIAScheduleForOneSession(t *testing.T) {
	t.Parallel()
	gate, name := fakellm.NewGate(), name(t)
	model := fakellm.Start(t, fakellm.Text("Nothing new.").Hold(1, gate))
	h := newUserFolder(t, asking(model))
	h.worker()
	made := h.everturn("schedule", "create", name, "--every", "24h", "--session", "news", "What is new?").exits(0)
	assert.Contains(t, made.out.String(), "every 24h0m0s\nnext     ")
	h.everturn("schedule", "trigger", name).exits(0)
	awaitGate(t, gate)
	again := h.everturn("schedule", "trigger", name).exits(0)
	assert.Contains(t, again.err.String(), "has not ended, so this run is skipped")
	h.schedules(func(list []scheduled) bool { return len(list) == 1 && list[0].Skipped == 1 })
	gate.Release()
	last := h.schedules(over(1))[0].Last[0]
	assert.Equal(t, "news", last.Session)
	assert.Equal(t, turn.StateCompleted, last.State)
	assert.Contains(t, last.Link, "/workflows/news/"+last.Turn)
	assert.Len(t, model.Requests(), 1, "what was left out is not made up for")

	h.idle(name)
	h.everturn("schedule", "trigger", name).exits(0)
	h.schedules(over(2))
	requests := model.Requests()
	assert.Equal(t, []string{"What is new?", "Nothing new.", "What is new?"}, textsOf(requests[len(requests)-1].Chat),
		"one session has it all")
	text := h.everturn("schedule", "list").exits(0).out.String()
	assert.Contains(t, text, name+" · every 24h0m0s · session news\n  ask   What is new?\n  next  ")
	assert.Contains(t, text, " · answered · news\n")

	h.everturn("schedule", "delete", name).exits(0)
	h.schedules(func(list []scheduled) bool { return len(list) == 0 })
	gone := h.everturn("schedule", "delete", name).exits(3)
	assert.Contains(t, gone.err.String(), "there is no schedule")
	h.everturn("show", "news").exits(0)
}

// idle waits until a schedule has no running workflows.
func (h *userFolder) idle(name string) {
	h.t.Helper()
	c := h.dial()
	require.Eventually(h.t, func() bool {
		d, err := c.ScheduleClient().GetHandle(h.t.Context(), name).Describe(h.t.Context())
		return err == nil && len(d.Info.RunningWorkflows) == 0
	}, within, 20*time.Millisecond, "the schedule is never done")
}

func TestCLIAScheduleWithASessionEach(t *testing.T) {
	t.Parallel()
	name := name(t)
	model := fakellm.Start(t, fakellm.Cases(fakellm.When("Say hello.", fakellm.Text("Hello."))))
	h := newUserFolder(t, asking(model))
	h.worker()
	made := h.begin(strings.NewReader("Say hello."), "schedule", "create", name, "--cron", "0 9 * * 1-5", "--zone",
		"Europe/Berlin", "--max-steps", "2", "--paused", "-").exits(0)
	assert.Contains(t, made.out.String(), "cron 0 9 * * 1-5 (Europe/Berlin)")
	assert.Contains(t, made.err.String(), "everturn schedule resume "+name)
	list := h.schedules(func(list []scheduled) bool { return len(list) == 1 })
	assert.True(t, list[0].Paused)
	assert.Empty(t, list[0].Next)
	h.everturn("schedule", "resume", name).exits(0)
	at := h.schedules(func(list []scheduled) bool { return len(list) == 1 && len(list[0].Next) > 0 })[0].Next[0]
	berlin, err := time.LoadLocation("Europe/Berlin")
	require.NoError(t, err)
	assert.Equal(t, "09:00", at.In(berlin).Format("15:04"))

	for i := range 2 {
		time.Sleep(time.Until(time.Now().Truncate(time.Second).Add(time.Second))) // Temporal names runs by the second
		h.everturn("schedule", "trigger", name).exits(0)
		h.schedules(over(i + 1))
		h.idle(name)
	}
	last := h.schedules(over(2))[0].Last
	assert.NotEqual(t, last[0].Session, last[1].Session)
	for i, l := range last {
		assert.True(t, strings.HasPrefix(l.Session, name+"-20"), l.Session)
		assert.Equal(t, turn.StateCompleted, l.State)
		assert.Equal(t, []string{"Say hello."}, textsOf(model.Requests()[i].Chat))
		h.everturn("attach", l.Session).exits(0)
	}
	h.everturn("schedule", "pause", name).exits(0)
	h.schedules(func(list []scheduled) bool { return len(list) == 1 && list[0].Paused })
	h.everturn("schedule", "delete", name).exits(0)
}

// deliver starts a delivery as a schedule does.
func (e *env) deliver(id, session, text string) sdk.WorkflowRun {
	e.t.Helper()
	run, err := e.client.ExecuteWorkflow(e.t.Context(),
		sdk.StartWorkflowOptions{ID: id, TaskQueue: e.cfg.Temporal.TaskQueue}, workflows.DeliverWorkflow,
		workflows.DeliverInput{Session: session, Message: workflows.Message{Text: text}})
	require.NoError(e.t, err)
	e.ran = append(e.ran, workflow.Execution{ID: id, RunID: run.GetRunID()})
	return run
}

// delivered waits for a delivery's end.
func (e *env) delivered(run sdk.WorkflowRun) (workflows.DeliverResult, error) {
	e.t.Helper()
	ctx, cancel := context.WithTimeout(e.t.Context(), within)
	defer cancel()
	var res workflows.DeliverResult
	err := run.Get(ctx, &res)
	return res, err
}

// once checks that a session has one turn, that a delivery began it, and that the transcript has its prompt once.
func (e *env) once(session string, run sdk.WorkflowRun) journal.TurnRecord {
	e.t.Helper()
	turns, err := e.journal.Turns(e.t.Context(), session)
	require.NoError(e.t, err)
	require.Len(e.t, turns, 1)
	assert.Equal(e.t, workflows.DeliveryID(run.GetID(), run.GetRunID()), turns[0].MessageID)
	messages, _ := e.transcript(session)
	output := 0
	for _, m := range messages {
		if m.Role == turn.RoleUser {
			output++
		}
	}
	assert.Equal(e.t, 1, output)
	return turns[0]
}

func TestADeliveryEndsWithItsTurn(t *testing.T) {
	t.Parallel()
	gate := fakellm.NewGate()
	e := newEnv(t, fakellm.Text("Done.").Hold(1, gate))
	e.work()
	run := e.deliver("deliver "+session(t), session(t), "Do it.")
	e.reach(gate)
	d, err := e.client.DescribeWorkflowExecution(t.Context(), run.GetID(), "")
	require.NoError(t, err)
	assert.Nil(t, d.GetWorkflowExecutionInfo().GetCloseTime(), "the turn is not over")
	gate.Release()
	res, err := e.delivered(run)
	require.NoError(t, err)
	first := e.once(session(t), run)
	assert.Equal(t, workflows.DeliverResult{Session: session(t), MessageID: first.MessageID, Turn: first.ID,
		State: turn.StateCompleted, FinishReason: turn.FinishAnswered}, res)
	e.keep("v1-deliver", run.GetID(), run.GetRunID())
}

func TestADeliveryWhoseWorkerIsKilledSendsOnce(t *testing.T) {
	t.Parallel()
	gate := fakellm.NewGate()
	e := newEnv(t, fakellm.Text("Done.").Hold(1, gate))
	worker := e.process()
	run := e.deliver("deliver "+session(t), session(t), "Do it.")
	e.reach(gate) // the message is delivered, and the activity waits for the end of the turn
	worker.kill()
	e.process()
	gate.Release()
	res, err := e.delivered(run)
	require.NoError(t, err)
	assert.Equal(t, turn.StateCompleted, res.State)
	assert.Equal(t, res.Turn, e.once(session(t), run).ID)
	e.keep("v1-deliver-killed", run.GetID(), run.GetRunID())
}

func TestADeliverySleepsWhileItsTurnWaits(t *testing.T) {
	t.Parallel()
	e := newEnv(t, fakellm.Cases(
		fakellm.When("Main.", fakellm.Text("It is read.")),
		fakellm.When("", fakellm.Call("ask_user", `{"question":"Which file?"}`)),
	))
	stop := e.work()
	run := e.deliver("deliver "+session(t), session(t), "Read the file.")
	require.Eventually(t, func() bool {
		rec, err := e.journal.Delivered(t.Context(), session(t), workflows.DeliveryID(run.GetID(), run.GetRunID()))
		return err == nil && rec.State == turn.StateWaiting
	}, within, 10*time.Millisecond)
	e.asleep(run)
	stop() // the delivery needs no worker meanwhile
	e.work()
	err := e.people().Answer(t.Context(), client.DecideInput{Session: session(t), Request: "q1", Text: "Main."})
	require.NoError(t, err)
	res, err := e.delivered(run)
	require.NoError(t, err)
	assert.Equal(t, turn.StateCompleted, res.State)
	e.keep("v1-deliver-waiting", run.GetID(), run.GetRunID())
}

// asleep waits until a delivery has checked its turn and sleeps.
func (e *env) asleep(run sdk.WorkflowRun) {
	e.t.Helper()
	require.Eventually(e.t, func() bool {
		d, err := e.client.DescribeWorkflowExecution(e.t.Context(), run.GetID(), run.GetRunID())
		return err == nil && d.GetWorkflowExecutionInfo().GetHistoryLength() > 8 && len(d.GetPendingActivities()) == 0 &&
			d.GetPendingWorkflowTask() == nil
	}, within, 20*time.Millisecond, "the delivery never sleeps")
}

func TestADeliveryWhoseSessionIsTerminated(t *testing.T) {
	t.Parallel()
	gate := fakellm.NewGate()
	e := newEnv(t, fakellm.Text("Never said.").Hold(1, gate))
	e.work()
	run := e.deliver("deliver "+session(t), session(t), "Do it.")
	e.reach(gate)
	require.NoError(t, e.client.TerminateWorkflow(t.Context(), session(t), "", "by an operator"))
	res, err := e.delivered(run)
	require.NoError(t, err)
	assert.Equal(t, turn.StateClosed, res.State, "otherwise the schedule would wait for it for ever")
	e.once(session(t), run)
}
