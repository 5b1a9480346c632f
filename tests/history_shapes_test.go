package tests

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	enumspb "go.temporal.io/api/enums/v1"

	"github.com/everturn/everturn/config"
	"github.com/everturn/everturn/engine"
	"github.com/everturn/everturn/tests/fakellm"
	"github.com/everturn/everturn/workflows"
	"github.com/everturn/everturn/workflows/turn"
)

// The tests of this file exercise branches of the turn that no other test covers, and keep their histories.

// TestARunWaitsForItsMessage sends a message to a run that waits for one. The run's timer stays pending and
// fires during a turn that takes long enough.
func TestARunWaitsForItsMessage(t *testing.T) {
	t.Parallel()
	for name, fires := range map[string]bool{"by-late-update": false, "by-late-update-long": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			gate := fakellm.NewGate()
			e := newEnv(t, fakellm.Text("I am here.").Hold(2, gate))
			e.work()
			run := e.start(session(t), workflows.Input{})
			e.happened(run, enumspb.EVENT_TYPE_TIMER_STARTED)
			joined, sent, err := e.send(t.Context(), session(t), workflows.Message{ID: "m1", Text: "Are you there?"})
			require.NoError(t, err)
			assert.Equal(t, run.GetRunID(), joined.GetRunID(), "the message joins the run that waits for it")
			assert.Equal(t, run.GetRunID(), sent.Turn)
			e.reach(gate)
			if fires {
				e.happened(run, enumspb.EVENT_TYPE_TIMER_FIRED)
			}
			gate.Release()
			assert.Equal(t, "I am here.", e.result(run).Answer)
			assert.Len(t, e.model.Requests(), 1)
			e.keep("v1-"+name, session(t), run.GetRunID())
		})
	}
}

func TestATurnIsCancelledBeforeItBegins(t *testing.T) {
	t.Parallel()
	message := workflows.Input{Message: &workflows.Message{Text: "The first question."}}
	for shape, c := range map[string]struct {
		in    workflows.Input
		waits bool // whether a worker has the run when it is cancelled
	}{
		"v1-cancelled-unseen":       {message, false},
		"v1-cancelled-unseen-empty": {workflows.Input{}, false},
		"v1-cancelled-waiting":      {workflows.Input{}, true},
	} {
		t.Run(shape, func(t *testing.T) {
			t.Parallel()
			e := newEnv(t, fakellm.Text("An answer."))
			if c.waits {
				e.work()
			}
			run := e.start(session(t), c.in)
			if c.waits {
				e.happened(run, enumspb.EVENT_TYPE_TIMER_STARTED)
			}
			require.NoError(t, e.client.CancelWorkflow(t.Context(), run.GetID(), run.GetRunID()))
			if !c.waits {
				e.work()
			}
			e.cancelledRun(run)
			e.keep(shape, session(t), run.GetRunID())
			assert.Empty(t, e.model.Requests())
			assert.Equal(t, "An answer.", e.ask(session(t), "The second question.").Answer)
		})
	}
}

func TestAnInputWithAnUnknownKeyIsRejected(t *testing.T) {
	t.Parallel()
	e := newEnv(t, fakellm.Text("never"))
	e.work()
	run := e.start(session(t), map[string]any{"mesage": map[string]any{"text": "hi"}})
	app, _ := e.failure(run)
	assert.Contains(t, app.Message(), `"mesage"`)
	e.keep("v1-input-refused", session(t), run.GetRunID())
}

func TestPolicyDecidesAboutModelErrors(t *testing.T) {
	t.Parallel()
	down := fakellm.Status(http.StatusInternalServerError, "server_error", "oops")
	for name, c := range map[string]struct {
		policy turn.ErrorAction
		script fakellm.Script
		limits workflows.LimitsRequest
		reason turn.FinishReason
		answer string
	}{
		"model-retry": {turn.ErrorRetry, fakellm.Attempts(down, fakellm.Text("Here again.")),
			workflows.LimitsRequest{}, turn.FinishAnswered, "Here again."},
		"model-reprompt": {turn.ErrorReprompt, noted(down, fakellm.Text("In brief.")), workflows.LimitsRequest{},
			turn.FinishAnswered, "In brief."},
		"model-interrupt": {turn.ErrorInterrupt, down, workflows.LimitsRequest{}, turn.FinishInterrupted, ""},
		"limit-max_steps-retried": {turn.ErrorRetry, down, workflows.LimitsRequest{MaxSteps: ptr(2)}, turn.FinishMaxSteps,
			""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			e := newEnv(t, c.script, func(cfg *config.Config) { cfg.LLM.RetryFor, cfg.Policy.OnModelError = 0, c.policy })
			e.work()
			res := e.result(e.begin(session(t), "Hello?", &c.limits))
			assert.Equal(t, c.reason, res.FinishReason)
			assert.Equal(t, c.answer, res.Answer)
			e.keep("v1-"+name, session(t), res.Turn)
		})
	}
}

