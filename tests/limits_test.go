package tests

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"slices"
	"strings"
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
func (r *env) failure(run client.WorkflowRun) (*temporal.ApplicationError, workflows.Result) {
	r.t.Helper()
	ctx, cancel := context.WithTimeout(r.t.Context(), within)
	defer cancel()
	err := run.Get(ctx, nil)
	var app *temporal.ApplicationError
	require.ErrorAs(r.t, err, &app)
	var res workflows.Result
	require.NoError(r.t, app.Details(&res))
	assert.Equal(r.t, app.Type(), string(res.Code))
	assert.True(r.t, app.NonRetryable())
	return app, res
}

// goesOn checks that the session can run another turn.
func (r *env) goesOn(session string) {
	r.t.Helper()
	paired(r.t, r, session)
	r.model.SetScript(fakellm.Text("still here"))
	assert.Equal(r.t, "still here", r.ask(session, "And now?").Answer)
	requests := r.model.Requests()
	complete(r.t, requests[len(requests)-1].Chat, "And now?")
	paired(r.t, r, session)
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
		turn.FinishMaxTokens:    {echoes.Usage(100, 10, 0), workflows.LimitsRequest{MaxTokens: ptr(int64(150))}, 2, 4},
		turn.FinishTimeout:      {echoes.StallAfter(3), workflows.LimitsRequest{TurnTimeout: ptr("1s")}, 1, 0},
	} {
		t.Run(string(reason), func(t *testing.T) {
			t.Parallel()
			r := newEnv(t, c.script)
			r.work(append(withEcho(), withFailing())...)
			run := r.begin(session(t), "Look.", &c.limits)
			res := r.result(run)
			assert.Equal(t, turn.StateCompleted, res.State)
			assert.Equal(t, reason, res.FinishReason)
			assert.Equal(t, turn.CodeGuardExceeded, res.Code)
			assert.Equal(t, c.calls, res.ToolCalls)
			assert.Contains(t, res.Message, "raise the limit or ask again")
			assert.Len(t, r.model.Requests(), c.requests)
			assert.Equal(t, "Looking.", strings.TrimSpace(res.Answer), "what was said is kept")
			record, err := r.store.Turn(t.Context(), res.Turn)
			require.NoError(t, err)
			assert.Equal(t, reason, record.Reason)
			r.keep("v1-guard-"+string(reason), session(t), res.Turn)
			r.goesOn(session(t))
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
	r := newEnv(t, fakellm.Calls(calls...), func(c *config.Config) { c.Runtime.MaxParallelCalls = 1 })
	r.work(engine.WithTool("work", "Works.", work, engine.Risk(turn.RiskLow)))
	res := r.result(r.begin(session(t), "Work.", limited("2s", "2s")))
	assert.Equal(t, turn.FinishTimeout, res.FinishReason)
	var outcomes []turn.Outcome
	messages, _ := r.transcript(session(t))
	for _, m := range messages {
		if m.Role == turn.RoleTool {
			outcomes = append(outcomes, m.Outcome)
		}
	}
	assert.Equal(t, []turn.Outcome{turn.OutcomeOK, turn.OutcomeUnknown, turn.OutcomeDenied, turn.OutcomeDenied,
		turn.OutcomeDenied}, outcomes)
	r.goesOn(session(t))
}

func TestALargeResultStaysOutOfHistoryAndPrompt(t *testing.T) {
	t.Parallel()
	const size = 50 << 20
	blast := func(context.Context, struct{}) (string, error) {
		return strings.Repeat("0123456789abcdef", size/16), nil
	}
	r := newEnv(t, fakellm.Steps(fakellm.Call("local_blast", `{}`), fakellm.Text("That was a lot.")))
	r.work(engine.WithTool("blast", "Says much.", blast, engine.Risk(turn.RiskLow)))
	res := r.ask(session(t), "Say much.")
	assert.LessOrEqual(t, len(r.model.Requests()[1].Chat.Last("tool").Content), 64<<10)
	call, err := r.store.Call(t.Context(), res.Turn, "1.0")
	require.NoError(t, err)
	assert.Equal(t, int64(size), call.SizeBytes)
	assert.LessOrEqual(t, historyBytes(r.events(session(t), res.Turn)), 16<<10)
}

func TestAMessageOfFiveMegabytes(t *testing.T) {
	t.Parallel()
	text := strings.Repeat("All work and no play. ", 5<<20/22)
	t.Run("by reference", func(t *testing.T) {
		t.Parallel()
		r := newEnv(t, fakellm.Text("That was long."))
		r.work()
		hash, err := r.store.PutBlob(t.Context(), "text/plain", []byte(text))
		require.NoError(t, err)
		run := r.start(session(t), map[string]any{"message": map[string]any{"blob": hash}})
		assert.Equal(t, "That was long.", r.result(run).Answer)
		assert.Equal(t, text, r.model.Requests()[0].Chat.Last("user").Content)
		r.keep("v1-by-reference", session(t), run.GetRunID())
		assert.LessOrEqual(t, historyBytes(r.events(session(t), run.GetRunID())), 8<<10)
		r.goesOn(session(t))
	})
	t.Run("by a reference to nothing", func(t *testing.T) {
		t.Parallel()
		r := newEnv(t, fakellm.Text("never"))
		r.work()
		app, res := r.failure(r.start(session(t), map[string]any{"message": map[string]any{"blob": strings.Repeat("0", 64)}}))
		assert.Contains(t, app.Message(), "journal does not have")
		r.keep("v1-begin-refused", session(t), res.Turn)
		assert.Empty(t, r.model.Requests())
	})
	t.Run("inline", func(t *testing.T) {
		t.Parallel()
		r := newEnv(t, fakellm.Text("never"))
		r.work()
		_, err := r.client.ExecuteWorkflow(t.Context(),
			client.StartWorkflowOptions{ID: session(t), TaskQueue: r.cfg.Temporal.TaskQueue},
			workflows.TurnWorkflow, workflows.Input{Message: &workflows.Message{Text: text}})
		assert.ErrorContains(t, err, "larger than max")
		_, err = r.client.DescribeWorkflowExecution(t.Context(), session(t), "")
		var notFound *serviceerror.NotFound
		assert.ErrorAs(t, err, &notFound, "nothing was started")
	})
}

func TestUnusualSessionIDs(t *testing.T) {
	t.Parallel()
	r := newEnv(t, fakellm.Text("hello"))
	r.work()
	for _, id := range []string{"sitzung-ü-会話-🙂", "two words", "a/b/../c", "O'Brien\"; --", "%2F?x=1#y",
		strings.Repeat("x", 200)} {
		run := r.start(id, workflows.Input{Session: id, Message: &workflows.Message{Text: "hi"}})
		assert.Equal(t, "hello", r.result(run).Answer, id)
		record, err := r.store.Session(t.Context(), id)
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
			c.Policy.Rules = []config.PolicyRule{
				{Tool: "local/echo", Arguments: map[string]string{"text": "a"}, Permit: "deny", Why: "no a here"}}
		}, "no a here"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var ran bool
			touch := func(context.Context, echoIn) (string, error) { ran = true; return "ran", nil }
			r := newEnv(t, fakellm.Steps(fakellm.Call("local_echo", `{"text":"a"}`), fakellm.Text("I may not.")), c.change)
			r.work(engine.WithTool("echo", "Echoes.", touch, engine.Risk(turn.RiskLow)))
			res := r.ask(session(t), "Echo.")
			assert.Equal(t, "I may not.", res.Answer)
			r.keep(map[string]string{"denied": "v1-policy-denied", "denied-by-rule": "v1-policy-denied-by-rule"}[name],
				session(t), res.Turn)
			assert.Contains(t, r.model.Requests()[1].Chat.Last("tool").Content, c.told)
			assert.False(t, ran)
			messages := paired(t, r, session(t))
			assert.Equal(t, turn.OutcomeDenied, messages[2].Outcome)
			offered := r.model.Requests()[0].Chat.ToolNames()
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

// awaitChunk follows a turn until it emits a chunk of this kind, and returns the chunk.
func (r *env) awaitChunk(turnID string, kind turn.ChunkKind) turn.Chunk {
	r.t.Helper()
	ctx, cancel := context.WithTimeout(r.t.Context(), within)
	defer cancel()
	for c, err := range follow.Turn(ctx, r.store, turnID, -1) {
		require.NoError(r.t, err)
		if c.Kind == kind {
			return c
		}
	}
	r.t.Fatalf("the turn ended without a chunk %s", kind)
	return turn.Chunk{}
}

// story reads a finished turn's chunks as a client would.
func (r *env) story(turnID string) (text string, kinds map[turn.ChunkKind]int, withdrawn int) {
	r.t.Helper()
	ctx, cancel := context.WithTimeout(r.t.Context(), within)
	defer cancel()
	var reader turn.Reader
	kinds = map[turn.ChunkKind]int{}
	next := int64(0)
	for c, err := range follow.Turn(ctx, r.store, turnID, -1) {
		require.NoError(r.t, err)
		require.Equal(r.t, next, c.Index, "chunks without gaps")
		next++
		kinds[c.Kind]++
		if reader.Add(c) {
			withdrawn++
		}
	}
	return reader.Text(), kinds, withdrawn
}

// failures returns the data of a finished turn's error chunks.
func (r *env) failures(turnID string) (all []turn.ErrorChunk) {
	r.t.Helper()
	chunks, err := r.store.Chunks(r.t.Context(), turnID, -1, 1000)
	require.NoError(r.t, err)
	for _, c := range chunks {
		if c.Kind == turn.ChunkError {
			var e turn.ErrorChunk
			require.NoError(r.t, json.Unmarshal(c.Data, &e))
			require.NotEmpty(r.t, c.Text)
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
			r := newEnv(t, fakellm.Attempts(cut(half), fakellm.Text("five six")))
			r.work()
			run := r.begin(session(t), "Count.", nil)
			awaitGate(t, gate)
			assert.Contains(t, r.awaitChunk(run.GetRunID(), turn.ChunkTextDelta).Text, "one")
			gate.Release()
			res := r.result(run)
			assert.Equal(t, "five six", res.Answer)
			assert.Equal(t, 1, res.Steps)
			text, kinds, withdrawn := r.story(res.Turn)
			assert.Equal(t, "five six", text)
			assert.Equal(t, 1, kinds[turn.ChunkAttemptRestarted])
			assert.Equal(t, 1, withdrawn, "text that was shown is taken back")
			assert.Equal(t, 1, kinds[turn.ChunkTurnCompleted])
			assert.Len(t, r.model.Requests(), 2)
			inferences, err := r.store.Inferences(t.Context(), res.Turn)
			require.NoError(t, err)
			assert.Equal(t, 1, inferences[0].Failures)
			assert.Equal(t, 2, inferences[0].Attempt)
		})
	}
}

func TestARateLimitIsRetriedAfterItsDelay(t *testing.T) {
	t.Parallel()
	r := newEnv(t, fakellm.Attempts(fakellm.Status(http.StatusTooManyRequests, "rate_limit", "slow down").RetryAfter("1"),
		fakellm.Text("here")))
	r.work()
	res := r.ask(session(t), "Hi.")
	assert.Equal(t, "here", res.Answer)
	waits := r.modelWaits(res.Turn)
	require.Len(t, waits, 1)
	assert.Equal(t, turn.CodeLLMRateLimited, waits[0].Code)
	assert.Equal(t, http.StatusTooManyRequests, waits[0].Status)
	r.keep("v1-inference-retried", session(t), res.Turn)
	requests := r.model.Requests()
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
		"400 is never retried":     {fakellm.Status(400, "invalid_request_error", "no"), turn.CodeLLMRejected, 1},
		"500 is retried retry_max": {fakellm.Status(500, "server_error", "oops"), turn.CodeLLMTransport, 2},
		"half answers too":         {fakellm.Text("a b c").CutAfter(2), turn.CodeLLMTruncated, 2},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newEnv(t, c.reply, func(c *config.Config) { c.LLM.RetryMax = ptr(1) })
			r.work()
			app, res := r.failure(r.begin(session(t), "Hi.", nil))
			assert.Equal(t, string(c.code), app.Type())
			assert.Len(t, r.model.Requests(), c.requests)
			assert.Equal(t, turn.StateFailed, res.State)
			text, kinds, _ := r.story(res.Turn)
			assert.Equal(t, 1, kinds[turn.ChunkTurnCompleted], text)
			failures := r.failures(res.Turn)
			assert.Equal(t, []turn.ErrorChunk{{Code: c.code, Final: true}}, failures)
			assert.Len(t, r.modelWaits(res.Turn), c.requests-1)
			if c.code == turn.CodeLLMRejected || c.code == turn.CodeLLMTransport { // the other errors leave the same history
				r.keep("v1-model-"+string(c.code), session(t), res.Turn)
			}
			r.goesOn(session(t))
		})
	}
}

