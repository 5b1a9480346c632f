package tests

import (
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	enumspb "go.temporal.io/api/enums/v1"

	"github.com/everturn/everturn/config"
	"github.com/everturn/everturn/tests/script"
	"github.com/everturn/everturn/workflows/turn"
)

// The tests of this file kill real worker processes at a point that a ledger has recorded, and let a second worker
// finish.

func TestKilledInMidInference(t *testing.T) {
	t.Parallel()
	gate := script.NewGate()
	r := newRig(t, script.Steps(
		script.Call("local_list_files", `{}`),
		script.Attempts(script.Text("This text is withdrawn again.").Hold(4, gate), script.Text("There are no files.")),
	))
	first := r.process()
	run := r.begin(t.Name(), "Which files are here?", nil)
	r.reach(gate)
	r.shown(run.GetRunID(), "This text is ")
	killed := first.kill()
	r.process()
	res := r.result(run)
	recovered := time.Since(killed)

	assert.Equal(t, "There are no files.", res.Answer)
	assert.Equal(t, []int{0, 1, 1}, r.steps(), "only the interrupted inference is asked again, once")
	requests := r.model.Requests()
	assert.Equal(t, string(requests[1].Body), string(requests[2].Body))
	assert.Equal(t, []int{1, 2}, r.attempts(run.GetRunID()))
	text, withdrawn := r.read(run.GetRunID())
	assert.Equal(t, "There are no files.", text)
	assert.Equal(t, 1, withdrawn)
	assert.Equal(t, 1, r.calls(run.GetRunID(), 1)[0].Runs)
	r.sound(t.Name())
	r.keep("v1-killed-in-inference", t.Name(), run.GetRunID())
	t.Logf("recovery: asked again after %s, answered after %s", requests[2].At.Sub(killed), recovered)
}

func TestKilledInMidCall(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		block, event string
		effects      int
	}{
		"before the effect": {"before", "begun", 0},
		"after the effect":  {"after", "effect", 1},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			l := newLedger(t)
			r := newRig(t, appendOnce(c.block), l.host(config.MCPTool{}))
			first := r.process()
			run := r.begin(t.Name(), "Append it.", nil)
			l.await(c.event, "x")
			server := l.server()
			killed := first.kill()
			gone(t, server)
			r.process()
			res := r.result(run)
			recovered := time.Since(killed)

			assert.Equal(t, "Appended.", res.Answer)
			assert.Equal(t, c.effects, l.count("effect", "x"))
			assert.Equal(t, 1, l.count("begun", "x"), "a call that is not repeatable is not sent again")
			assert.Equal(t, []int{0, 1}, r.steps(), "no inference is asked again")
			requests := r.model.Requests()
			assert.Contains(t, requests[1].Chat.Last("tool").Content, "utcome unknown")
			call := r.calls(run.GetRunID(), 1)[0]
			assert.Equal(t, turn.OutcomeUnknown, call.Outcome)
			assert.Equal(t, 1, call.Runs)
			r.sound(t.Name())
			r.keep("v1-killed-in-call", t.Name(), run.GetRunID())
			t.Logf("recovery: asked on after %s, answered after %s", requests[1].At.Sub(killed), recovered)
		})
	}
}

// TestAKilledWorkerLeavesNoServerBehind kills a worker during a call: a busy server does not notice by itself that its
// worker is gone.
func TestAKilledWorkerLeavesNoServerBehind(t *testing.T) {
	t.Parallel()
	l := newLedger(t)
	r := newRig(t, script.Steps(script.Call("mcp_ledger_stubborn", `{"text":"x"}`)), l.host(config.MCPTool{}))
	worker := r.process()
	r.begin(t.Name(), "Work on, whatever happens.", nil)
	l.await("begun", "x")
	server := l.server()
	worker.kill()
	gone(t, server)
}

// appendOnce appends the line x and then answers.
func appendOnce(block string) script.Script {
	return script.Steps(script.Call("mcp_ledger_append", `{"text":"x","block":"`+block+`"}`), script.Text("Appended."))
}

func TestKilledInMidRepeatableCall(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		block, event string
		effects      int
	}{
		"before the effect": {"before", "begun", 1},
		"after the effect":  {"after", "effect", 2},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			l := newLedger(t)
			r := newRig(t, appendOnce(c.block), l.host(config.MCPTool{Repeatable: true}))
			first := r.process()
			run := r.begin(t.Name(), "Append it.", nil)
			l.await(c.event, "x")
			server := l.server()
			killed := first.kill()
			gone(t, server)
			l.open()
			r.process()
			res := r.result(run)

			assert.Equal(t, "Appended.", res.Answer)
			assert.Equal(t, c.effects, l.count("effect", "x"))
			assert.Equal(t, 1, l.count("done", "x"))
			assert.Equal(t, []int{0, 1}, r.steps())
			assert.Equal(t, "appended x", r.model.Requests()[1].Chat.Last("tool").Content)
			call := r.calls(run.GetRunID(), 1)[0]
			assert.Equal(t, turn.OutcomeOK, call.Outcome)
			assert.Equal(t, 2, call.Runs)
			r.sound(t.Name())
			r.keep("v1-killed-in-repeatable-call", t.Name(), run.GetRunID())
			t.Logf("recovery: answered after %s", time.Since(killed))
		})
	}
}

