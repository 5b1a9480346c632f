package tests

import (
	"database/sql"
	"encoding/json"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/client"

	"github.com/everturn/everturn/config"
	"github.com/everturn/everturn/journal/fleet"
	"github.com/everturn/everturn/tests/fakellm"
	"github.com/everturn/everturn/workflows"
	"github.com/everturn/everturn/workflows/turn"
)

// limited waits until a turn says which limit it waits for.
func (e *env) limited(turnID string) (text string, wait turn.LimitWait) {
	e.t.Helper()
	require.Eventually(e.t, func() bool {
		events, err := e.journal.Events(e.t.Context(), turnID, -1, 1000)
		require.NoError(e.t, err)
		for _, ev := range events {
			var p turn.PhaseEvent
			if ev.Kind != turn.EventPhase {
				continue
			}
			require.NoError(e.t, json.Unmarshal(ev.Data, &p))
			if p.Wait != nil {
				text, wait = ev.Text, *p.Wait
			}
		}
		return text != ""
	}, time.Minute, 10*time.Millisecond)
	return text, wait
}

// TestFourWorkersHoldTheLimits starts more turns than the limits of a minute allow, and checks every second and every
// minute of the provider's own log.
func TestFourWorkersHoldTheLimits(t *testing.T) {
	if testing.Short() {
		t.Skip("it takes more than a minute, because a limit per minute does")
	}
	t.Parallel()
	const perSecond, perMinute, prompt, completion, turns = 10, 50_000, 1000, 100, 55
	e := newEnv(t, fakellm.Always(fakellm.Text("done").Usage(prompt, completion, 0)), func(c *config.Config) {
		c.ProviderLimits.TokensPerMinute = perMinute
		c.LLM.MaxOutputTokens = completion
	})
	require.NoError(t, e.journal.SetFleetLimits(t.Context(), "openai", fleet.Limits{fleet.LimitRequestsPerSecond: perSecond}))
	for range 4 {
		e.work()
	}
	var runs []client.WorkflowRun
	for i := range turns {
		runs = append(runs, e.begin(session(t)+string(rune('A'+i)), strings.Repeat("word ", prompt), nil))
	}
	for _, run := range runs {
		assert.Equal(t, turn.StateCompleted, e.result(run).State)
	}
	requests := e.model.Requests()
	for _, run := range runs {
		inferences, err := e.journal.Inferences(t.Context(), run.GetRunID())
		require.NoError(t, err)
		require.Len(t, inferences, 1)
		asked := inferences[0].Attempt - inferences[0].Released
		require.Equal(t, 1, asked, "no inference is paid twice, and none is refused: %+v", inferences[0])
	}
	require.Equal(t, turns, len(requests), "each inference is one request")
	for _, from := range requests {
		second, minute := 0, 0
		for _, other := range requests {
			if d := other.At.Sub(from.At); d >= 0 && d < time.Second {
				second++
			}
			if d := other.At.Sub(from.At); d >= 0 && d < time.Minute {
				minute += prompt + completion
			}
		}
		assert.LessOrEqual(t, second, perSecond+1, "a machine that is busy sends a request later than it was granted")
		assert.LessOrEqual(t, minute, perMinute)
	}
}

// TestARateLimitStopsAllWorkers checks that no worker sends a request before the time that the provider has told one of
// them.
func TestARateLimitStopsAllWorkers(t *testing.T) {
	t.Parallel()
	e := newEnv(t, fakellm.Cases(
		fakellm.When("first",
			fakellm.Attempts(fakellm.Status(http.StatusTooManyRequests, "rate_limit", "slow").RetryAfter("3"),
				fakellm.Text("done"))),
		fakellm.When("", fakellm.Text("done")),
	))
	e.work()
	e.work()
	runs := []client.WorkflowRun{e.begin(session(t)+" 0", "first", nil)}
	require.Eventually(t, func() bool {
		scopes, err := e.journal.FleetScopes(t.Context())
		require.NoError(t, err)
		return len(scopes) == 1 && scopes[0].Scope == "openai/scripted" && !scopes[0].NotBefore.IsZero()
	}, time.Minute, 5*time.Millisecond)
	for _, id := range []string{" 1", " 2", " 3", " 4"} {
		runs = append(runs, e.begin(session(t)+id, "later", nil))
	}
	for _, run := range runs {
		assert.Equal(t, turn.StateCompleted, e.result(run).State)
	}
	requests := e.model.Requests()
	require.Len(t, requests, 6)
	for _, later := range requests[1:] {
		assert.GreaterOrEqual(t, later.At.Sub(requests[0].At), 3*time.Second)
	}
}

// TestTheLeaseOfAKilledWorkerExpires kills a worker whose request takes all that may be in flight.
func TestTheLeaseOfAKilledWorkerExpires(t *testing.T) {
	t.Parallel()
	gate := fakellm.NewGate()
	e := newEnv(t, fakellm.Attempts(fakellm.Text("lost").Hold(1, gate), fakellm.Text("done")),
		func(c *config.Config) { c.ProviderLimits.RequestsInFlight = 1 })
	first := e.process()
	run := e.begin(session(t), "Hello.", nil)
	e.reach(gate)
	first.kill()
	e.process()
	_, wait := e.limited(run.GetRunID())
	assert.Equal(t, string(fleet.LimitInFlight), wait.Limit)
	assert.Equal(t, "done", e.result(run).Answer)
	assert.Len(t, e.model.Requests(), 2)
	inferences, err := e.journal.Inferences(t.Context(), run.GetRunID())
	require.NoError(t, err)
	assert.LessOrEqual(t, inferences[0].Attempt-inferences[0].Released, 3, "attempts that only waited do not count")
}