// noted answers with second once the prompt has an automatic note, and with first before.
func noted(first, second fakellm.Reply) fakellm.Script {
	return fakellm.Func(func(r fakellm.Request) fakellm.Reply {
		if strings.Contains(r.Chat.Last("user").Content, "Automatic note") {
			return second
		}
		return first
	})
}

func TestPolicyDecidesAboutToolErrors(t *testing.T) {
	t.Parallel()
	for _, decision := range []turn.ErrorAction{turn.ErrorFail, turn.ErrorInterrupt} {
		t.Run(string(decision), func(t *testing.T) {
			t.Parallel()
			e := newEnv(t, fakellm.Call("local_broken", `{}`).WithText("Let me see."),
				func(c *config.Config) { c.Policy.OnToolError = decision })
			e.work(withFailing())
			run := e.begin(session(t), "Use it.", nil)
			if decision == turn.ErrorFail {
				app, res := e.failure(run)
				assert.Equal(t, string(turn.CodeToolFailed), app.Type())
				assert.Equal(t, "Let me see.", res.Answer)
			} else {
				res := e.result(run)
				assert.Equal(t, turn.FinishInterrupted, res.FinishReason)
				assert.Contains(t, res.Message, "it is broken")
			}
			assert.Len(t, e.model.Requests(), 1, "the model is not asked again")
			e.keep("v1-tool-error-"+string(decision), session(t), run.GetRunID())
		})
	}
}

// TestAFailedCallIsRetried sets on_tool_error = "retry" and lets a tool fail a number of times.
func TestAFailedCallIsRetried(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		failures, budget int
		uncounted        bool
		once             bool // the tool is not repeatable
		runs             int
		outcome          turn.Outcome
	}{
		"once":             {failures: 1, budget: 2, runs: 2, outcome: turn.OutcomeOK},
		"over the budget":  {failures: 9, budget: 2, runs: 2, outcome: turn.OutcomeError},
		"budget for more":  {failures: 2, budget: 3, runs: 3, outcome: turn.OutcomeOK},
		"outside a budget": {failures: 2, budget: 0, uncounted: true, runs: 3, outcome: turn.OutcomeOK},
		"of no repeatable": {failures: 1, budget: 2, once: true, runs: 1, outcome: turn.OutcomeError},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			e := newEnv(t, fakellm.Steps(fakellm.Call("local_shaky", `{}`), fakellm.Text("So it is.")),
				func(cfg *config.Config) {
					cfg.Policy.OnToolError, cfg.Runtime.MaxConsecutiveErrors = turn.ErrorRetry, c.budget
					if c.uncounted {
						cfg.Policy.UncountedErrors = []turn.ErrorKind{turn.ToolError}
					}
					require.NoError(t, cfg.Validate())
				})
			var runs atomic.Int32
			opts := []engine.ToolOption{engine.Repeatable(), engine.LocalActivity()}
			if c.once {
				opts = nil
			}
			e.work(engine.WithTool("shaky", "Fails at first.", func(context.Context, struct{}) (string, error) {
				if n := runs.Add(1); int(n) <= c.failures {
					return "", fmt.Errorf("it shakes, %d", n)
				}
				return "steady", nil
			}, opts...))
			res := e.ask(session(t), "Use it.")
			assert.Equal(t, "So it is.", res.Answer)
			call := e.calls(res.Turn, 1)[0]
			assert.Equal(t, c.outcome, call.Outcome)
			assert.EqualValues(t, c.runs, runs.Load())
			assert.Equal(t, c.runs, call.Runs)
			if c.outcome == turn.OutcomeError {
				assert.Contains(t, e.lastResults()[0], fmt.Sprintf("it shakes, %d", c.runs), "the model sees the last error")
			}
			assert.Len(t, e.failures(res.Turn), c.runs-1, "each repeated attempt is shown")
			if name == "once" {
				e.keep("v2-tool-error-retry", session(t), res.Turn)
			}
		})
	}
}

