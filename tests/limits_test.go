package tests

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	enums "go.temporal.io/api/enums/v1"
	"go.temporal.io/api/serviceerror"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/temporal"

	"github.com/everturn/everturn/config"
	"github.com/everturn/everturn/engine"
	"github.com/everturn/everturn/journal/follow"
	"github.com/everturn/everturn/tests/fakellm"
	"github.com/everturn/everturn/workflows"
	"github.com/everturn/everturn/workflows/turn"
)

// session returns an ID that no other test uses, because all tests share a server.
func session(t *testing.T) string { return strings.ReplaceAll(t.Name(), "/", " ") }

func ptr[T any](v T) *T { return &v }

// failure returns a turn's application error and the result that it carries.
func (e *env) failure(run client.WorkflowRun) (*temporal.ApplicationError, workflows.Result) {
	e.t.Helper()
	ctx, cancel := context.WithTimeout(e.t.Context(), within)
	defer cancel()
	err := run.Get(ctx, nil)
	var app *temporal.ApplicationError
	require.ErrorAs(e.t, err, &app)
	var res workflows.Result
	require.NoError(e.t, app.Details(&res))
	assert.Equal(e.t, app.Type(), string(res.Code))
	assert.True(e.t, app.NonRetryable())
	return app, res
}

// goesOn checks that the session can run another turn.
func (e *env) goesOn(session string) {
	e.t.Helper()
	paired(e.t, e, session)
	e.model.SetScript(fakellm.Text("still here"))
	assert.Equal(e.t, "still here", e.ask(session, "And now?").Answer)
	requests := e.model.Requests()
	complete(e.t, requests[len(requests)-1].Chat, "And now?")
	paired(e.t, e, session)
}

func withFailing() engine.Option {
	return engine.WithTool("broken", "Fails.",
		func(context.Context, struct{}) (string, error) { return "", errors.New("it is broken") },
		engine.LocalActivity(), engine.Risk(turn.RiskLow))
}

func TestLimitsEndTurnsWithTheirReason(t *testing.T) {
	t.Parallel()
	echoes := fakellm.Calls(fakellm.ToolCall{Name: "local_quick_echo", Arguments: `{"text":"a"}`},
		fakellm.ToolCall{Name: "local_quick_echo", Arguments: `{"text":"b"}`}).WithText("Looking.")
	for reason, c := range map[turn.FinishReason]struct {
		script   fakellm.Script
		limits   workflows.LimitsRequest
		requests int
		calls    int
	}{
		// no step is left to use the results of the last calls, so they are not made
		turn.FinishMaxSteps:     {echoes, workflows.LimitsRequest{MaxSteps: ptr(2)}, 2, 2},
		turn.FinishMaxToolCalls: {echoes, workflows.LimitsRequest{MaxToolCalls: ptr(3)}, 2, 2},
		turn.FinishMaxErrors:    {fakellm.Call("local_broken", `{}`).WithText("Looking."), workflows.LimitsRequest{}, 3, 3},
		turn.FinishMaxTokens:    {echoes.Usage(3000, 100, 0), workflows.LimitsRequest{MaxTokens: ptr(int64(7000))}, 2, 4},
		turn.FinishTimeout:      {echoes.StallAfter(3), workflows.LimitsRequest{TurnTimeout: ptr("1s")}, 1, 0},
	} {
		t.Run(string(reason), func(t *testing.T) {
			t.Parallel()
			e := newEnv(t, c.script)
			e.work(append(withEcho(), withFailing())...)
			run := e.begin(session(t), "Look.", &c.limits)
			res := e.result(run)
			assert.Equal(t, turn.StateCompleted, res.State)
			assert.Equal(t, reason, res.FinishReason)
			assert.Equal(t, turn.CodeLimitExceeded, res.Code)
			assert.Equal(t, c.calls, res.ToolCalls)
			assert.Contains(t, res.Message, "raise the limit or ask again")
			assert.Len(t, e.model.Requests(), c.requests)
			assert.Equal(t, "Looking.", strings.TrimSpace(res.Answer), "what was said is kept")
			record, err := e.journal.Turn(t.Context(), res.Turn)
			require.NoError(t, err)
			assert.Equal(t, reason, record.Reason)
			e.keep("v1-limit-"+string(reason), session(t), res.Turn)
			e.goesOn(session(t))
		})
	}
}

