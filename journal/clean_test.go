package journal

import (
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/everturn/everturn/workflows/turn"
)

// TestAnUnknownGrantPermitsNothing checks that the widest grant of a request that another program wrote is not read as
// the widest that there is.
func TestAnUnknownGrantPermitsNothing(t *testing.T) {
	for scope, want := range map[turn.GrantScope]turn.GrantScope{
		"narrower": turn.GrantNever, turn.GrantNever: turn.GrantNever, turn.GrantCall: turn.GrantCall, turn.GrantTool: "", "": "",
	} {
		r := CleanRequest(turn.Request{Kind: turn.RequestApproval, MaxGrant: scope})
		assert.Equal(t, want, r.MaxGrant, "of %q", scope)
		assert.Equal(t, r, CleanRequest(r))
	}
}

func TestPreviewCutsBetweenRunes(t *testing.T) {
	for _, c := range []struct {
		text  string
		limit int
		want  string
	}{{"abc", 3, "abc"}, {"abcd", 3, "abc"}, {"aé", 2, "a"}, {"€€", 5, "€"}, {"€", 2, ""}, {"", 0, ""},
		{"a", 0, ""}} {
		assert.Equal(t, c.want, preview(c.text, c.limit), "%q %d", c.text, c.limit)
	}
}
