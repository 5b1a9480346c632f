package tests

import (
	"context"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	enumspb "go.temporal.io/api/enums/v1"
	"go.temporal.io/sdk/workflow"

	"github.com/everturn/everturn/client"
	"github.com/everturn/everturn/config"
	"github.com/everturn/everturn/engine"
	"github.com/everturn/everturn/journal"
	"github.com/everturn/everturn/journal/follow"
	"github.com/everturn/everturn/tests/fakellm"
	"github.com/everturn/everturn/workflows"
	"github.com/everturn/everturn/workflows/turn"
)

// people returns a client of the harness's sessions.
func (e *env) people() *client.Client {
	return client.New(e.client, client.Options{TaskQueue: e.cfg.Temporal.TaskQueue, Agent: "default", Journal: e.journal})
}

// decider returns the client's method that allows or denies calls.
func decider(c *client.Client, allow bool) func(context.Context, client.DecideInput) ([]turn.Decision, error) {
	if allow {
		return c.Approve
	}
	return c.Deny
}

// say sends a message and fails the test if it is not accepted.
func (e *env) say(session string, m workflows.Message) client.Turn {
	e.t.Helper()
	a, err := e.people().Send(e.t.Context(), client.SendInput{Session: session, Message: m})
	require.NoError(e.t, err)
	if !a.Merged {
		e.ran = append(e.ran, workflow.Execution{ID: session, RunID: a.ID})
	}
	return a
}

// ended follows a turn in the journal to its end.
func (e *env) ended(turnID string) journal.TurnRecord {
	e.t.Helper()
	ctx, cancel := context.WithTimeout(e.t.Context(), within)
	defer cancel()
	for _, err := range follow.Turn(ctx, e.journal, turnID, -1) {
		require.NoError(e.t, err)
	}
	rec, err := e.journal.Turn(ctx, turnID)
	require.NoError(e.t, err)
	return rec
}

// answered waits for the turn that took a message, and for its end.
func (e *env) answered(session, messageID string) journal.TurnRecord {
	e.t.Helper()
	return e.ended(e.taken(session, messageID))
}

// taken waits until a turn has taken a message, and returns its ID.
func (e *env) taken(session, messageID string) (turnID string) {
	e.t.Helper()
	var rec journal.TurnRecord
	require.Eventually(e.t, func() bool {
		var err error
		rec, err = e.journal.Delivered(e.t.Context(), session, messageID)
		return err == nil
	}, within, 10*time.Millisecond, "message %s was taken by no turn", messageID)
	return rec.ID
}

// waits follows a turn until it has n requests, and returns them.
func (e *env) waits(turnID string, n int) []turn.Request {
	e.t.Helper()
	ctx, cancel := context.WithTimeout(e.t.Context(), within)
	defer cancel()
	for {
		changed := e.journal.Changed(ctx)
		list, err := e.journal.Requests(ctx, turnID)
		if err == nil && len(list) >= n {
			return list
		}
		select {
		case <-changed:
		case <-ctx.Done():
			require.Fail(e.t, "the turn does not wait", "%d waits, %v", len(list), err)
		}
	}
}

func askToTouch(c *config.Config) { c.Policy.Ask = []string{"local/touch"} }

// touching is a tool that counts its effects.
func touching(effects *atomic.Int32) engine.Option {
	return engine.WithTool("touch", "Touches.", func(_ context.Context, in echoIn) (string, error) {
		effects.Add(1)
		return "touched " + in.Text, nil
	}, engine.Risk(turn.RiskHigh))
}

