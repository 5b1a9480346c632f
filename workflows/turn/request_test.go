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
		"other arguments":         {with(func(r *turn.Request) { r.ArgumentsHash = "b" }), false, true},
		"a rule about arguments":  {with(func(r *turn.Request) { r.MaxGrant = turn.GrantCall }), true, false},
		"a rule about every call": {with(func(r *turn.Request) { r.MaxGrant = turn.GrantNever }), false, false},
		"another tool":            {with(func(r *turn.Request) { r.Tool = "y" }), false, false},
		"another risk":            {with(func(r *turn.Request) { r.Risk = turn.RiskHigh }), false, false},
		"a question":              {with(func(r *turn.Request) { r.Kind = turn.RequestQuestion }), false, false},
		"the call with the grant": {given, false, false},
	} {
		assert.Equal(t, c.call, given.Covers(turn.GrantCall, c.other), name)
		assert.Equal(t, c.tool, given.Covers(turn.GrantTool, c.other), name)
		assert.False(t, given.Covers("", c.other), name)
	}
}

func TestAGrantForAHostCoversItsOtherAddresses(t *testing.T) {
	at := func(id, address string, widest turn.GrantScope) turn.Request {
		return turn.Request{ID: id, Kind: turn.RequestApproval, Tool: "x", Arguments: `{"url":"` + address + `"}`,
			ArgumentsHash: id, MaxGrant: widest}
	}
	given := at("1.0", "https://a.org/1", turn.GrantHost)
	same, other := at("1.1", "https://A.org/2", turn.GrantHost), at("1.1", "https://b.org/1", turn.GrantHost)
	assert.True(t, given.Covers(turn.GrantHost, same))
	assert.False(t, given.Covers(turn.GrantHost, other))
	assert.False(t, given.Covers(turn.GrantCall, same))
	assert.False(t, given.Covers(turn.GrantTool, same))
	assert.False(t, given.Covers(turn.GrantHost, at("1.1", "https://a.org/2", turn.GrantCall)), "a rule about arguments")
	assert.False(t, at("1.0", "https://a.org/1", "").Grants(turn.GrantHost))

	grant := turn.Grant{Tool: "x", ArgumentsHash: turn.HostGrant(given.Arguments)}
	assert.True(t, grant.Covers("x", same.Arguments, "hash", turn.GrantHost))
	assert.False(t, grant.Covers("x", other.Arguments, "hash", turn.GrantHost))
	assert.False(t, grant.Covers("x", same.Arguments, "hash", turn.GrantCall))
	assert.False(t, grant.Covers("y", same.Arguments, "hash", turn.GrantHost))
	assert.False(t, turn.Grant{Tool: "x"}.Covers("x", same.Arguments, "hash", turn.GrantHost),
		"any arguments, listed hosts only")
}