// TestKilledInMidQuickCall kills a worker during a quick call. The call's history is written with its workflow task,
// which is lost with the worker, so only the ledger has the effect.
func TestKilledInMidQuickCall(t *testing.T) {
	t.Parallel()
	l := newLedger(t)
	r := newRig(t, script.Steps(
		script.Calls(
			script.ToolCall{Name: "mcp_ledger_append", Arguments: `{"text":"settled","block":"never"}`},
			script.ToolCall{Name: "mcp_ledger_append", Arguments: `{"text":"open","block":"before"}`},
		),
		script.Text("Appended."),
	), l.host(config.MCPTool{Repeatable: true, LocalActivity: true}))
	first := r.process()
	run := r.begin(t.Name(), "Append both.", nil)
	l.await("begun", "open")
	r.settledCall(run.GetRunID(), "settled")
	killed := first.kill()
	l.open()
	r.process()
	res := r.result(run)

	assert.Equal(t, "Appended.", res.Answer)
	assert.Equal(t, 1, l.count("begun", "settled"), "what was settled before the kill does not run again")
	assert.Equal(t, 2, l.count("begun", "open"))
	assert.Equal(t, 1, l.count("effect", "open"))
	assert.Equal(t, []int{0, 1}, r.steps())
	for i, runs := range []int{1, 2} {
		call := r.calls(run.GetRunID(), 2)[i]
		assert.Equal(t, turn.OutcomeOK, call.Outcome)
		assert.Equal(t, runs, call.Runs)
	}
	events := r.events(t.Name(), run.GetRunID())
	assert.Equal(t, 1, count(events, enumspb.EVENT_TYPE_WORKFLOW_TASK_TIMED_OUT),
		"the calls ran inside the task that was lost")
	r.sound(t.Name())
	r.keep("v1-killed-in-quick-call", t.Name(), run.GetRunID())
	t.Logf("recovery: answered after %s", time.Since(killed))
}

// If a worker dies between settling and reporting, the journal knows more than Temporal.

func TestKilledBeforeAnInferenceWasReported(t *testing.T) {
	t.Parallel()
	gate, v := script.NewGate(), newValve(t)
	r := newRig(t, script.Steps(script.Text("It is paid for.").Hold(3, gate)))
	first := r.process(v.behind)
	run := r.begin(t.Name(), "What is it?", nil)
	r.reach(gate)
	v.close()
	gate.Release()
	require.Eventually(t, func() bool {
		list, err := r.store.Inferences(t.Context(), run.GetRunID())
		return err == nil && len(list) == 1 && list[0].Settled
	}, within, 5*time.Millisecond, "the inference was never settled")
	killed := first.kill()
	r.process()
	assert.Equal(t, "It is paid for.", r.result(run).Answer)
	t.Logf("recovery: answered after %s", time.Since(killed))
	assert.Equal(t, []int{0}, r.steps(), "a settled inference is not paid again")
	assert.Equal(t, []int{1}, r.attempts(run.GetRunID()))
	text, withdrawn := r.read(run.GetRunID())
	assert.Equal(t, "It is paid for.", text)
	assert.Zero(t, withdrawn)
	r.sound(t.Name())
	r.keep("v1-killed-before-inference-reported", t.Name(), run.GetRunID())
}

func TestKilledBeforeACallWasReported(t *testing.T) {
	t.Parallel()
	l, v := newLedger(t), newValve(t)
	r := newRig(t, appendOnce("before"), l.host(config.MCPTool{}))
	first := r.process(v.behind)
	run := r.begin(t.Name(), "Append it.", nil)
	l.await("begun", "x")
	v.close()
	l.open()
	r.settledCall(run.GetRunID(), "x")
	killed := first.kill()
	r.process()
	assert.Equal(t, "Appended.", r.result(run).Answer)
	t.Logf("recovery: answered after %s", time.Since(killed))
	assert.Equal(t, 1, l.count("effect", "x"))
	assert.Equal(t, "appended x", r.model.Requests()[1].Chat.Last("tool").Content, "its outcome is known")
	call := r.calls(run.GetRunID(), 1)[0]
	assert.Equal(t, turn.OutcomeOK, call.Outcome)
	assert.Equal(t, 1, call.Runs)
	r.sound(t.Name())
	r.keep("v1-killed-before-call-reported", t.Name(), run.GetRunID())
}

