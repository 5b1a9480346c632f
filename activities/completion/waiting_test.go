package completion

import (
	"errors"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/everturn/everturn/activities/attempt"
	"github.com/everturn/everturn/internal/outage"
	"github.com/everturn/everturn/workflows"
	"github.com/everturn/everturn/workflows/turn"
)

// TestAProvidersWordsStayInTheirSession checks that what a provider told one session is not told to another one: it may
// repeat what it was sent.
func TestAProvidersWordsStayInTheirSession(t *testing.T) {
	e := &turn.Error{Code: turn.CodeLLMTransport, Message: "no: the secret plan", Status: http.StatusBadGateway,
		RetryAfter: time.Hour}
	o := outage.New(time.Minute)
	o.Insist("k").Down(refusedRequest{"tenant", "one", e}, 0)
	seen := o.Look("k", false).Outage
	own := lastError(seen, workflows.InferInput{Tenant: "tenant", Session: "one"})
	assert.Equal(t, e.Message, own.Message)
	assert.Zero(t, own.RetryAfter)
	for _, in := range []workflows.InferInput{{Tenant: "tenant", Session: "two"}, {Tenant: "other", Session: "one"}} {
		other := lastError(seen, in)
		assert.NotContains(t, other.Message, "secret")
		assert.Equal(t, []any{e.Code, e.Status}, []any{other.Code, other.Status})
	}
	assert.True(t, errors.Is(refusedRequest{err: e}, e))
}

// TestTheEndOfAWaitIsNotTheProvidersWish checks that a wait that is over is not said to be what the provider asked for.
func TestTheEndOfAWaitIsNotTheProvidersWish(t *testing.T) {
	now, m := time.Now(), modelInUse{retryFor: 20 * time.Second}
	w := attempt.ModelWait{Since: now.Add(-20*time.Second - time.Millisecond)}
	e := &turn.Error{Code: turn.CodeLLMTransport, Message: "no"}
	assert.Equal(t, "no; waited 20s, which is retry_for", gaveUpWaiting(e, m, w, 3, now))
	e.RetryAfter = time.Hour
	w.Since = now
	assert.Contains(t, gaveUpWaiting(e, m, w, 1, now), "later than retry_for")
}

// TestAPromptOnWhichItsProviderFailsIsSentEverLessOften checks an inference whose provider fails on its prompt and
// answers all others: its pauses grow although each answer to another session ends the outage.
func TestAPromptOnWhichItsProviderFailsIsSentEverLessOften(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := &Runner{outages: outage.New(maxModelPause)}
		clock, began := attempt.StartClock(t.Context()), time.Now()
		for range 16 {
			try, away := a.outages.Begin("k", false)
			for away != nil {
				time.Sleep(away.For)
				try, away = a.outages.Begin("k", false)
			}
			failed := &turn.Error{Code: turn.CodeLLMTransport, Status: http.StatusInternalServerError}
			time.Sleep(a.noteFailure(t.Context(), workflows.InferInput{}, try, 0, failed, clock, time.Now()))
			a.outages.Insist("k").Up()
		}
		assert.Greater(t, time.Since(began), 40*time.Second, "without growing pauses it takes at most 2 s for each")
	})
}