// TestRepeatedCallsEndATurn lets a model make the same calls in each step. The turn ends when they have had the same
// results five times in a row, and not while the results differ.
func TestRepeatedCallsEndATurn(t *testing.T) {
	t.Parallel()
	echo := func(text string) fakellm.ToolCall {
		return fakellm.ToolCall{Name: "local_quick_echo", Arguments: `{"text":"` + text + `"}`}
	}
	same, other := fakellm.Calls(echo("a")), fakellm.Calls(echo("b"))
	count := fakellm.Call("local_count", `{}`)
	for name, c := range map[string]struct {
		script fakellm.Script
		reason turn.FinishReason
		calls  int
	}{
		"one call":           {same, turn.FinishRepeatedCalls, 5},
		"two calls":          {fakellm.Calls(echo("a"), echo("b")), turn.FinishRepeatedCalls, 10},
		"interrupted":        {fakellm.Steps(same, same, same, same, other, same, same, same, same, same), turn.FinishRepeatedCalls, 10},
		"results differ":     {fakellm.Steps(count, count, count, count, count, count, fakellm.Text("Six.")), turn.FinishAnswered, 6},
		"five in one answer": {fakellm.Steps(fakellm.Calls(echo("a"), echo("a"), echo("a"), echo("a"), echo("a")), fakellm.Text("Five.")), turn.FinishAnswered, 5},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			e := newEnv(t, c.script, func(c *config.Config) { c.SetPreset(config.PresetStandard) })
			var calls atomic.Int32
			e.work(append(withEcho(), engine.WithTool("count", "Counts.", func(context.Context, struct{}) (string, error) {
				return fmt.Sprint(calls.Add(1)), nil
			}))...)
			res := e.ask(session(t), "Look.")
			assert.Equal(t, c.reason, res.FinishReason)
			assert.Equal(t, c.calls, res.ToolCalls)
			if c.reason == turn.FinishRepeatedCalls {
				assert.Equal(t, turn.CodeLimitExceeded, res.Code)
				assert.Contains(t, res.Message, "local/quick_echo")
				e.goesOn(session(t))
			}
			if name == "one call" {
				e.keep("v2-limit-repeated_calls", session(t), res.Turn)
			}
		})
	}
}

// TestTurnTimeoutHoldsInsideAStep runs five calls one after the other that together take far longer than the turn may.
func TestTurnTimeoutHoldsInsideAStep(t *testing.T) {
	t.Parallel()
	work := func(ctx context.Context, _ struct{}) (string, error) {
		select {
		case <-ctx.Done():
			return "", ctx.Err()
		case <-time.After(1200 * time.Millisecond):
			return "done", nil
		}
	}
	calls := slices.Repeat([]fakellm.ToolCall{{Name: "local_work", Arguments: `{}`}}, 5)
	e := newEnv(t, fakellm.Calls(calls...), func(c *config.Config) { c.Tuning.ParallelCalls = 1 })
	e.work(engine.WithTool("work", "Works.", work, engine.Risk(turn.RiskLow)))
	res := e.result(e.begin(session(t), "Work.", limited("2s", "2s")))
	assert.Equal(t, turn.FinishTimeout, res.FinishReason)
	var outcomes []turn.Outcome
	messages, _ := e.transcript(session(t))
	for _, m := range messages {
		if m.Role == turn.RoleTool {
			outcomes = append(outcomes, m.Outcome)
		}
	}
	assert.Equal(t, []turn.Outcome{turn.OutcomeOK, turn.OutcomeUnknown, turn.OutcomeDenied, turn.OutcomeDenied,
		turn.OutcomeDenied}, outcomes)
	e.goesOn(session(t))
}

func TestALargeResultStaysOutOfHistoryAndPrompt(t *testing.T) {
	t.Parallel()
	const size = 50 << 20
	blast := func(context.Context, struct{}) (string, error) {
		return strings.Repeat("0123456789abcdef", size/16), nil
	}
	e := newEnv(t, fakellm.Steps(fakellm.Call("local_blast", `{}`), fakellm.Text("That was a lot.")))
	e.work(engine.WithTool("blast", "Says much.", blast, engine.Risk(turn.RiskLow)))
	res := e.ask(session(t), "Say much.")
	assert.LessOrEqual(t, len(e.model.Requests()[1].Chat.Last("tool").Content), 64<<10)
	call, err := e.journal.Call(t.Context(), res.Turn, "1.0")
	require.NoError(t, err)
	assert.Equal(t, int64(size), call.SizeBytes)
	assert.LessOrEqual(t, historyBytes(e.events(session(t), res.Turn)), 16<<10)
}