func TestAMessageIsMergedBeforeTheNextInference(t *testing.T) {
	t.Parallel()
	gate := fakellm.NewGate()
	e := newEnv(t, fakellm.Func(func(q fakellm.Request) fakellm.Reply {
		if q.Chat.Last("user").Content == "Read both." {
			return fakellm.Text("Both are read.")
		}
		return fakellm.Call("local_echo", `{"text":"a"}`).Hold(1, gate)
	}))
	e.work(withEcho()...)
	first := e.say(session(t), workflows.Message{ID: "m1", Text: "Read one."})
	e.reach(gate)
	second := e.say(session(t), workflows.Message{ID: "m2", Text: "Read both."})
	assert.True(t, second.Merged)
	assert.Equal(t, first.ID, second.ID)
	gate.Release()
	rec := e.answered(session(t), "m2")
	assert.Equal(t, first.ID, rec.ID, "the running turn has taken it")
	assert.Equal(t, "Both are read.", rec.Answer)
	messages, _ := e.transcript(session(t))
	var roles []string
	for _, m := range messages {
		roles = append(roles, string(m.Role))
	}
	assert.Equal(t, "user assistant tool user assistant", strings.Join(roles, " "),
		"after the results, before the next answer")
	_, kinds, _ := e.story(first.ID)
	assert.Equal(t, 1, kinds[turn.EventMessageAdded])
	e.keep("v1-joined", session(t), first.ID)
}

func TestALateMessageBeginsTheNextTurn(t *testing.T) {
	t.Parallel()
	gate := fakellm.NewGate()
	e := newEnv(t, fakellm.Cases(
		fakellm.When("Third.", fakellm.Text("To the third.")),
		fakellm.When("Second.", fakellm.Text("To the second.")),
		fakellm.When("First.", fakellm.Text("To the first.").Hold(1, gate)),
	))
	e.work()
	first := e.say(session(t), workflows.Message{ID: "m1", Text: "First."})
	e.reach(gate)
	e.say(session(t), workflows.Message{ID: "m2", Text: "Second."})
	e.say(session(t), workflows.Message{ID: "m3", Text: "Third.", Queue: true})
	gate.Release()
	assert.Equal(t, "To the first.", e.ended(first.ID).Answer)
	second, third := e.answered(session(t), "m2"), e.answered(session(t), "m3")
	assert.Equal(t, "To the second.", second.Answer)
	assert.Equal(t, "To the third.", third.Answer)
	assert.Len(t, map[string]bool{first.ID: true, second.ID: true, third.ID: true}, 3, "a turn each")
	e.keep("v1-queued-first", session(t), first.ID)
	e.keep("v1-queued-middle", session(t), second.ID)
	e.keep("v1-queued-last", session(t), third.ID)
	e.ran = append(e.ran, workflow.Execution{ID: session(t), RunID: second.ID},
		workflow.Execution{ID: session(t), RunID: third.ID})
}

func TestAQuestionIsAnsweredByIDOrByTheNextMessage(t *testing.T) {
	t.Parallel()
	for name, answer := range map[string]func(e *env, session string) error{
		"answer": func(e *env, session string) error {
			err := e.people().Answer(t.Context(),
				client.DecideInput{Session: session, Request: "q1", Text: "main.go", By: "ann"})
			return err
		},
		"message": func(e *env, session string) error {
			_, err := e.people().Send(t.Context(),
				client.SendInput{Session: session, Message: workflows.Message{ID: "m2", Text: "main.go"}})
			return err
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			e := newEnv(t, fakellm.Cases(
				fakellm.When("main.go", fakellm.JSONFinal("It is read.")),
				fakellm.When("", fakellm.JSONAsk("Which file?")),
			), inJSON)
			if name == "answer" {
				e = newEnv(t, fakellm.Cases(
					fakellm.When("main.go", fakellm.Text("It is read.")),
					fakellm.When("", fakellm.Call("ask_user", `{"question":"Which file?"}`)),
				))
			}
			stop := e.work()
			begun := e.say(session(t), workflows.Message{ID: "m1", Text: "Read the file."})
			request := e.waits(begun.ID, 1)[0]
			assert.Equal(t, "q1", request.ID)
			assert.Equal(t, "Which file?", request.Question)
			rec, err := e.journal.Turn(t.Context(), begun.ID)
			require.NoError(t, err)
			assert.Equal(t, turn.StateWaiting, rec.State)
			e.searched(`EverturnState = "waiting" AND WorkflowId = "`+session(t)+`"`, begun.ID)
			stop()
			e.work()
			require.NoError(t, answer(e, session(t)), "the worker that asked is gone")
			end := e.ended(begun.ID)
			assert.Equal(t, "It is read.", end.Answer)
			assert.Equal(t, 2, end.Steps, "waiting costs none")
			requests, err := e.journal.Requests(t.Context(), begun.ID)
			require.NoError(t, err)
			require.Len(t, requests, 1)
			assert.Equal(t, turn.StatusAnswered, requests[0].Decision.Status)
			messages, _ := e.transcript(session(t))
			assert.Equal(t, "Which file?", messages[1].Text)
			assert.Equal(t, "main.go", messages[2].Text)
			e.keep("v1-question-"+name, session(t), begun.ID)
		})
	}
}

