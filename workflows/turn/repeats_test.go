package turn

import (
	"testing"

	"github.com/stretchr/testify/assert"
)

// TestRepeatsAreStepsWithTheSameCallsAndResults changes one property of the calls at a time.
func TestRepeatsAreStepsWithTheSameCallsAndResults(t *testing.T) {
	t.Parallel()
	same := CallWithResult{Tool: "local/x", ArgumentsHash: "a", Outcome: OutcomeOK, ResultHash: "r"}
	r := Repeats{}
	for range MaxRepeats - 1 {
		r = r.After([]CallWithResult{same})
		assert.Nil(t, r.Check([]CallWithResult{same}))
	}
	assert.Equal(t, FinishRepeatedCalls, r.After([]CallWithResult{same}).Check([]CallWithResult{same}).Reason)
	for name, change := range map[string]func(*CallWithResult){
		"tool":      func(c *CallWithResult) { c.Tool = "local/y" },
		"arguments": func(c *CallWithResult) { c.ArgumentsHash = "b" },
		"outcome":   func(c *CallWithResult) { c.Outcome = OutcomeError },
		"result":    func(c *CallWithResult) { c.ResultHash = "s" },
	} {
		other := same
		change(&other)
		assert.Equal(t, 1, r.After([]CallWithResult{other}).Steps, name)
		assert.Equal(t, 1, r.After([]CallWithResult{same, other}).Steps, name)
	}
	unknown := same
	unknown.ResultHash = ""
	assert.Zero(t, r.After([]CallWithResult{unknown}), "an older worker reports no hash")
}
