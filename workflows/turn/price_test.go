package turn_test

import (
	"encoding/json"
	"math"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/everturn/everturn/workflows/turn"
)

func TestAmountsInDollarsAreExact(t *testing.T) {
	for amount, text := range map[turn.USD]string{
		0: "0", 1: "0.000000000001", -1: "-0.000000000001", turn.Dollar: "1", 1_250_000: "0.00000125",
		12*turn.Dollar + turn.Dollar/2: "12.5", math.MaxInt64: "9223372.036854775807", math.MinInt64: "-9223372.036854775808",
	} {
		b, err := json.Marshal(amount)
		require.NoError(t, err)
		require.Equal(t, text, string(b))
		var back turn.USD
		require.NoError(t, json.Unmarshal(b, &back))
		require.Equal(t, amount, back)
	}
	for _, bad := range []string{`"x"`, `1e300`, `9300000`, `null1`, `{}`} {
		require.Error(t, json.Unmarshal([]byte(bad), new(turn.USD)), bad)
	}
}

func TestCostsFollowTheTierOfTheInput(t *testing.T) {
	p := turn.Price{Rates: turn.Rates{Input: 2_000_000, CachedInput: 500_000, CacheWrite: 2_500_000, Output: 8_000_000},
		Tiers: []turn.Tier{{Above: 1000, Rates: turn.Rates{Input: 4_000_000, Output: 12_000_000}}}}
	u := turn.Usage{InputTokens: 1000, CachedTokens: 600, CacheWriteTokens: 100, OutputTokens: 10, ReasoningTokens: 9}
	require.Equal(t, turn.USD(300*2_000_000+600*500_000+100*2_500_000+10*8_000_000), p.Cost(u))
	require.Equal(t, turn.USD(1001*4_000_000), p.Cost(turn.Usage{InputTokens: 1001}))
}

func TestAmountsForDisplay(t *testing.T) {
	for amount, text := range map[turn.USD]string{
		0: "$0.00", turn.Dollar: "$1.00", turn.Dollar / 100: "$0.01", turn.Dollar / 1000 * 3: "$0.0030", 1_250_000: "$0.0000013",
	} {
		require.Equal(t, text, amount.String())
	}
}
