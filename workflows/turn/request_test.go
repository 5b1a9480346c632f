package turn_test

import (
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/everturn/everturn/workflows/turn"
)

func TestAGrantCoversOnlyWhatItWouldHaveAllowed(t *testing.T) {
	given := turn.Request{ID: "1.0", Kind: turn.RequestApproval, Tool: "x", ArgumentsHash: "a", Risk: turn.RiskLow}
	with := func(change func(*turn.Request)) turn.Request {
		other := given
		other.ID = "1.1"
		change(&other)
		return other
	}
	for name, c := range map[string]struct {
		other      turn.Request
		call, tool bool
	}{
		"the same arguments":      {with(func(*turn.Request) {}), true, true},
		"other arguments":         {with(func(w *turn.Request) { w.ArgumentsHash = "b" }), false, true},
		"a rule about arguments":  {with(func(w *turn.Request) { w.MaxGrant = turn.GrantCall }), true, false},
		"a rule about every call": {with(func(w *turn.Request) { w.MaxGrant = turn.GrantNever }), false, false},
		"another tool":            {with(func(w *turn.Request) { w.Tool = "y" }), false, false},
		"another risk":            {with(func(w *turn.Request) { w.Risk = turn.RiskHigh }), false, false},
		"a question":              {with(func(w *turn.Request) { w.Kind = turn.RequestQuestion }), false, false},
		"the call with the grant": {given, false, false},
	} {
		assert.Equal(t, c.call, given.Covers(turn.GrantCall, c.other), name)
		assert.Equal(t, c.tool, given.Covers(turn.GrantTool, c.other), name)
		assert.False(t, given.Covers("", c.other), name)
	}
}
