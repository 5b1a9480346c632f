package mcp

import (
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/everturn/everturn/workflows/turn"
)

// TestAnElicitationBesideALocalActivityIsRefused checks that an elicitation is refused if it may belong to a call whose
// user cannot be asked, or if only such a call is under way.
func TestAnElicitationBesideALocalActivityIsRefused(t *testing.T) {
	local, regular := &attempt{}, &attempt{req: turn.ToolRequest{Elicit: cancelsAtEnd}}
	as := attempts{m: map[string]*attempt{"local": local}}
	_, _, err := as.onlyCandidate()
	assert.Error(t, err)
	as.m["regular"] = regular
	_, _, err = as.onlyCandidate()
	assert.Error(t, err)
	delete(as.m, "local")
	found, _, err := as.onlyCandidate()
	assert.NoError(t, err)
	assert.Same(t, regular, found)
}