// TestALostLeaseCostsNoInference loses the journal's record of a request in flight, as after a worker was paused for
// long: the completion that was paid for stands.
func TestALostLeaseCostsNoInference(t *testing.T) {
	t.Parallel()
	gate := fakellm.NewGate()
	e := newEnv(t, fakellm.Text("paid").Hold(1, gate), func(c *config.Config) { c.ProviderLimits.RequestsInFlight = 1 })
	e.work()
	run := e.begin(session(t), "Hello.", nil)
	e.reach(gate)
	_, err := e.journal.PauseScope(t.Context(), "openai", "test", "", time.Hour)
	require.NoError(t, err)
	db, err := sql.Open("sqlite", "file:"+e.cfg.Journal.Path+"?_pragma=busy_timeout(10000)")
	require.NoError(t, err)
	defer db.Close()
	_, err = db.ExecContext(t.Context(), `UPDATE fleet_limits SET usage = '{}'`)
	require.NoError(t, err)
	gate.Release()
	assert.Equal(t, "paid", e.result(run).Answer)
	assert.Len(t, e.model.Requests(), 1)
}

// TestInteractiveTurnsStartWhileScheduledOnesWait checks the reserve: scheduled turns use their share of a minute, and
// another turn still starts.
func TestInteractiveTurnsStartWhileScheduledOnesWait(t *testing.T) {
	t.Parallel()
	e := newEnv(t, fakellm.Always(fakellm.Text("done")), func(c *config.Config) {
		c.ProviderLimits.RequestsPerMinute = 4
	})
	require.NoError(t, e.journal.SetFleetLimits(t.Context(), "openai", fleet.Limits{fleet.LimitReserve: 50}))
	e.work()
	var scheduled []client.WorkflowRun
	for _, id := range []string{" 1", " 2", " 3"} {
		scheduled = append(scheduled, e.start(session(t)+id,
			workflows.Input{Message: &workflows.Message{Text: "Report.", Background: true}}))
		if id != " 3" {
			e.result(scheduled[len(scheduled)-1])
		}
	}
	_, wait := e.limited(scheduled[2].GetRunID())
	assert.Equal(t, string(fleet.LimitRequestsPerMinute), wait.Limit)
	assert.Equal(t, "done", e.ask(session(t)+" me", "Hello.").Answer)
	require.Len(t, e.model.Requests(), 3, "the scheduled turn still waits")
	require.NoError(t, e.journal.SetFleetLimits(t.Context(), "openai",
		fleet.Limits{fleet.LimitRequestsPerMinute: 0}))
	assert.Equal(t, turn.StateCompleted, e.result(scheduled[2]).State)
}

func TestCLIPausesAProvider(t *testing.T) {
	t.Parallel()
	model := fakellm.Start(t, fakellm.Always(fakellm.Text("Hello.")))
	h := newUserFolder(t, asking(model))
	h.worker()
	h.everturn("run", "-s", session(t), "Hi.").exits(0)
	paused := h.everturn("limits", "pause", "openai", "--for", "1h", "--reason", "outage").exits(0)
	assert.Contains(t, paused.err.String(), "provider openai is paused until")
	assert.Contains(t, h.everturn("limits", "show").exits(0).out.String(), "outage")
	assert.Contains(t, h.everturn("doctor").exits(0).out.String(),
		"warn  limits: a turn would wait: waits for provider openai")
	run := h.begin(nil, "run", "-o", "jsonl", "-s", session(t), "Hi.")
	require.Eventually(t, func() bool {
		return strings.Contains(h.everturn("show", session(t)).exits(0).out.String(),
			"… waits for provider openai: paused by")
	}, within, 50*time.Millisecond)
	h.everturn("limits", "pause", "openai", "--for", "1s").exits(0)
	run.exits(0)
	assert.Contains(t, run.out.String(), `"limit":"pause"`)
	assert.Contains(t, run.out.String(), "(outage)")
	assert.Len(t, model.Requests(), 2)

	h.everturn("limits", "pause", "openai", "--for", "0s").exits(3)
	h.everturn("limits", "resume", "openai").exits(0)
	h.everturn("limits", "set", "openai").exits(3)
	h.everturn("limits", "set", "openai", "--tokens-per-minute", "many").exits(3)
	h.everturn("limits", "set", "tenant:", "--tokens-per-minute", "1").exits(3)
}

func TestCLILimitsATenant(t *testing.T) {
	t.Parallel()
	model := fakellm.Start(t, fakellm.Always(fakellm.Text("Hello.")))
	h := newUserFolder(t, asking(model))
	h.worker()
	h.everturn("run", "-s", session(t), "Hi.").exits(0)
	h.everturn("limits", "set", "tenant:acme", "--tokens-per-day", "100").exits(0)
	refused := h.everturn("--tenant", "acme", "run", "-s", session(t), "Hi.").exits(1)
	assert.Contains(t, refused.err.String(), "tokens_used_up")
	assert.Contains(t, refused.err.String(), "limits set tenant:acme")
	h.everturn("run", "-s", session(t)+"-other", "Hi.").exits(0)
	assert.Len(t, model.Requests(), 2)
	assert.Contains(t, h.everturn("limits", "show").exits(0).out.String(), "0 of 100 *")
	h.everturn("limits", "set", "tenant:acme", "--tokens-per-day", "default").exits(0)
	h.everturn("--tenant", "acme", "run", "-s", session(t), "Hi.").exits(0)
}
