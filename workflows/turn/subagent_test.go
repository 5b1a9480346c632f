package turn

import (
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// TestSharesNeverExceedWhatWasGranted spends the budgets of 1,000 random trees of agents. Each agent uses up to what it
// has left between its steps, and hands shares of it to its children; what they leave is its own again.
func TestSharesNeverExceedWhatWasGranted(t *testing.T) {
	t.Parallel()
	for seed := range uint64(1000) {
		rng := rand.New(rand.NewPCG(seed, 15))
		l := DefaultLimits()
		l.MaxCostUSD = float64(1+rng.IntN(100_000)) / 100_000
		l.MaxTokens = int64(rng.IntN(3)) * (1 + rng.Int64N(1_000_000))
		spendTree(t, rng, l, 3)
	}
}

// spendTree lets an agent and those below it spend, and returns what all of them have spent.
func spendTree(t *testing.T, rng *rand.Rand, l Limits, depth int) Usage {
	t.Helper()
	c := Counters{}
	for range 1 + rng.IntN(3) {
		if CheckInferenceLimits(l, c) != nil {
			break
		}
		left := *l.MaxCost() - c.Total().Cost
		u := Usage{Cost: USD(rng.Int64N(int64(left) + 1))}
		if l.MaxTokens > 0 {
			u.InputTokens = rng.Int64N(l.MaxTokens - c.Total().Total() + 1)
		}
		c.Usage = c.Usage.Add(u)
		n := rng.IntN(5)
		if n == 0 || depth == 0 {
			continue
		}
		share, ok := ShareOf(l, c, n)
		if !ok {
			continue
		}
		for range n {
			own := DefaultLimits()
			own.MaxTokens, own.MaxCostUSD = share.Tokens, share.Cost.Dollars()
			require.Equal(t, *share.Cost, *own.MaxCost(), "a share is granted to the picodollar")
			own.MaxCostUSD /= float64(1 + rng.IntN(2)) // the agent's own limit may be lower
			if own.MaxCost() == nil || *own.MaxCost() < 1 {
				continue
			}
			c.Delegated = c.Delegated.Add(spendTree(t, rng, own, depth-1))
		}
	}
	require.LessOrEqual(t, c.Total().Cost, *l.MaxCost())
	if l.MaxTokens > 0 {
		require.LessOrEqual(t, c.Total().Total(), l.MaxTokens)
	}
	return c.Total()
}

func TestNothingLeftIsNoShare(t *testing.T) {
	t.Parallel()
	l := DefaultLimits()
	l.MaxTokens = 100
	_, ok := ShareOf(l, Counters{Usage: Usage{InputTokens: 98}}, 3)
	assert.False(t, ok, "a share of 0 would be unlimited")
	l.MaxTokens, l.MaxCostUSD = 0, 0.5
	_, ok = ShareOf(l, Counters{Delegated: Usage{Cost: Dollar / 2}}, 1)
	assert.False(t, ok)
	share, ok := ShareOf(DefaultLimits(), Counters{Busy: 80 * time.Second}, 2)
	assert.True(t, ok)
	assert.Nil(t, share.Cost)
	assert.Equal(t, 10*time.Second, share.Timeout, "children share the time, because they run at the same time")
}

func TestOnlyCallsHaveChildSessions(t *testing.T) {
	t.Parallel()
	id, call, ok := ParentCall(ChildSession("0190-a", "12.3"))
	assert.True(t, ok)
	assert.Equal(t, "0190-a", id)
	assert.Equal(t, "12.3", call)
	for _, s := range []string{"", "agent/", "agent/a", "agent/a/1", "agent/a/b/1.0", "agent/a/1.0/x", "x/a/1.0",
		"agent//1.0"} {
		_, _, ok := ParentCall(s)
		assert.False(t, ok, s)
	}
	narrow := Limits{MaxSteps: 5, MaxTokens: 10}.Narrow(Limits{MaxSteps: 3, MaxCostUSD: 1})
	assert.Equal(t, Limits{MaxSteps: 3, MaxTokens: 10, MaxCostUSD: 1}, narrow)
}
