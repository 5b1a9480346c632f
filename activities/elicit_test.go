package activities

import (
	"context"
	"encoding/json"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/everturn/everturn/workflows/turn"
)

// TestAWorkerHasABoundedNumberOfWaitingCalls checks that a server gets a cancel, and no user is asked, while half of the
// worker's slots wait already.
func TestAWorkerHasABoundedNumberOfWaitingCalls(t *testing.T) {
	for slots, most := range map[int]int64{1: 0, 3: 1, 100: maxWaitingCalls} {
		a, err := New(Options{Slots: slots})
		require.NoError(t, err)
		require.True(t, a.waitingCalls.TryAcquire(most))
		e := &elicitor{Activities: a, ctx: t.Context(), left: time.Hour}
		response := e.elicit(turn.Elicitation{Key: "1", Message: "?"}, nil)
		assert.Equal(t, turn.ElicitationResponse{Key: "1", Action: turn.ElicitationCancel}, response)
		assert.False(t, e.hasAsked())
	}
}

// failing is a tool host whose tool returns an error.
type failing struct{}

func (failing) Check(turn.Descriptor, json.RawMessage) error { return nil }

func (failing) Call(context.Context, turn.ToolRequest) (turn.ToolResult, error) {
	return turn.ToolResult{Outcome: turn.OutcomeError, Text: "no"}, nil
}

// TestACallThatHasAskedIsNotRepeatedAfterItsError checks that a call whose server has asked the user is settled if it
// fails, because another attempt would ask again.
func TestACallThatHasAskedIsNotRepeatedAfterItsError(t *testing.T) {
	for _, asked := range []bool{false, true} {
		db, in := claimable(t)
		a, err := New(Options{Journal: db, Tools: failing{}})
		require.NoError(t, err)
		allowed(a, in)
		in.Attempt, in.RetryIfError = 1, true
		e := &elicitor{}
		e.asked.Store(asked)
		receipt, err := a.callTool(t.Context(), in, startClock(t.Context()), e)
		if !asked {
			assert.Equal(t, turn.CodeToolFailed, turn.CodeOf(err), "the workflow attempts it again")
			continue
		}
		require.NoError(t, err)
		assert.Equal(t, turn.OutcomeError, receipt.Outcome)
	}
}
