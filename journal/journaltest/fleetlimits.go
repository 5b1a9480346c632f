package journaltest

import (
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/everturn/everturn/journal"
	"github.com/everturn/everturn/journal/fleet"
)

// lease asks for one request of 100 tokens per scope list, on behalf of a worker.
func lease(t *testing.T, db *journal.DB, worker string, in fleet.CapacityInput, scopes ...string) []*fleet.Refusal {
	t.Helper()
	in.Worker = worker
	in.Requests = []fleet.CapacityRequest{{Scopes: scopes, Tokens: 100}}
	return must(db.LeaseCapacity(t.Context(), in))(t).Refusals
}

// fleetLimitsShared sets limits in one process that another one obeys.
func fleetLimitsShared(t *testing.T, a, b *journal.DB) {
	ctx := t.Context()
	none := fleet.CapacityInput{}
	assert.Nil(t, lease(t, a, "a", none, "openai", "openai/m", "tenant:x")[0])
	assert.Empty(t, must(a.FleetScopes(ctx))(t), "without limits nothing is counted")

	require.NoError(t, a.SetFleetLimits(ctx, "openai", fleet.Limits{fleet.LimitTokensPerMinute: 150}))
	assert.Nil(t, lease(t, a, "a", none, "openai")[0])
	refusal := lease(t, b, "b", none, "openai")[0]
	require.NotNil(t, refusal)
	assert.Equal(t, fleet.LimitTokensPerMinute, refusal.Limit)
	assert.Greater(t, refusal.Retry, 50*time.Second)

	defaults := fleet.CapacityInput{Defaults: map[string]fleet.Limits{
		"openai": {fleet.LimitTokensPerMinute: 1}, "tenant:x": {fleet.LimitTokensPerDay: 150}}}
	require.NoError(t, b.SetFleetLimits(ctx, "openai", fleet.Limits{fleet.LimitTokensPerMinute: 1000}))
	assert.Nil(t, lease(t, a, "a", defaults, "openai", "tenant:x")[0], "what is set replaces the default")
	refusal = lease(t, b, "b", defaults, "openai", "tenant:x")[0]
	require.NotNil(t, refusal)
	assert.True(t, refusal.Final)
	assert.Equal(t, "tenant:x", refusal.Scope)
	require.NoError(t, b.SetFleetLimits(ctx, "openai", fleet.Limits{fleet.LimitTokensPerMinute: -1}))
	assert.Nil(t, lease(t, a, "a", none, "openai")[0], "the limit is gone")
	require.Error(t, a.SetFleetLimits(ctx, "", nil))
}

// fleetPause pauses a scope in one process, and a pause ends by itself.
func fleetPause(t *testing.T, a, b *journal.DB) {
	ctx, none := t.Context(), fleet.CapacityInput{}
	p := must(a.PauseScope(ctx, "openai", "ann", "maintenance", time.Hour))(t)
	refusal := lease(t, b, "b", none, "openai")[0]
	require.NotNil(t, refusal)
	assert.Equal(t, p, *refusal.Pause)
	assert.True(t, must(b.ResumeScope(ctx, "openai"))(t))
	assert.False(t, must(b.ResumeScope(ctx, "openai"))(t))
	assert.Nil(t, lease(t, a, "a", none, "openai")[0])
	_ = must(a.PauseScope(ctx, "openai", "ann", "", time.Millisecond))(t)
	require.Eventually(t, func() bool { return lease(t, b, "b", none, "openai")[0] == nil }, followTimeout,
		time.Millisecond)

	_ = must(a.LeaseCapacity(ctx, fleet.CapacityInput{RetryAfter: map[string]time.Duration{"openai/m": time.Hour}}))(t)
	assert.Equal(t, fleet.LimitRetryAfter, lease(t, b, "b", none, "openai", "openai/m")[0].Limit)
	assert.True(t, must(b.ResumeScope(ctx, "openai/m"))(t))
	assert.Nil(t, lease(t, b, "b", none, "openai", "openai/m")[0])
}

// fleetInFlight counts the requests in flight of two processes.
func fleetInFlight(t *testing.T, a, b *journal.DB) {
	ctx := t.Context()
	require.NoError(t, a.SetFleetLimits(ctx, "openai", fleet.Limits{fleet.LimitInFlight: 2}))
	none, one := fleet.CapacityInput{}, fleet.CapacityInput{InFlight: map[string]int64{"openai": 1}}
	assert.Nil(t, lease(t, a, "a", none, "openai")[0])
	assert.Nil(t, lease(t, b, "b", none, "openai")[0])
	assert.NotNil(t, lease(t, b, "b", one, "openai")[0])
	assert.NotNil(t, lease(t, a, "a", one, "openai")[0])
	_ = must(a.LeaseCapacity(ctx, fleet.CapacityInput{Worker: "a", InFlight: map[string]int64{"openai": 0}}))(t)
	assert.Nil(t, lease(t, b, "b", one, "openai")[0])
}

// fleetRace asks from many goroutines of two processes at once.
func fleetRace(t *testing.T, a, b *journal.DB) {
	require.NoError(t, a.SetFleetLimits(t.Context(), "tenant:y", fleet.Limits{fleet.LimitRequestsPerMinute: 7}))
	var mu sync.Mutex
	var group sync.WaitGroup
	granted := 0
	for i := range 20 {
		group.Go(func() {
			if refusals := lease(t, []*journal.DB{a, b}[i%2], "w", fleet.CapacityInput{}, "openai",
				"tenant:y"); refusals[0] == nil {
				mu.Lock()
				granted++
				mu.Unlock()
			}
		})
	}
	group.Wait()
	assert.Equal(t, 7, granted)
}
