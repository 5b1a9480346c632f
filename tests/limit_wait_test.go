package tests

import (
	"encoding/json"
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	enumspb "go.temporal.io/api/enums/v1"

	"github.com/everturn/everturn/config"
	"github.com/everturn/everturn/tests/fakellm"
	"github.com/everturn/everturn/workflows/turn"
)

// waitsForLimit lets a turn wait for what is longer than a second, and up to a minute.
func waitsForLimit(c *config.Config) {
	c.LLM.OnLimit, c.LLM.MaxLimitWait, c.LLM.MaxRetryAfter = config.OnLimitWait, time.Minute, time.Second
}

func refusedFor(seconds string) fakellm.Reply {
	return fakellm.Status(http.StatusTooManyRequests, "rate_limit_exceeded", "the quota of this day is used up").
		RetryAfter(seconds)
}

func TestATurnWaitsForItsProvidersLimit(t *testing.T) {
	t.Parallel()
	r := newEnv(t, fakellm.Attempts(refusedFor("3"), fakellm.Text("here")), waitsForLimit)
	r.work()
	id := session(t)
	run := r.begin(id, "Where?", nil)
	r.happened(run, enumspb.EVENT_TYPE_TIMER_STARTED)
	last, err := r.store.LastChunk(t.Context(), run.GetRunID())
	require.NoError(t, err)
	var phase turn.PhaseChunk
	require.NoError(t, json.Unmarshal(last.Data, &phase))
	require.NotNil(t, phase.Wait, "show says what the turn waits for")
	assert.Equal(t, "openai", phase.Wait.Scope)
	assert.GreaterOrEqual(t, phase.Wait.AboutMS, int64(3000))
	res := r.result(run)
	assert.Equal(t, "here", res.Answer)
	assert.Equal(t, 1, res.Steps)
	assert.Len(t, r.model.Requests(), 2)
	inferences, err := r.store.Inferences(t.Context(), res.Turn)
	require.NoError(t, err)
	assert.Zero(t, inferences[0].Failures, "a refused attempt is not paid, and uses up no step")
	assert.Equal(t, 1, inferences[0].Attempt-inferences[0].Released)
	r.keep("v1-provider-limit", id, run.GetRunID())
}

func TestAStopEndsTheWaitForALimit(t *testing.T) {
	t.Parallel()
	r := newEnv(t, refusedFor("50"), waitsForLimit)
	r.work()
	id := session(t)
	run := r.begin(id, "Where?", nil)
	r.happened(run, enumspb.EVENT_TYPE_TIMER_STARTED)
	require.NoError(t, r.dialled().Stop(t.Context(), id))
	res := r.cancelledRun(run)
	assert.Equal(t, turn.StateCancelled, res.State)
	assert.Len(t, r.model.Requests(), 1)
}

// TestALimitIsNotAwaited: a wait that is too long, one that is not configured, and one that a fallback makes needless.
func TestALimitIsNotAwaited(t *testing.T) {
	t.Parallel()
	t.Run("too long", func(t *testing.T) {
		t.Parallel()
		r := newEnv(t, refusedFor("7200"), waitsForLimit, func(c *config.Config) { c.LLM.RetryMax = 0 })
		r.work()
		app, _ := r.failure(r.begin(session(t), "Where?", nil))
		assert.Equal(t, string(turn.CodeLLMRateLimited), app.Type())
	})
	t.Run("not configured", func(t *testing.T) {
		t.Parallel()
		r := newEnv(t, refusedFor("7200"), func(c *config.Config) { c.LLM.RetryMax = 0 })
		r.work()
		app, _ := r.failure(r.begin(session(t), "Where?", nil))
		assert.Equal(t, string(turn.CodeLLMRateLimited), app.Type())
	})
	t.Run("fallback", func(t *testing.T) {
		t.Parallel()
		r := newEnv(t, byModel(map[string]fakellm.Script{"first": refusedFor("50"), "second": fakellm.Text("here")}),
			fallingBack, waitsForLimit)
		r.work()
		assert.Equal(t, "here", r.ask(session(t), "Where?").Answer)
		assert.Equal(t, map[string]int{"first": 1, "second": 1}, r.asked(), "it is not asked again before its reset")
	})
}
