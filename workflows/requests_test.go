package workflows

import (
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/everturn/everturn/workflows/turn"
)

// TestADecisionOutlivesTheNextRequestOfItsStep checks that a call's decision is kept until the call has read it, even
// if another call of the step opens a request meanwhile.
func TestADecisionOutlivesTheNextRequestOfItsStep(t *testing.T) {
	var d requestSet
	first, second := turn.Request{ID: "e1.0.1", Step: 1}, turn.Request{ID: "e1.1.1", Step: 1}
	d.add(first)
	d.decide(turn.Decision{ID: first.ID, Status: turn.StatusAnswered})
	d.add(second)
	decision, ok := d.decision(first.ID)
	assert.True(t, ok)
	assert.Equal(t, turn.StatusAnswered, decision.Status)
	d.add(turn.Request{ID: "2.0", Step: 2})
	_, ok = d.decision(first.ID)
	assert.False(t, ok, "requests of earlier steps are forgotten")
}