func TestAMessageOfFiveMegabytes(t *testing.T) {
	t.Parallel()
	text := strings.Repeat("All work and no play. ", 5<<20/22)
	t.Run("by reference", func(t *testing.T) {
		t.Parallel()
		e := newEnv(t, fakellm.Text("That was long."))
		e.work()
		hash, err := e.journal.PutBlob(t.Context(), "text/plain", []byte(text))
		require.NoError(t, err)
		run := e.start(session(t), map[string]any{"message": map[string]any{"blob": hash}})
		assert.Equal(t, "That was long.", e.result(run).Answer)
		assert.Equal(t, text, e.model.Requests()[0].Chat.Last("user").Content)
		e.keep("v1-by-reference", session(t), run.GetRunID())
		assert.LessOrEqual(t, historyBytes(e.events(session(t), run.GetRunID())), 8<<10)
		e.goesOn(session(t))
	})
	t.Run("by a reference to nothing", func(t *testing.T) {
		t.Parallel()
		e := newEnv(t, fakellm.Text("never"))
		e.work()
		app, res := e.failure(e.start(session(t), map[string]any{"message": map[string]any{"blob": strings.Repeat("0", 64)}}))
		assert.Contains(t, app.Message(), "journal does not have")
		e.keep("v1-begin-refused", session(t), res.Turn)
		assert.Empty(t, e.model.Requests())
	})
	t.Run("inline", func(t *testing.T) {
		t.Parallel()
		e := newEnv(t, fakellm.Text("never"))
		e.work()
		_, err := e.client.ExecuteWorkflow(t.Context(),
			client.StartWorkflowOptions{ID: session(t), TaskQueue: e.cfg.Temporal.TaskQueue},
			workflows.TurnWorkflow, workflows.Input{Message: &workflows.Message{Text: text}})
		assert.ErrorContains(t, err, "larger than max")
		_, err = e.client.DescribeWorkflowExecution(t.Context(), session(t), "")
		var notFound *serviceerror.NotFound
		assert.ErrorAs(t, err, &notFound, "nothing was started")
	})
}

func TestUnusualSessionIDs(t *testing.T) {
	t.Parallel()
	e := newEnv(t, fakellm.Text("hello"))
	e.work()
	for _, id := range []string{"sitzung-ü-会話-🙂", "two words", "a/b/../c", "O'Brien\"; --", "%2F?x=1#y",
		strings.Repeat("x", 200)} {
		run := e.start(id, workflows.Input{Session: id, Message: &workflows.Message{Text: "hi"}})
		assert.Equal(t, "hello", e.result(run).Answer, id)
		record, err := e.journal.Session(t.Context(), id)
		require.NoError(t, err)
		assert.Equal(t, int64(2), record.Head.Seq)
	}
}

func TestTheModelLearnsThatPolicyDeniedACall(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		change func(*config.Config)
		told   string
	}{
		"denied": {func(c *config.Config) { c.Policy.Deny = []string{"local/echo"} }, "no such tool"},
		"denied-by-rule": {func(c *config.Config) {
			c.Policy.Rules = []turn.Rule{
				{Tool: "local/echo", Arguments: map[string]string{"text": "a"}, Permit: "deny", Why: "no a here"}}
		}, "no a here"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var ran bool
			touch := func(context.Context, echoIn) (string, error) { ran = true; return "ran", nil }
			e := newEnv(t, fakellm.Steps(fakellm.Call("local_echo", `{"text":"a"}`), fakellm.Text("I may not.")), c.change)
			e.work(engine.WithTool("echo", "Echoes.", touch, engine.Risk(turn.RiskLow)))
			res := e.ask(session(t), "Echo.")
			assert.Equal(t, "I may not.", res.Answer)
			e.keep(map[string]string{"denied": "v1-policy-denied", "denied-by-rule": "v1-policy-denied-by-rule"}[name],
				session(t), res.Turn)
			assert.Contains(t, e.model.Requests()[1].Chat.Last("tool").Content, c.told)
			assert.False(t, ran)
			messages := paired(t, e, session(t))
			assert.Equal(t, turn.OutcomeDenied, messages[2].Outcome)
			offered := e.model.Requests()[0].Chat.ToolNames()
			assert.Equal(t, name != "denied", contains(offered, "local_echo"), "offered: %v", offered)
		})
	}
}

