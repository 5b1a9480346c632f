package tests

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/workflow"

	everturn "github.com/everturn/everturn/client"
	"github.com/everturn/everturn/config"
	"github.com/everturn/everturn/tests/fakellm"
	"github.com/everturn/everturn/workflows"
	"github.com/everturn/everturn/workflows/plan"
	"github.com/everturn/everturn/workflows/turn"
)

// TestAPlainClientGetsTheResultOfItsTurn starts 30 turns, each of which gets a message that is too late for it. Plain
// Get, which follows continued runs, returns the result of the turn that was started, although the session goes on.
func TestAPlainClientGetsTheResultOfItsTurn(t *testing.T) {
	t.Parallel()
	const turns = 30
	gate := fakellm.NewGate()
	e := newEnv(t, fakellm.Func(func(q fakellm.Request) fakellm.Reply {
		reply := fakellm.Text("To: " + q.Chat.Asked())
		if strings.HasPrefix(q.Chat.Asked(), "First") {
			reply = reply.Hold(0, gate)
		}
		return reply
	}), func(c *config.Config) { c.Worker.MaxConcurrentActivities = 2 * turns })
	e.work()
	var runs []client.WorkflowRun
	for i := range turns {
		id := fmt.Sprintf("%s %d", session(t), i)
		runs = append(runs, e.start(id, workflows.Input{Message: &workflows.Message{ID: "m1", Text: fmt.Sprint("First ", i)}}))
	}
	require.Eventually(t, func() bool { return len(e.model.Requests()) == turns }, within, 10*time.Millisecond)
	late := make([]everturn.Turn, turns)
	for i, run := range runs {
		late[i] = e.say(run.GetID(), workflows.Message{ID: "m2", Text: fmt.Sprint("Late ", i)})
		assert.Equal(t, run.GetRunID(), late[i].ID)
	}
	gate.Release()
	for i, run := range runs {
		res := e.result(run)
		assert.Equal(t, run.GetRunID(), res.Turn)
		assert.Equal(t, fmt.Sprint("To: First ", i), res.Answer)
		assert.Equal(t, []string{"m2"}, res.Left)
		ctx, cancel := context.WithTimeout(t.Context(), within)
		next, err := e.people().Wait(ctx, late[i])
		cancel()
		require.NoError(t, err, "%+v", late[i])
		assert.Equal(t, fmt.Sprint("To: Late ", i), next.Answer)
		assert.NotEqual(t, res.Turn, next.Turn)
		assert.Equal(t, next.Turn, e.result(e.client.GetWorkflow(t.Context(), run.GetID(), next.Turn)).Turn)
		e.ran = append(e.ran, workflow.Execution{ID: run.GetID(), RunID: next.Turn})
	}
}

// TestALostLateMessageIsReported checks that a client that waits for a late message learns that no turn uses it, if the
// turn that it was to begin is ended from outside.
func TestALostLateMessageIsReported(t *testing.T) {
	t.Parallel()
	gate := fakellm.NewGate()
	e := newEnv(t, fakellm.Text("First.").Hold(0, gate))
	stop := e.work()
	first := e.say(session(t), workflows.Message{ID: "m1", Text: "First."})
	e.reach(gate)
	late := e.say(session(t), workflows.Message{ID: "m2", Text: "Second."})
	require.NoError(t, e.people().Terminate(t.Context(), session(t)))
	gate.Release()
	_, err := e.people().Wait(t.Context(), late)
	require.ErrorIs(t, err, everturn.ErrUndelivered)
	stop()
	e.ran = nil
	rec, err := e.journal.Turn(t.Context(), first.ID)
	require.NoError(t, err)
	assert.NotEqual(t, turn.StateCompleted, rec.State)
}

// TestATurnDoesNotWaitForAnEarlierDelivery has a delivery that waits for the turn to end, as after a reset of the turn.
// Here it is a workflow that no worker runs.
func TestATurnDoesNotWaitForAnEarlierDelivery(t *testing.T) {
	t.Parallel()
	gate := fakellm.NewGate()
	e := newEnv(t, fakellm.Cases(fakellm.When("Second.", fakellm.Text("To the second.")),
		fakellm.When("First.", fakellm.Text("To the first.").Hold(1, gate))))
	e.work()
	first := e.say(session(t), workflows.Message{ID: "m1", Text: "First."})
	e.reach(gate)
	e.say(session(t), workflows.Message{ID: "m2", Text: "Second.", Queue: true})
	blocking, err := e.client.ExecuteWorkflow(t.Context(), client.StartWorkflowOptions{
		ID: workflows.HandOnID(session(t), first.ID), TaskQueue: "no-worker"}, "Blocking")
	require.NoError(t, err)
	t.Cleanup(func() {
		assert.NoError(t, e.client.TerminateWorkflow(context.Background(), blocking.GetID(), blocking.GetRunID(), "over"))
	})
	gate.Release()
	assert.Equal(t, "To the second.", e.answered(session(t), "m2").Answer)
	e.keep("v3-delivery-in-use", session(t), first.ID)
}