func TestACallRunsOnceAfterItsApproval(t *testing.T) {
	t.Parallel()
	for name, allow := range map[string]bool{"allowed": true, "denied": false} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var effects atomic.Int32
			e := newEnv(t, fakellm.Steps(fakellm.Call("local_touch", `{"text":"a"}`), fakellm.Text("Done.")), askToTouch)
			stop := e.work(touching(&effects))
			begun := e.say(session(t), workflows.Message{Text: "Touch it."})
			request := e.waits(begun.ID, 1)[0]
			assert.Equal(t, "1.0", request.ID)
			assert.JSONEq(t, `{"text":"a"}`, request.Arguments)
			assert.Zero(t, effects.Load(), "nothing runs before")
			stop()
			e.work(touching(&effects))
			decide := decider(e.people(), allow)
			decision := client.DecideInput{Session: session(t), Request: request.ID, ArgumentsHash: request.ArgumentsHash,
				By: "ann", Reason: "not now"}
			res, err := decide(t.Context(), decision)
			require.NoError(t, err)
			require.Len(t, res, 1)
			assert.Equal(t, []any{request.ID, allow, "ann"}, []any{res[0].ID, res[0].Allowed, res[0].By})
			_, err = decide(t.Context(), decision)
			if err != nil { // the turn may be over by now
				require.ErrorIs(t, err, client.ErrNotRunning)
			}
			end := e.ended(begun.ID)
			assert.Equal(t, "Done.", end.Answer)
			requests, err := e.journal.Requests(t.Context(), begun.ID)
			require.NoError(t, err)
			assert.Equal(t, "ann", requests[0].Decision.By)
			told := e.model.Requests()[1].Chat.Last("tool").Content
			if allow {
				assert.EqualValues(t, 1, effects.Load())
				assert.Equal(t, "touched a", told)
			} else {
				assert.Zero(t, effects.Load())
				assert.Contains(t, told, "denied")
				assert.Contains(t, told, "not now")
			}
			e.keep("v1-approval-"+name, session(t), begun.ID)
		})
	}
}