// TestUnusualStartOptionsCanBeStopped checks two starts: a workflow task timeout that is too short for a turn to begin
// is refused, and a refused input with a cron schedule is stopped, because otherwise each run would fail and start the
// next one.
func TestUnusualStartOptionsCanBeStopped(t *testing.T) {
	t.Parallel()
	r := newEnv(t, fakellm.Text("never"))
	r.work()
	options := client.StartWorkflowOptions{ID: session(t) + " hasty", TaskQueue: r.cfg.Temporal.TaskQueue,
		WorkflowTaskTimeout: 1}
	run, err := r.client.ExecuteWorkflow(t.Context(), options, workflows.TurnWorkflow,
		workflows.Input{Message: &workflows.Message{Text: "hi"}})
	require.NoError(t, err)
	_, res := r.failure(run)
	assert.Equal(t, turn.CodeInputInvalid, res.Code)

	for name, input := range map[string]any{
		workflows.TurnWorkflow: workflows.Input{Turn: "another"},
		workflows.DeliverWorkflow: workflows.DeliverInput{Session: "x", Since: time.Now(),
			Message: workflows.Message{Text: "x"}},
	} {
		id := session(t) + " " + name
		options := client.StartWorkflowOptions{ID: id, TaskQueue: r.cfg.Temporal.TaskQueue, CronSchedule: "@every 1s"}
		_, err = r.client.ExecuteWorkflow(t.Context(), options, name, input)
		require.NoError(t, err)
		require.NoError(t, r.client.CancelWorkflow(t.Context(), id, ""))
		require.Eventually(t, func() bool {
			d, err := r.client.DescribeWorkflowExecution(t.Context(), id, "")
			return err == nil && d.WorkflowExecutionInfo.Status == enums.WORKFLOW_EXECUTION_STATUS_CANCELED
		}, within, 50*time.Millisecond, name)
	}
}