// TestUncountedErrorsEndNoTurn makes more errors of each kind than max_consecutive_errors permits, outside of its
// budget.
func TestUncountedErrorsEndNoTurn(t *testing.T) {
	t.Parallel()
	broken := fakellm.Call("local_broken", `{}`)
	down := fakellm.Status(http.StatusInternalServerError, "server_error", "oops")
	for kind, script := range map[turn.ErrorKind]fakellm.Script{
		turn.ToolError:          fakellm.Steps(broken, broken, fakellm.Text("Well.")),
		turn.ModelError:         fakellm.Attempts(down, down, fakellm.Text("Well.")),
		turn.InvalidActionError: fakellm.Steps(fakellm.Call("none", `{}`), fakellm.Call("none", `{}`), fakellm.Text("Well.")),
	} {
		t.Run(string(kind), func(t *testing.T) {
			t.Parallel()
			for reason, uncounted := range map[turn.FinishReason][]turn.ErrorKind{
				turn.FinishAnswered: {kind}, turn.FinishMaxErrors: nil} {
				e := newEnv(t, script, func(cfg *config.Config) {
					cfg.Runtime.MaxConsecutiveErrors, cfg.Runtime.MaxReprompts, cfg.LLM.RetryFor = 1, 5, 0
					cfg.Policy.OnModelError, cfg.Policy.UncountedErrors = turn.ErrorRetry, uncounted
					require.NoError(t, cfg.Validate())
				})
				e.work(withFailing())
				assert.Equal(t, reason, e.ask(session(t)+string(reason), "Hi.").FinishReason)
			}
		})
	}
}

func TestALongTurnContinuesAsNew(t *testing.T) {
	t.Parallel()
	const hops = 16
	server := newRestartableTemporal(t, "", 60)
	e := newEnv(t, fakellm.Func(func(req fakellm.Request) fakellm.Reply {
		if req.Step < hops {
			return fakellm.Call("local_echo", `{"text":"`+strings.Repeat("x", req.Step)+`"}`)
		}
		return fakellm.Text("done")
	}))
	server.serves(e)
	e.work(withEcho()...)
	run := e.begin(session(t), "Echo often.", raised(hops))
	first := run.GetRunID()
	res := e.result(run)
	assert.Equal(t, "done", res.Answer)
	assert.Equal(t, first, res.Turn, "the turn's ID outlives its first run")
	assert.Equal(t, hops, res.ToolCalls)
	assert.Equal(t, hops+1, res.Steps, "counters are carried on")
	runs := e.chain(session(t), first)
	require.GreaterOrEqual(t, len(runs), 3)
	for _, c := range e.calls(first, hops) {
		assert.Equal(t, 1, c.Runs)
	}
	e.keep("v1-continued-first", session(t), runs[0])
	e.keep("v1-continued-middle", session(t), runs[1])
	e.keep("v1-continued-last", session(t), runs[len(runs)-1])
}

func TestATurnWaitsForALockedJournal(t *testing.T) {
	t.Parallel()
	large := strings.Repeat("All work and no play. ", 1950<<10/22)
	for name, c := range map[string]struct {
		text    string
		journal *unavailableJournal
	}{
		"begin-locked":       {"Hello?", &unavailableJournal{begin: wait, left: 1}},
		"begin-locked-large": {large, &unavailableJournal{begin: refuse, left: 2}},
		"finish-locked":      {"Hello?", &unavailableJournal{finish: wait, left: 1}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			e := newEnv(t, fakellm.Text("Here."))
			e.work(engine.WithJournal(c.journal.wrap))
			run := e.begin(session(t), c.text, nil)
			assert.Equal(t, "Here.", e.result(run).Answer)
			assert.Len(t, e.model.Requests(), 1)
			messages, _ := e.transcript(session(t))
			assert.Len(t, messages, 2, "nothing is written twice")
			e.keep("v1-"+name, session(t), run.GetRunID())
		})
	}
}

// back makes the journal available again.
func (u *unavailableJournal) back() {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.left = 0
}

