package activities

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/everturn/everturn/workflows/turn"
)

// TestAWorkerHasABoundedNumberOfWaitingCalls checks that a server gets a cancel, and no user is asked, while
// maxWaitingCalls calls of the worker wait already.
func TestAWorkerHasABoundedNumberOfWaitingCalls(t *testing.T) {
	a, err := New(Options{})
	require.NoError(t, err)
	require.True(t, a.waitingCalls.TryAcquire(maxWaitingCalls))
	e := &elicitor{Activities: a, ctx: t.Context(), left: time.Hour}
	response := e.elicit(turn.Elicitation{Key: "1", Message: "?"}, nil)
	assert.Equal(t, turn.ElicitationResponse{Key: "1", Action: turn.ElicitationCancel}, response)
	assert.False(t, e.hasAsked())
}