// TestAMessageThatWaitsKeepsItsAgentAndLimits sends messages to a running turn, each of which begins a turn of its own:
// that turn has the message's agent and limits.
func TestAMessageThatWaitsKeepsItsAgentAndLimits(t *testing.T) {
	t.Parallel()
	for name, send := range map[string]func(*env, everturn.SendInput){
		"queued": func(e *env, in everturn.SendInput) {
			in.Message.Queue = true
			e.sent(in)
		},
		"late": func(e *env, in everturn.SendInput) { e.sent(in) },
		"scheduled": func(e *env, in everturn.SendInput) {
			in.Message.Queue = true
			_, err := e.client.ExecuteWorkflow(e.t.Context(), client.StartWorkflowOptions{ID: "deliver " + in.Session,
				TaskQueue: e.cfg.Temporal.TaskQueue}, workflows.DeliverWorkflow, workflows.DeliverInput{
				Session: in.Session, Message: in.Message, Agent: in.Agent, Limits: in.Limits})
			require.NoError(e.t, err)
			require.Eventually(e.t, func() bool { return e.inInbox(in.Session, in.Message.ID) }, within, 10*time.Millisecond)
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			gate := fakellm.NewGate()
			e := newEnv(t, fakellm.Cases(
				fakellm.When("Third.", fakellm.Text("To the third.")),
				fakellm.When("Second.", fakellm.Steps(fakellm.Call("local_list_files", `{}`),
					fakellm.Call("local_list_files", `{}`), fakellm.Text("To the second."))),
				fakellm.When("First.", fakellm.Text("To the first.").Hold(1, gate))), reviewing)
			e.work(withEcho()...)
			e.say(session(t), workflows.Message{ID: "m1", Text: "First."})
			e.reach(gate)
			send(e, everturn.SendInput{Session: session(t), Agent: "reviewer", Limits: &workflows.LimitsRequest{MaxSteps: ptr(1)},
				Message: workflows.Message{ID: "m2", Text: "Second."}})
			gate.Release()
			second := e.answered(session(t), "m2")
			assert.Equal(t, "reviewer", second.Agent)
			assert.Equal(t, turn.FinishMaxSteps, second.Reason)
			requests := e.model.Requests()
			require.Len(t, requests, 2)
			assert.NotContains(t, offered(requests[1]), "local_echo")

			e.say(session(t), workflows.Message{ID: "m3", Text: "Third."})
			third := e.answered(session(t), "m3")
			assert.Equal(t, "To the third.", third.Answer, "the limits are those of one turn")
		})
	}
}

// reviewing adds an agent that may only list files.
func reviewing(c *config.Config) {
	c.Agents = []turn.Agent{{ID: "reviewer", SystemPrompt: "You review.", Tools: []string{"local/list_files"}}}
}

func (e *env) sent(in everturn.SendInput) everturn.Turn {
	e.t.Helper()
	sent, err := e.people().Send(e.t.Context(), in)
	require.NoError(e.t, err)
	return sent
}

// inInbox reports whether a message waits in the session's running turn.
func (e *env) inInbox(session, messageID string) bool {
	e.t.Helper()
	value, err := e.client.QueryWorkflow(e.t.Context(), session, "", workflows.StateQuery)
	require.NoError(e.t, err)
	var state workflows.Snapshot
	require.NoError(e.t, value.Get(&state))
	return slices.ContainsFunc(state.Inbox, func(m workflows.Message) bool { return m.ID == messageID })
}