func TestCallsWaitForAllApprovalsOfTheirStep(t *testing.T) {
	t.Parallel()
	var effects atomic.Int32
	e := newEnv(t, fakellm.Steps(fakellm.Calls(
		fakellm.ToolCall{Name: "local_touch", Arguments: `{"text":"a"}`},
		fakellm.ToolCall{Name: "local_echo", Arguments: `{"text":"b"}`},
		fakellm.ToolCall{Name: "local_touch", Arguments: `{"text":"c"}`},
	), fakellm.Text("Done.")), askToTouch)
	e.work(append(withEcho(), touching(&effects))...)
	begun := e.say(session(t), workflows.Message{Text: "Touch all."})
	requests := e.waits(begun.ID, 2)
	decide := func(i int, allow bool) ([]turn.Decision, error) {
		return decider(e.people(), allow)(t.Context(),
			client.DecideInput{Session: session(t), Request: requests[i].ID, ArgumentsHash: requests[i].ArgumentsHash, By: "ann"})
	}
	res, err := decide(1, false)
	require.NoError(t, err)
	require.Len(t, res, 1, "it covers no other")
	assert.Equal(t, turn.StatusDenied, res[0].Status)
	assert.Zero(t, effects.Load())
	_, err = decide(1, true)
	var decided *client.DecidedError
	require.ErrorAs(t, err, &decided, "the first decision stands")
	require.ErrorIs(t, err, client.ErrAlreadyDecided)
	assert.Equal(t, turn.StatusDenied, decided.Decision.Status)
	assert.Equal(t, "ann", decided.Decision.By)
	for name, bad := range map[string]struct {
		in    client.DecideInput
		allow bool
		want  error
	}{
		"drift":   {client.DecideInput{Request: requests[0].ID, ArgumentsHash: "another"}, true, client.ErrArgumentsChanged},
		"no hash": {client.DecideInput{Request: requests[0].ID}, true, client.ErrInvalid},
		"no such": {client.DecideInput{Request: "9.9", ArgumentsHash: requests[0].ArgumentsHash}, true, client.ErrNotPending},
		"other turn": {client.DecideInput{Turn: "another", Request: requests[0].ID, ArgumentsHash: requests[0].ArgumentsHash},
			true, client.ErrNotPending},
		"deny with a grant": {client.DecideInput{
			Request: requests[0].ID, Grant: turn.GrantTool, ArgumentsHash: requests[0].ArgumentsHash}, false, client.ErrInvalid},
	} {
		bad.in.Session = session(t)
		_, err := decider(e.people(), bad.allow)(t.Context(), bad.in)
		require.ErrorIs(t, err, bad.want, name)
	}
	_, err = decide(0, true)
	require.NoError(t, err)
	assert.Equal(t, "Done.", e.ended(begun.ID).Answer)
	assert.EqualValues(t, 1, effects.Load())
	messages := paired(t, e, session(t))
	assert.Equal(t, []turn.Outcome{turn.OutcomeOK, turn.OutcomeOK, turn.OutcomeDenied},
		[]turn.Outcome{messages[2].Outcome, messages[3].Outcome, messages[4].Outcome})
	e.keep("v1-approvals-mixed", session(t), begun.ID)
}

// TestAnApprovalNamesTheCallsThatRunWithIt has a call that changes what another one acts on, in the same step.
func TestAnApprovalNamesTheCallsThatRunWithIt(t *testing.T) {
	t.Parallel()
	var effects atomic.Int32
	long := `{"text":"` + strings.Repeat("x", 5000) + `> build.sh"}`
	e := newEnv(t, fakellm.Steps(fakellm.Calls(
		fakellm.ToolCall{Name: "local_note", Arguments: `{"text":"a"}`},
		fakellm.ToolCall{Name: "local_read", Arguments: `{"text":"b"}`},
		fakellm.ToolCall{Name: "local_note", Arguments: `{"text":"c"}`},
		fakellm.ToolCall{Name: "local_echo", Arguments: `{"text":"low risk"}`},
		fakellm.ToolCall{Name: "local_note", Arguments: long},
		fakellm.ToolCall{Name: "local_touch", Arguments: `{"text":"build.sh"}`},
	), fakellm.Text("Done.")), askToTouch)
	note := engine.WithTool("note", "Notes.", func(context.Context, echoIn) (string, error) { return "noted", nil },
		engine.Risk(turn.RiskMedium))
	read := engine.WithTool("read", "Reads.", echo, engine.ReadOnly(), engine.Risk(turn.RiskLow))
	e.work(append(withEcho(), touching(&effects), note, read)...)
	begun := e.say(session(t), workflows.Message{Text: "Build."})
	request := e.waits(begun.ID, 1)[0]
	require.NotNil(t, request.Beside)
	assert.Equal(t, 4, request.Beside.Count)
	var beside []string
	for _, c := range request.Beside.Calls {
		beside = append(beside, c.ID+" "+c.Tool)
	}
	assert.Equal(t, []string{"1.0 local/note", "1.2 local/note", "1.3 local/echo", "1.4 local/note"}, beside,
		"the call that changes nothing is not named")
	assert.Equal(t, `{"text":"a"}`, request.Beside.Calls[0].Arguments)
	last := request.Beside.Calls[3].Arguments
	assert.True(t, strings.HasSuffix(last, `> build.sh"}`) && len(last) <= turn.BesideArguments, last)
	_, err := decider(e.people(), true)(t.Context(),
		client.DecideInput{Session: session(t), Request: request.ID, ArgumentsHash: request.ArgumentsHash, By: "ann"})
	require.NoError(t, err)
	assert.Equal(t, "Done.", e.ended(begun.ID).Answer)
}