func TestKilledBeforeTheBeginningWasReported(t *testing.T) {
	t.Parallel()
	v := newValve(t)
	r := newRig(t, script.Always(script.Text("An answer.")))
	first := r.process(v.behind)
	require.Equal(t, "An answer.", r.ask(t.Name()+"-warm", "Is there a worker?").Answer)
	v.close()
	run := r.begin(t.Name(), "A question.", nil)
	r.shown(run.GetRunID(), "") // the turn's first chunk is in the journal
	killed := first.kill()
	r.process()
	assert.Equal(t, "An answer.", r.result(run).Answer)
	t.Logf("recovery: answered after %s", time.Since(killed))
	messages, _ := r.transcript(t.Name())
	assert.Len(t, messages, 2, "the message is in the transcript once")
	assert.Len(t, r.model.Requests(), 2)
	assert.Equal(t, 1, count(r.events(t.Name(), run.GetRunID()), enumspb.EVENT_TYPE_WORKFLOW_TASK_TIMED_OUT))
	r.sound(t.Name())
	r.keep("v1-killed-before-begin-reported", t.Name(), run.GetRunID())
}

// settledCall returns when the journal has the outcome of the call that appends the text.
func (r *rig) settledCall(turnID, text string) {
	r.t.Helper()
	require.Eventually(r.t, func() bool {
		calls, err := r.store.Calls(r.t.Context(), turnID)
		for _, c := range calls {
			if c.Outcome == turn.OutcomeOK && c.Text == "appended "+text {
				return true
			}
		}
		return err != nil
	}, within, 5*time.Millisecond, "the call %s was never settled", text)
}

func TestKilledBetweenTurns(t *testing.T) {
	t.Parallel()
	r := newRig(t, script.Cases(
		script.When("first", script.Text("The first answer.")),
		script.When("second", script.Text("The second answer.")),
	))
	worker := r.process()
	require.Equal(t, "The first answer.", r.ask(t.Name(), "The first question.").Answer)
	killed := worker.kill()
	r.process()
	require.Equal(t, "The second answer.", r.ask(t.Name(), "The second question.").Answer)
	t.Logf("recovery: answered after %s", time.Since(killed))
	var texts []string
	for _, m := range r.model.Requests()[1].Chat.Messages {
		if m.Role != "system" {
			texts = append(texts, m.Content)
		}
	}
	assert.Equal(t, []string{"The first question.", "The first answer.", "The second question."}, texts)
	r.sound(t.Name())
}

// TestAZombieComesTooLate stops a worker for longer than its heartbeat timeout. When the worker resumes, its result is
// late.
func TestAZombieComesTooLate(t *testing.T) {
	t.Parallel()
	l := newLedger(t)
	r := newRig(t, appendOnce("after"), l.host(config.MCPTool{}))
	zombie := r.process()
	run := r.begin(t.Name(), "Append it.", nil)
	l.await("effect", "x")
	stopped := time.Now()
	zombie.signal(syscall.SIGSTOP)
	r.process()
	assert.Equal(t, "Appended.", r.result(run).Answer)
	t.Logf("recovery: answered after %s", time.Since(stopped))
	call := r.calls(run.GetRunID(), 1)[0]
	require.Equal(t, turn.OutcomeUnknown, call.Outcome)
	before, head := r.transcript(t.Name())

	l.open()
	l.await("done", "x") // the server was not stopped: its result waits for the zombie
	zombie.signal(syscall.SIGCONT)
	require.Eventually(t, func() bool {
		late, err := r.store.Call(t.Context(), run.GetRunID(), call.Call.ID)
		return err == nil && late.LateCount > 0
	}, within, 20*time.Millisecond, "the late result was not kept")
	assert.Equal(t, turn.OutcomeUnknown, r.calls(run.GetRunID(), 1)[0].Outcome)
	after, same := r.transcript(t.Name())
	assert.Equal(t, head, same)
	assert.Equal(t, before, after)
	assert.Equal(t, 1, l.count("effect", "x"))
	assert.Equal(t, []int{0, 1}, r.steps())
	r.sound(t.Name())
}

// TestARepeatableCallIsMadeAgainWhereItsServerDied checks that a repeatable call is dispatched again, without another
// inference, if its server died and the outcome is unknown.
func TestARepeatableCallIsMadeAgainWhereItsServerDied(t *testing.T) {
	t.Parallel()
	l := newLedger(t)
	r := newRig(t, appendOnce("before"), l.host(config.MCPTool{Repeatable: true}))
	r.work()
	run := r.begin(t.Name(), "Append it.", nil)
	l.await("begun", "x")
	l.kill()
	l.open()
	res := r.result(run)
	assert.Equal(t, "Appended.", res.Answer)
	call := r.calls(run.GetRunID(), 1)[0]
	assert.Equal(t, turn.OutcomeOK, call.Outcome)
	assert.Equal(t, 2, call.Runs)
	assert.Len(t, r.model.Requests(), 2, "the model is told once")
	r.sound(t.Name())
	r.keep("v1-repeated", t.Name(), run.GetRunID())
}