// TestAMessageBehindALeftOneKeepsItsChoices begins turns in sessions whose last turn has left a message that no
// delivery has sent yet. That message comes first, and the new one has a turn of its own with its own choices, to whose
// end its sender waits.
func TestAMessageBehindALeftOneKeepsItsChoices(t *testing.T) {
	t.Parallel()
	schema := json.RawMessage(`{"type":"object","properties":{"n":{"type":"integer"}},"required":["n"]}`)
	for name, tc := range map[string]struct {
		in     everturn.SendInput
		answer string
		check  func(t *testing.T, of fakellm.Request)
	}{
		"tools": {everturn.SendInput{Message: workflows.Message{Tools: []string{"none"}}}, "new",
			func(t *testing.T, r fakellm.Request) { assert.Equal(t, []string{turn.AskUserTool}, offered(r)) }},
		"plan": {everturn.SendInput{Message: workflows.Message{Plan: plan.ConfirmPlan}}, "new",
			func(t *testing.T, r fakellm.Request) { assert.Contains(t, string(r.Body), "plan") }},
		"agent": {everturn.SendInput{Agent: "reviewer"}, "new",
			func(t *testing.T, r fakellm.Request) { assert.Contains(t, string(r.Body), "You review.") }},
		"limits":  {everturn.SendInput{Limits: &workflows.LimitsRequest{MaxSteps: ptr(1)}}, "new", nil},
		"alone":   {everturn.SendInput{Alone: true}, "new", nil},
		"schema":  {everturn.SendInput{OutputSchema: schema}, `{"n":1}`, nil},
		"context": {everturn.SendInput{Context: "ada"}, "new", nil},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			e := newEnv(t, fakellm.Cases(fakellm.When("New.", fakellm.Text(tc.answer)),
				fakellm.When("Left.", fakellm.Text("left"))), reviewing)
			e.leave(session(t), workflows.Message{ID: "left", Text: "Left.", Late: true, Agent: config.DefaultAgent})
			e.work(withEcho()...)
			tc.in.Session, tc.in.Message.ID, tc.in.Message.Text = session(t), "new", "New."
			sent := e.sent(tc.in)
			e.ran = append(e.ran, workflow.Execution{ID: session(t), RunID: sent.ID})
			ctx, cancel := context.WithTimeout(t.Context(), within)
			defer cancel()
			res, err := e.people().Wait(ctx, sent)
			require.NoError(t, err)
			assert.Equal(t, tc.answer, res.Answer)
			left, own := e.answered(session(t), "left"), e.answered(session(t), "new")
			assert.Equal(t, "left", left.Answer)
			assert.Equal(t, own.ID, res.Turn)
			assert.Equal(t, []string{"left", "new"}, []string{left.MessageID, own.MessageID}, "a turn each")
			for event, err := range e.people().Follow(ctx, sent, -1) {
				require.NoError(t, err)
				assert.Equal(t, own.ID, event.Turn)
			}
			requests := e.model.Requests()
			require.Len(t, requests, 2)
			assert.Contains(t, offered(requests[0]), "local_echo")
			if tc.check != nil {
				tc.check(t, requests[1])
			}
			for id, want := range map[string]any{left.ID: nil, own.ID: tc.in.Context} {
				recorded, err := e.journal.TurnConfig(ctx, id)
				require.NoError(t, err)
				var cfg struct{ Context any }
				require.NoError(t, json.Unmarshal(recorded.Config, &cfg))
				assert.Equal(t, want, cfg.Context, "only the tools of the message's own turn get its context")
			}
			e.ran = append(e.ran, workflow.Execution{ID: session(t), RunID: own.ID})
			if name == "tools" {
				e.keep("v3-behind-left", session(t), sent.ID)
			}
		})
	}
}

// leave gives a session a turn that has ended and left a message, which no delivery sends.
func (e *env) leave(session string, left workflows.Message) {
	e.t.Helper()
	at := time.Now()
	_, err := e.journal.Begin(e.t.Context(), turn.BeginInput{Session: session, Turn: "first of " + session,
		WorkflowID: session, RunID: "first of " + session, Agent: config.DefaultAgent,
		Message: workflows.Message{ID: "m1", Text: "First."}, Config: json.RawMessage(`{}`), At: at})
	require.NoError(e.t, err)
	_, err = e.journal.Finish(e.t.Context(), turn.FinishInput{Session: session, Turn: "first of " + session,
		Result: turn.Result{State: turn.StateClosed, Reason: turn.FinishTerminated},
		Left:   []turn.UserMessage{left}, At: at})
	require.NoError(e.t, err)
}

// TestARefusedMessageLeavesTheSessionItsAgent checks that a queued message whose turn cannot begin does not change the
// agent that the session's later messages go to.
func TestARefusedMessageLeavesTheSessionItsAgent(t *testing.T) {
	t.Parallel()
	for name, refused := range map[string]everturn.SendInput{
		"tools": {Message: workflows.Message{Tools: []string{"nonexistent/*"}}},
		"agent": {Agent: "nobody"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			gate := fakellm.NewGate()
			e := newEnv(t, fakellm.Text("Hello.").Hold(1, gate), reviewing)
			e.work(withEcho()...)
			sent := e.sent(everturn.SendInput{Session: session(t), Agent: "reviewer", Message: workflows.Message{Text: "First."}})
			e.ran = append(e.ran, workflow.Execution{ID: session(t), RunID: sent.ID})
			e.reach(gate)
			refused.Session, refused.Message.ID, refused.Message.Text, refused.Message.Queue = session(t), "m2", "Second.", true
			e.sent(refused)
			gate.Release()
			assert.Equal(t, turn.StateFailed, e.answered(session(t), "m2").State)
			rec, err := e.journal.Session(t.Context(), session(t))
			require.NoError(t, err)
			assert.Equal(t, "reviewer", rec.LastTurn.Agent)
		})
	}
}
