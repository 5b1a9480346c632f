package tests

import (
	"encoding/json"
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/everturn/everturn/config"
	"github.com/everturn/everturn/tests/fakellm"
	"github.com/everturn/everturn/workflows/turn"
)

// fallingBack lets the model "second" take over from "first" after two retries.
func fallingBack(c *config.Config) {
	c.LLM.Model, c.LLM.Fallback, c.Tuning.RetryMax = "first", []string{"openai:second"}, ptr(2)
}

// byModel scripts each model by its name.
func byModel(scripts map[string]fakellm.Script) fakellm.Script {
	return fakellm.Func(func(q fakellm.Request) fakellm.Reply { return scripts[q.Chat.Model].Reply(q) })
}

// asked counts the requests for each model.
func (e *env) asked() map[string]int {
	asked := map[string]int{}
	for _, q := range e.model.Requests() {
		asked[q.Chat.Model]++
	}
	return asked
}

func TestAFallbackTakesOverForTheRestOfTheTurn(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		failure fakellm.Reply
		asked   int
		code    turn.Code
	}{
		"no such model": {fakellm.Status(http.StatusNotFound, "model_not_found", "no such model"), 1, turn.CodeLLMRejected},
		"no quota":      {fakellm.Status(http.StatusTooManyRequests, "insufficient_quota", "pay"), 1, turn.CodeLLMRejected},
		"overloaded":    {fakellm.Status(529, "overloaded_error", "busy"), 3, turn.CodeLLMTransport},
		"cut stream":    {fakellm.Text("one two three four").CutAfter(4), 3, turn.CodeLLMTruncated},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			e := newEnv(t, byModel(map[string]fakellm.Script{
				"first":  c.failure,
				"second": fakellm.Steps(fakellm.Call("local_list_files", `{"path":"."}`), fakellm.Text("five six")),
			}), fallingBack)
			e.work()
			res := e.ask(session(t), "Count.")
			assert.Equal(t, "five six", res.Answer)
			assert.Equal(t, "second", res.Model)
			assert.Equal(t, map[string]int{"first": c.asked, "second": 2}, e.asked(), "the rest of the turn stays with it")
			text, kinds, _ := e.story(res.Turn)
			assert.Equal(t, "five six", text)
			assert.Equal(t, 1, kinds[turn.EventModelChanged])
			assert.Zero(t, kinds[turn.EventError], "the change shows the last failure")
			assert.Equal(t, min(c.asked-1, 1), kinds[turn.EventInferenceWaiting])
			var change turn.ModelEvent
			require.NoError(t, json.Unmarshal(e.awaitEvent(res.Turn, turn.EventModelChanged).Data, &change))
			assert.Equal(t, turn.ModelEvent{Provider: "openai", Model: "second", FromProvider: "openai", FromModel: "first",
				Code: c.code, Position: 1, Step: 1, Failures: c.asked}, change)
			inferences, err := e.journal.Inferences(t.Context(), res.Turn)
			require.NoError(t, err)
			require.Len(t, inferences, 2)
			assert.Equal(t, "second", inferences[0].Model)
			assert.Equal(t, c.asked+1, inferences[0].Attempt)
		})
	}
}

func TestAFallbackHasItsOwnRetriesAndFailsForGood(t *testing.T) {
	t.Parallel()
	down := fakellm.Status(http.StatusInternalServerError, "server_error", "oops")
	e := newEnv(t, byModel(map[string]fakellm.Script{"first": down, "second": down}), fallingBack,
		func(c *config.Config) { c.Tuning.RetryMax = ptr(1) })
	e.work()
	app, res := e.failure(e.begin(session(t), "Count.", nil))
	assert.Equal(t, string(turn.CodeLLMTransport), app.Type())
	assert.Equal(t, turn.StateFailed, res.State)
	assert.Equal(t, map[string]int{"first": 2, "second": 2}, e.asked())
}

// TestWhatAnotherModelWouldRefuseTooDoesNotFallBack: a wrong request, or a refusal of its content.
func TestWhatAnotherModelWouldRefuseTooDoesNotFallBack(t *testing.T) {
	t.Parallel()
	for name, failure := range map[string]fakellm.Reply{
		"bad request": fakellm.Status(http.StatusBadRequest, "invalid_request_error", "no"),
		"content":     fakellm.Status(http.StatusBadRequest, "content_policy_violation", "no"),
		"key":         fakellm.Status(http.StatusUnauthorized, "invalid_api_key", "no"),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			e := newEnv(t, byModel(map[string]fakellm.Script{"first": failure, "second": fakellm.Text("no")}), fallingBack)
			e.work()
			_, res := e.failure(e.begin(session(t), "Count.", nil))
			assert.Equal(t, turn.StateFailed, res.State)
			assert.Zero(t, e.asked()["second"])
		})
	}
}

// TestAFallbackOutlivesItsWorker: the next worker asks the model that took over, once.
func TestAFallbackOutlivesItsWorker(t *testing.T) {
	t.Parallel()
	gate := fakellm.NewGate()
	e := newEnv(t, byModel(map[string]fakellm.Script{
		"first":  fakellm.Status(http.StatusNotFound, "model_not_found", "no such model"),
		"second": fakellm.Attempts(fakellm.Text("lost").Hold(0, gate), fakellm.Text("five six")),
	}), fallingBack, func(c *config.Config) { c.Worker.DrainTimeout = time.Second })
	stop := e.work()
	run := e.begin(session(t), "Count.", nil)
	awaitGate(t, gate)
	stop()
	e.work()
	res := e.result(run)
	assert.Equal(t, "five six", res.Answer)
	assert.Equal(t, map[string]int{"first": 1, "second": 2}, e.asked())
	_, kinds, _ := e.story(res.Turn)
	assert.Equal(t, 1, kinds[turn.EventModelChanged])
}

// TestAFallbackWithALargerWindow takes over a prompt that is too long for the first model. One whose window is not
// larger does not.
func TestAFallbackWithALargerWindow(t *testing.T) {
	t.Parallel()
	for _, window := range []int64{200_000, 100_000} {
		e := newEnv(t, byModel(map[string]fakellm.Script{
			"first":  fakellm.Status(http.StatusBadRequest, "context_length_exceeded", "too long"),
			"second": fakellm.Text("five six"),
		}), fallingBack, func(c *config.Config) {
			c.Models = []config.Model{{Name: "openai:first", ContextTokens: 100_000},
				{Name: "openai:second", ContextTokens: window}}
		})
		e.work()
		run := e.begin(session(t), "Count.", nil)
		if window > 100_000 {
			assert.Equal(t, "five six", e.result(run).Answer)
			continue
		}
		_, res := e.failure(run)
		assert.Equal(t, turn.CodeContextOverflow, res.Code)
		assert.Zero(t, e.asked()["second"])
	}
}