func contains(list []string, s string) bool {
	for _, have := range list {
		if have == s {
			return true
		}
	}
	return false
}

func awaitGate(t *testing.T, g *fakellm.Gate) {
	t.Helper()
	t.Cleanup(g.Release)
	select {
	case <-g.Reached():
	case <-time.After(within):
		t.Fatal("the model was never asked that far")
	}
}

// awaitEvent follows a turn until it emits an event of this kind, and returns the event.
func (e *env) awaitEvent(turnID string, kind turn.EventKind) turn.Event {
	e.t.Helper()
	ctx, cancel := context.WithTimeout(e.t.Context(), within)
	defer cancel()
	for ev, err := range follow.Turn(ctx, e.journal, turnID, -1) {
		require.NoError(e.t, err)
		if ev.Kind == kind {
			return ev
		}
	}
	e.t.Fatalf("the turn ended without an event %s", kind)
	return turn.Event{}
}

// story reads a finished turn's events as a client would.
func (e *env) story(turnID string) (text string, kinds map[turn.EventKind]int, withdrawn int) {
	e.t.Helper()
	ctx, cancel := context.WithTimeout(e.t.Context(), within)
	defer cancel()
	var reader turn.Reader
	kinds = map[turn.EventKind]int{}
	next := int64(0)
	for ev, err := range follow.Turn(ctx, e.journal, turnID, -1) {
		require.NoError(e.t, err)
		require.Equal(e.t, next, ev.Index, "events without gaps")
		next++
		kinds[ev.Kind]++
		if reader.Add(ev) {
			withdrawn++
		}
	}
	return reader.Text(), kinds, withdrawn
}

// failures returns the data of a finished turn's error events.
func (te *env) failures(turnID string) (all []turn.ErrorEvent) {
	te.t.Helper()
	events, err := te.journal.Events(te.t.Context(), turnID, -1, 1000)
	require.NoError(te.t, err)
	for _, ev := range events {
		if ev.Kind == turn.EventError {
			var e turn.ErrorEvent
			require.NoError(te.t, json.Unmarshal(ev.Data, &e))
			require.NotEmpty(te.t, ev.Text)
			all = append(all, e)
		}
	}
	return all
}

func TestTheTextOfABrokenStreamIsWithdrawn(t *testing.T) {
	t.Parallel()
	for name, cut := range map[string]func(fakellm.Reply) fakellm.Reply{
		"end":   func(r fakellm.Reply) fakellm.Reply { return r.CutAfter(4) },
		"reset": func(r fakellm.Reply) fakellm.Reply { return r.ResetAfter(4) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			gate := fakellm.NewGate()
			half := fakellm.Text("one two three four").Hold(3, gate)
			e := newEnv(t, fakellm.Attempts(cut(half), fakellm.Text("five six")))
			e.work()
			run := e.begin(session(t), "Count.", nil)
			awaitGate(t, gate)
			assert.Contains(t, e.awaitEvent(run.GetRunID(), turn.EventTextDelta).Text, "one")
			gate.Release()
			res := e.result(run)
			assert.Equal(t, "five six", res.Answer)
			assert.Equal(t, 1, res.Steps)
			text, kinds, withdrawn := e.story(res.Turn)
			assert.Equal(t, "five six", text)
			assert.Equal(t, 1, kinds[turn.EventAttemptRestarted])
			assert.Equal(t, 1, withdrawn, "text that was shown is taken back")
			assert.Equal(t, 1, kinds[turn.EventTurnCompleted])
			assert.Len(t, e.model.Requests(), 2)
			inferences, err := e.journal.Inferences(t.Context(), res.Turn)
			require.NoError(t, err)
			assert.Equal(t, 1, inferences[0].Failures)
			assert.Equal(t, 2, inferences[0].Attempt)
		})
	}
}