// TestATurnIsStoppedWhileTheJournalIsLocked stops a turn whose message was acknowledged while its journal is locked:
// the turn waits for the journal, but only briefly.
func TestATurnIsStoppedWhileTheJournalIsLocked(t *testing.T) {
	t.Parallel()
	for shape, comes := range map[string]bool{ // whether the journal comes back in time
		"v1-cancelled-begin-locked": true, "v1-cancelled-begin-gone": false,
	} {
		t.Run(shape, func(t *testing.T) {
			t.Parallel()
			e := newEnv(t, fakellm.Text("An answer."))
			j := &unavailableJournal{begin: refuse, left: 1000}
			e.work(engine.WithJournal(j.wrap))
			run := e.begin(session(t), "The first question.", nil)
			e.happened(run, enumspb.EVENT_TYPE_ACTIVITY_TASK_SCHEDULED)
			require.NoError(t, e.client.CancelWorkflow(t.Context(), run.GetID(), run.GetRunID()))
			if comes {
				e.happened(run, enumspb.EVENT_TYPE_TIMER_STARTED)
				j.back()
			}
			e.cancelledRun(run)
			j.back()
			e.keep(shape, session(t), run.GetRunID())
			assert.Empty(t, e.model.Requests())
			if comes {
				messages, _ := e.transcript(session(t))
				require.Len(t, messages, 1)
				assert.Equal(t, "The first question.", messages[0].Text, "the journal has the accepted message")
			}
			assert.Equal(t, "An answer.", e.ask(session(t), "The second question.").Answer)
		})
	}
}

// TestAQueuedMessageSurvivesAStopWhileTheJournalIsLocked checks that a turn that is stopped before it could begin does
// not lose a message that was accepted for the next turn.
func TestAQueuedMessageSurvivesAStopWhileTheJournalIsLocked(t *testing.T) {
	t.Parallel()
	e := newEnv(t, fakellm.Text("An answer."))
	j := &unavailableJournal{begin: refuse, left: 1000}
	e.work(engine.WithJournal(j.wrap))
	run := e.begin(session(t), "The first question.", nil)
	e.happened(run, enumspb.EVENT_TYPE_ACTIVITY_TASK_SCHEDULED)
	e.say(session(t), workflows.Message{ID: "m2", Text: "The second question.", Queue: true})
	require.NoError(t, e.client.CancelWorkflow(t.Context(), run.GetID(), run.GetRunID()))
	e.happened(run, enumspb.EVENT_TYPE_TIMER_FIRED)
	j.back()
	assert.Equal(t, "An answer.", e.answered(session(t), "m2").Answer)
	assert.Empty(t, e.ended(run.GetRunID()).Answer)
	e.keep("v1-cancelled-begin-gone-queued", session(t), run.GetRunID())
}

func TestACallWaitsForTheJournal(t *testing.T) {
	t.Parallel()
	t.Run("once", func(t *testing.T) {
		t.Parallel()
		e := newEnv(t, fakellm.Steps(fakellm.Call("local_echo", `{"text":"hello"}`), fakellm.Text("It echoed.")))
		j := unavailableJournal{claim: refuse, left: 10} // more refusals than one attempt tries
		e.work(append(withEcho(), engine.WithJournal(j.wrap))...)
		run := e.begin(session(t), "Echo hello.", nil)
		assert.Equal(t, "It echoed.", e.result(run).Answer)
		assert.Equal(t, []string{"echo hello"}, results(e.model.Requests()[1].Chat))
		e.keep("v1-call-journal-away", session(t), run.GetRunID())
	})
	t.Run("for good", func(t *testing.T) {
		t.Parallel()
		e := newEnv(t, fakellm.Steps(fakellm.Call("local_echo", `{"text":"hello"}`).WithText("One moment.")),
			func(c *config.Config) { c.Tuning.JournalRetryFor = 3 * time.Second })
		j := unavailableJournal{claim: refuse, left: 1000}
		e.work(append(withEcho(), engine.WithJournal(j.wrap))...)
		run := e.begin(session(t), "Echo hello.", nil)
		app, res := e.failure(run)
		assert.Equal(t, string(turn.CodeJournalUnavailable), app.Type())
		assert.Equal(t, "One moment.", res.Answer)
		e.keep("v1-call-journal-gone", session(t), run.GetRunID())
	})
}
