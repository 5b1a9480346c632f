package tests

import (
	"encoding/json"
	"fmt"
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	enumspb "go.temporal.io/api/enums/v1"
	"go.temporal.io/sdk/client"

	"github.com/everturn/everturn/config"
	"github.com/everturn/everturn/tests/fakellm"
	"github.com/everturn/everturn/workflows"
	"github.com/everturn/everturn/workflows/turn"
)

// modelWaits returns what a turn's readers were told of waits for its models.
func (e *env) modelWaits(turnID string) (all []turn.WaitingEvent) {
	e.t.Helper()
	events, err := e.journal.Events(e.t.Context(), turnID, -1, 1000)
	require.NoError(e.t, err)
	for _, ev := range events {
		if ev.Kind == turn.EventInferenceWaiting {
			var w turn.WaitingEvent
			require.NoError(e.t, json.Unmarshal(ev.Data, &w))
			require.NotEmpty(e.t, ev.Text)
			all = append(all, w)
		}
	}
	return all
}

func tooMany() fakellm.Reply {
	return fakellm.Status(http.StatusTooManyRequests, "rate_limit", "slow down")
}

// until answers with bad until a time, and then with good.
func until(end *time.Time, bad, good fakellm.Reply) fakellm.Script {
	return fakellm.Func(func(fakellm.Request) fakellm.Reply {
		if time.Now().Before(*end) {
			return bad
		}
		return good
	})
}

// TestTurnsWaitForTheirModelTogether: while a model is away, one of the turns that wait asks it, and when it is back,
// all go on. The wait uses no working time and adds nothing to the histories.
func TestTurnsWaitForTheirModelTogether(t *testing.T) {
	t.Parallel()
	const turns, away = 20, 8 * time.Second
	end := time.Now().Add(away)
	e := newEnv(t, until(&end, tooMany(), fakellm.Text("here")), func(c *config.Config) {
		c.Runtime.TurnTimeout = 3 * time.Second
	})
	e.work()
	first := e.begin(session(t)+" first", "Where?", nil)
	e.awaitEvent(first.GetRunID(), turn.EventInferenceWaiting)
	runs := []client.WorkflowRun{first}
	for i := range turns - 1 {
		runs = append(runs, e.begin(fmt.Sprintf("%s %d", session(t), i), "Where?", nil))
	}
	for _, run := range runs {
		res := e.result(run)
		assert.Equal(t, "here", res.Answer)
		assert.Equal(t, 1, res.Steps)
		events := e.events(run.GetID(), run.GetRunID())
		assert.Equal(t, 1, count(events, enumspb.EVENT_TYPE_ACTIVITY_TASK_STARTED))
		assert.Zero(t, count(events, enumspb.EVENT_TYPE_TIMER_STARTED))
		assert.NotEmpty(t, e.modelWaits(res.Turn))
	}
	refused, last := 0, time.Time{}
	for _, q := range e.model.Requests() {
		if q.At.Before(end) {
			refused++
		} else {
			last = q.At
		}
	}
	assert.LessOrEqual(t, refused, 15, "one asks, with growing pauses: 20 turns would ask 80 times and more")
	assert.Less(t, last.Sub(end), 15*time.Second)
}

func TestATurnThatMayNotWaitFailsAtOnce(t *testing.T) {
	t.Parallel()
	e := newEnv(t, tooMany())
	e.work()
	run := e.begin(session(t), "Where?", &workflows.LimitsRequest{RetryFor: ptr("0s")})
	app, _ := e.failure(run)
	assert.Equal(t, string(turn.CodeLLMRateLimited), app.Type())
	assert.Len(t, e.model.Requests(), 1)
}

func TestAWaitForAModelEndsAfterRetryFor(t *testing.T) {
	t.Parallel()
	e := newEnv(t, fakellm.Status(http.StatusInternalServerError, "server_error", "oops"))
	e.work()
	began := time.Now()
	app, res := e.failure(e.begin(session(t), "Where?", &workflows.LimitsRequest{RetryFor: ptr("2s")}))
	assert.Equal(t, string(turn.CodeLLMTransport), app.Type())
	assert.Contains(t, res.Message, "retry_for")
	assert.GreaterOrEqual(t, time.Since(began), 2*time.Second)
}

// TestAResetThatIsTooFarAwayEndsTheTurn: the message says when the provider accepts requests again.
func TestAResetThatIsTooFarAwayEndsTheTurn(t *testing.T) {
	t.Parallel()
	e := newEnv(t, tooMany().RetryAfter("7200"))
	e.work()
	app, res := e.failure(e.begin(session(t), "Where?", nil))
	assert.Equal(t, string(turn.CodeLLMRateLimited), app.Type())
	assert.Contains(t, res.Message, time.Now().UTC().Add(2*time.Hour).Format("2006-01-02 15:"))
	assert.Len(t, e.model.Requests(), 1)
}

func TestAFallbackTakesOverFromAModelThatIsAwayForLong(t *testing.T) {
	t.Parallel()
	e := newEnv(t, byModel(map[string]fakellm.Script{"first": tooMany(), "second": fakellm.Text("here")}),
		func(c *config.Config) {
			c.LLM.Model, c.LLM.Fallback, c.LLM.FallbackAfter = "first", []string{"openai:second"}, 2*time.Second
		})
	e.work()
	first := e.begin(session(t), "Where?", nil)
	e.awaitEvent(first.GetRunID(), turn.EventInferenceWaiting)
	second := e.begin(session(t)+" second", "Where?", nil)
	for _, run := range []client.WorkflowRun{first, second} {
		res := e.result(run)
		assert.Equal(t, "here", res.Answer)
		assert.Equal(t, "second", res.Model)
		waits := e.modelWaits(res.Turn)
		require.NotEmpty(t, waits)
		assert.InDelta(t, 2000, waits[0].LimitMS, 200)
	}
	assert.Less(t, e.asked()["first"], 8)
}

func TestAStopEndsTheWaitForAModel(t *testing.T) {
	t.Parallel()
	e := newEnv(t, tooMany().RetryAfter("50"))
	e.work()
	id := session(t)
	run := e.begin(id, "Where?", nil)
	e.awaitEvent(run.GetRunID(), turn.EventInferenceWaiting)
	began := time.Now()
	require.NoError(t, e.dialled().Stop(t.Context(), id))
	res := e.cancelledRun(run)
	assert.Equal(t, turn.StateCancelled, res.State)
	assert.Less(t, time.Since(began), 10*time.Second)
	assert.Len(t, e.model.Requests(), 1)
}

// TestStreamsThatAreCutAreRetriedFiveTimes, because their tokens are paid for.
func TestStreamsThatAreCutAreRetriedFiveTimes(t *testing.T) {
	t.Parallel()
	e := newEnv(t, fakellm.Text("one two three four").CutAfter(3), func(c *config.Config) { c.Runtime.MaxSteps = 3 })
	e.work()
	app, res := e.failure(e.begin(session(t), "Count.", nil))
	assert.Equal(t, string(turn.CodeLLMTruncated), app.Type())
	assert.Len(t, e.model.Requests(), 6)
	assert.Positive(t, res.Usage.OutputTokens, "they are counted")
}