func TestARateLimitIsRetriedAfterItsDelay(t *testing.T) {
	t.Parallel()
	e := newEnv(t, fakellm.Attempts(fakellm.Status(http.StatusTooManyRequests, "rate_limit", "slow down").RetryAfter("1"),
		fakellm.Text("here")))
	e.work()
	res := e.ask(session(t), "Hi.")
	assert.Equal(t, "here", res.Answer)
	waits := e.modelWaits(res.Turn)
	require.Len(t, waits, 1)
	assert.Equal(t, turn.CodeLLMRateLimited, waits[0].Code)
	assert.Equal(t, http.StatusTooManyRequests, waits[0].Status)
	e.keep("v1-inference-retried", session(t), res.Turn)
	requests := e.model.Requests()
	require.Len(t, requests, 2)
	assert.GreaterOrEqual(t, requests[1].At.Sub(requests[0].At), time.Second, "as long as the provider asked for")
}

func TestProviderFailures(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		reply    fakellm.Reply
		code     turn.Code
		requests int
	}{
		"400 is never retried": {fakellm.Status(400, "invalid_request_error", "no"), turn.CodeLLMRejected, 1},
		"500 is retried":       {fakellm.Status(500, "server_error", "oops"), turn.CodeLLMTransport, 2},
		"half answers too":     {fakellm.Text("a b c").CutAfter(2), turn.CodeLLMTruncated, 2},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			e := newEnv(t, c.reply, func(c *config.Config) { c.Tuning.RetryMax = ptr(1) })
			e.work()
			app, res := e.failure(e.begin(session(t), "Hi.", nil))
			assert.Equal(t, string(c.code), app.Type())
			assert.Len(t, e.model.Requests(), c.requests)
			assert.Equal(t, turn.StateFailed, res.State)
			text, kinds, _ := e.story(res.Turn)
			assert.Equal(t, 1, kinds[turn.EventTurnCompleted], text)
			failures := e.failures(res.Turn)
			assert.Equal(t, []turn.ErrorEvent{{Code: c.code, Final: true}}, failures)
			assert.Len(t, e.modelWaits(res.Turn), c.requests-1)
			if c.code == turn.CodeLLMRejected || c.code == turn.CodeLLMTransport { // the other errors leave the same history
				e.keep("v1-model-"+string(c.code), session(t), res.Turn)
			}
			e.goesOn(session(t))
		})
	}
}

// TestUnusualStartOptionsCanBeStopped checks two starts: a workflow task timeout that is too short for a turn to begin
// is refused, and a refused input with a cron schedule is stopped, because otherwise each run would fail and start the
// next one.
func TestUnusualStartOptionsCanBeStopped(t *testing.T) {
	t.Parallel()
	e := newEnv(t, fakellm.Text("never"))
	e.work()
	options := client.StartWorkflowOptions{ID: session(t) + " hasty", TaskQueue: e.cfg.Temporal.TaskQueue,
		WorkflowTaskTimeout: 1}
	run, err := e.client.ExecuteWorkflow(t.Context(), options, workflows.TurnWorkflow,
		workflows.Input{Message: &workflows.Message{Text: "hi"}})
	require.NoError(t, err)
	_, res := e.failure(run)
	assert.Equal(t, turn.CodeInputInvalid, res.Code)

	for name, input := range map[string]any{
		workflows.TurnWorkflow: workflows.Input{Turn: "another"},
		workflows.DeliverWorkflow: workflows.DeliverInput{Session: "x", Since: time.Now(),
			Message: workflows.Message{Text: "x"}},
	} {
		id := session(t) + " " + name
		options := client.StartWorkflowOptions{ID: id, TaskQueue: e.cfg.Temporal.TaskQueue, CronSchedule: "@every 1s"}
		_, err = e.client.ExecuteWorkflow(t.Context(), options, name, input)
		require.NoError(t, err)
		require.NoError(t, e.client.CancelWorkflow(t.Context(), id, ""))
		require.Eventually(t, func() bool {
			d, err := e.client.DescribeWorkflowExecution(t.Context(), id, "")
			return err == nil && d.WorkflowExecutionInfo.Status == enums.WORKFLOW_EXECUTION_STATUS_CANCELED
		}, within, 50*time.Millisecond, name)
	}
}
