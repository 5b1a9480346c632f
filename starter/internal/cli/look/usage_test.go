package look

import (
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/everturn/everturn/client"
	"github.com/everturn/everturn/workflows/turn"
)

func TestACostHasOneQualifier(t *testing.T) {
	const cost = 6 * turn.Dollar
	for want, u := range map[string]turn.Usage{
		cost.String():               {InputTokens: 1, Cost: cost},
		"about " + cost.String():    {InputTokens: 1, Cost: cost, Estimated: true},
		"at least " + cost.String(): {InputTokens: 1, Cost: cost, Estimated: true, Unpriced: true},
		"unknown":                   {InputTokens: 1, Estimated: true, Unpriced: true},
	} {
		cells := usageCells(client.UsageRow{Usage: u})
		assert.Equal(t, want, cells[len(cells)-1])
	}
}
