package mcp

import (
	"context"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/everturn/everturn/workflows/turn"
)

// TestAnAbandonedCallHasNoNewUser checks that a suspended call ends only while it has no user, that nothing can use it
// afterwards, and that ending it twice is harmless.
func TestAnAbandonedCallHasNoNewUser(t *testing.T) {
	ctx, cancel := context.WithCancelCause(t.Context())
	var calls suspendedCalls
	call := calls.create(turn.ToolRequest{Turn: "t", CallID: "1.0"}, cancel)
	calls.put(call)
	leave, ok := call.enter(nil)
	assert.True(t, ok)
	call.abandonIfUnused()
	assert.NoError(t, ctx.Err(), "it is in use")
	leave()
	call.abandonTimer.Stop()
	call.abandonIfUnused()
	assert.Error(t, ctx.Err())
	_, ok = call.enter(nil)
	assert.False(t, ok)
	call.abandonIfUnused()
	call.release()
	assert.True(t, isClosed(call.kept))
}

// TestAnElicitationBesideALocalActivityIsRefused checks that an elicitation is refused if it may belong to a call that
// cannot be suspended, or if only such a call is under way.
func TestAnElicitationBesideALocalActivityIsRefused(t *testing.T) {
	local, regular := &attempt{}, &attempt{suspended: &suspendedCall{}}
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