func TestPendingRequestsExpire(t *testing.T) {
	t.Parallel()
	for name, reply := range map[string]fakellm.Reply{
		"approval-denied": fakellm.Call("local_touch", `{"text":"a"}`),
		"question":        fakellm.Call("ask_user", `{"question":"Which?"}`),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var effects atomic.Int32
			e := newEnv(t, fakellm.Attempts(reply, fakellm.Text("Gone on.")), askToTouch,
				func(cfg *config.Config) { cfg.Approvals.Expiry = 2 * time.Second })
			n := 0
			e.model.SetScript(fakellm.Func(func(fakellm.Request) fakellm.Reply {
				if n++; n == 1 {
					return reply
				}
				return fakellm.Text("Gone on.")
			}))
			e.work(touching(&effects))
			begun := e.say(session(t), workflows.Message{Text: "Go."})
			w := e.waits(begun.ID, 1)[0]
			end := e.ended(begun.ID)
			assert.Equal(t, "Gone on.", end.Answer)
			assert.Zero(t, effects.Load())
			requests, err := e.journal.Requests(t.Context(), begun.ID)
			require.NoError(t, err)
			assert.Equal(t, turn.StatusExpired, requests[0].Decision.Status)
			_, err = e.people().Approve(t.Context(),
				client.DecideInput{Session: session(t), Request: w.ID, ArgumentsHash: w.ArgumentsHash})
			require.ErrorIs(t, err, client.ErrNotRunning)
			e.keep("v1-expired-"+name, session(t), begun.ID)
		})
	}
}

// TestAStopSettlesTheTurnAtOnce checks that a stop settles the turn although its stream is stalled or its tool hangs
// until the end of the test, and that the session's next turn works.
func TestAStopSettlesTheTurnAtOnce(t *testing.T) {
	t.Parallel()
	begun := make(chan struct{}, 16)
	for name, c := range map[string]struct {
		script fakellm.Script
		reach  func(e *env, turnID string)
		say    string
		check  func(t *testing.T, e *env, rec journal.TurnRecord)
	}{
		"stalled-stream": {fakellm.Text("one two three four").StallAfter(4),
			func(e *env, id string) { e.awaitEvent(id, turn.EventTextDelta) }, "",
			func(t *testing.T, _ *env, rec journal.TurnRecord) {
				assert.True(t, strings.HasPrefix("one two three four", strings.TrimSpace(rec.Answer)) && rec.Answer != "",
					"what was said is kept: %q", rec.Answer)
			}},
		"hung-tool": {fakellm.Call("local_hang", `{"text":"a"}`), func(*env, string) { <-begun }, "",
			func(t *testing.T, e *env, rec journal.TurnRecord) {
				messages := paired(t, e, rec.Session)
				assert.Equal(t, turn.OutcomeUnknown, messages[2].Outcome, "it was claimed, and nobody knows")
			}},
		"approval": {fakellm.Call("local_touch", `{"text":"a"}`), func(e *env, id string) { e.waits(id, 1) }, "",
			func(t *testing.T, e *env, rec journal.TurnRecord) {
				messages := paired(t, e, rec.Session)
				assert.Equal(t, turn.OutcomeCancelled, messages[2].Outcome, "it never ran")
				requests, err := e.journal.Requests(t.Context(), rec.ID)
				require.NoError(t, err)
				assert.Equal(t, turn.StatusCancelled, requests[0].Decision.Status)
			}},
		"question": {fakellm.Call("ask_user", `{"question":"Which?"}`), func(e *env, id string) { e.waits(id, 1) }, "",
			func(*testing.T, *env, journal.TurnRecord) {}},
		"with-messages": {fakellm.Text("one two three four").StallAfter(4),
			func(e *env, id string) { e.awaitEvent(id, turn.EventTextDelta) }, "And this?",
			func(t *testing.T, e *env, rec journal.TurnRecord) {
				delivered, err := e.journal.Delivered(t.Context(), rec.Session, "late")
				require.NoError(t, err, "a message that was accepted is kept")
				assert.Equal(t, rec.ID, delivered.ID)
			}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var effects atomic.Int32
			e := newEnv(t, c.script, askToTouch, func(cfg *config.Config) { cfg.Runtime.ToolTimeout = 2 * within })
			hang := make(chan struct{})
			e.work(engine.WithTool("hang", "Hangs.", func(context.Context, echoIn) (string, error) {
				begun <- struct{}{}
				<-hang
				return "late", nil
			}), touching(&effects))
			t.Cleanup(func() { close(hang) })
			first := e.say(session(t), workflows.Message{Text: "Go."})
			c.reach(e, first.ID)
			if c.say != "" {
				e.say(session(t), workflows.Message{ID: "late", Text: c.say})
			}
			require.NoError(t, e.people().Stop(t.Context(), session(t)))
			rec := e.ended(first.ID)
			assert.Equal(t, turn.StateCancelled, rec.State)
			c.check(t, e, rec)
			e.model.SetScript(fakellm.Text("I go on."))
			require.Eventually(t, func() bool {
				d, err := e.client.DescribeWorkflowExecution(t.Context(), session(t), first.ID)
				return err == nil && d.WorkflowExecutionInfo.Status == enumspb.WORKFLOW_EXECUTION_STATUS_CANCELED
			}, within, 10*time.Millisecond)
			assert.Equal(t, "I go on.", e.ask(session(t), "Go on.").Answer)
			assert.Zero(t, effects.Load())
			e.keep("v1-stopped-"+name, session(t), first.ID)
		})
	}
}

// TestAMergedMessageSurvivesAReset resets a turn to a point before settled steps. A message that those steps were
// settled without is merged into the first step that is not settled.
func TestAMergedMessageSurvivesAReset(t *testing.T) {
	t.Parallel()
	gate := fakellm.NewGate()
	e := newEnv(t, fakellm.Func(func(q fakellm.Request) fakellm.Reply {
		switch {
		case strings.Contains(q.Chat.Last("user").Content, "Both"):
			return fakellm.Text("Both.")
		case q.Chat.Last("tool").Content != "":
			return fakellm.Text("Only one.").Hold(2, gate)
		}
		return fakellm.Call("local_echo", `{"text":"a"}`)
	}))
	e.work(withEcho()...)
	run := e.begin(session(t), "Read one.", nil)
	e.reach(gate)
	e.say(session(t), workflows.Message{ID: "m2", Text: "Both, please."})
	again := e.reset(run, e.tasks(run)[0])
	assert.Equal(t, "Both.", e.result(again).Answer)
	gate.Release()
	rec, err := e.journal.Delivered(t.Context(), session(t), "m2")
	require.NoError(t, err)
	assert.Equal(t, run.GetRunID(), rec.ID)
	e.keep("v1-reset-joined", session(t), again.GetRunID())
}

// TestADecisionSurvivesAReset checks that a decision made before a reset is not requested again, whether the turn was
// running or over.
func TestADecisionSurvivesAReset(t *testing.T) {
	t.Parallel()
	var effects atomic.Int32
	gate := fakellm.NewGate()
	e := newEnv(t, fakellm.Steps(fakellm.Call("local_touch", `{"text":"a"}`),
		fakellm.Attempts(fakellm.Text("Done.").Hold(1, gate), fakellm.Text("Done."))), askToTouch)
	e.work(touching(&effects))
	run := e.begin(session(t), "Touch it.", nil)
	w := e.waits(run.GetRunID(), 1)[0]
	_, err := e.people().Approve(t.Context(),
		client.DecideInput{Session: session(t), Request: w.ID, ArgumentsHash: w.ArgumentsHash, By: "ann"})
	require.NoError(t, err)
	e.reach(gate)
	again := e.reset(run, e.tasks(run)[0])
	assert.Equal(t, "Done.", e.result(again).Answer)
	gate.Release()
	e.keep("v1-reset-approved", session(t), again.GetRunID())
	assert.Equal(t, "Done.", e.result(e.reset(again, e.tasks(again)[0])).Answer)
	assert.EqualValues(t, 1, effects.Load())
}

// TestAQueuedMessageThatCannotBeginIsRecordedAsFailed checks that the journal records the failure of a queued message
// whose turn cannot begin, because its sender cannot see how the run closes.
func TestAQueuedMessageThatCannotBeginIsRecordedAsFailed(t *testing.T) {
	t.Parallel()
	gate := fakellm.NewGate()
	e := newEnv(t, fakellm.Cases(fakellm.When("Third.", fakellm.Text("To the third.")),
		fakellm.When("", fakellm.Text("To the first.").Hold(1, gate))))
	e.work()
	e.say(session(t), workflows.Message{ID: "m1", Text: "First."})
	e.reach(gate)
	e.say(session(t), workflows.Message{ID: "m2", Blob: journal.HashOf([]byte("nothing")), Queue: true})
	e.say(session(t), workflows.Message{ID: "m3", Text: "Third.", Queue: true})
	gate.Release()
	refused := e.answered(session(t), "m2")
	assert.Equal(t, turn.StateFailed, refused.State)
	assert.NotEmpty(t, refused.Message)
	third := e.answered(session(t), "m3")
	assert.Equal(t, "To the third.", third.Answer)
	e.keep("v1-queued-refused", session(t), refused.ID)
	e.ran = append(e.ran, workflow.Execution{ID: session(t), RunID: refused.ID},
		workflow.Execution{ID: session(t), RunID: third.ID})
}

// TestAStopLeavesQueuedMessages checks that a stop ends only the running turn. The queued message begins the
// next turn, and a message sent after the stop is delivered too.
func TestAStopLeavesQueuedMessages(t *testing.T) {
	t.Parallel()
	e := newEnv(t, fakellm.Cases(
		fakellm.When("Third.", fakellm.Text("To the third.")),
		fakellm.When("Second.", fakellm.Text("To the second.")),
		fakellm.When("First.", fakellm.Text("one two three four").StallAfter(4)),
	))
	stop := e.work()
	first := e.say(session(t), workflows.Message{ID: "m1", Text: "First."})
	e.awaitEvent(first.ID, turn.EventTextDelta)
	e.say(session(t), workflows.Message{ID: "m2", Text: "Second.", Queue: true})
	stop() // so that the stop and the last message reach the next worker together
	require.NoError(t, e.people().Stop(t.Context(), session(t)))
	sent := make(chan error, 1)
	go func() {
		_, err := e.people().Send(t.Context(),
			client.SendInput{Session: session(t), Message: workflows.Message{ID: "m3", Text: "Third."}})
		sent <- err
	}()
	e.work()
	require.NoError(t, <-sent)
	assert.Equal(t, turn.StateCancelled, e.ended(first.ID).State)
	second, third := e.answered(session(t), "m2"), e.answered(session(t), "m3")
	assert.Equal(t, turn.StateCompleted, second.State)
	assert.Equal(t, "To the third.", third.Answer)
	e.keep("v1-stopped-queued", session(t), first.ID)
}
