package turn

import (
	"testing"

	"github.com/stretchr/testify/assert"
)

// TestRepeatsAreStepsWithTheSameCallsAndResults changes one property of the calls at a time.
func TestRepeatsAreStepsWithTheSameCallsAndResults(t *testing.T) {
	t.Parallel()
	same, result := ToolCall{Tool: "local/x", ArgumentsHash: "a"}, "ok r"
	r := Repeats{}
	for range MaxRepeats - 1 {
		r = r.After([]ToolCall{same}, []string{result})
		assert.Nil(t, r.Check([]ToolCall{same}))
	}
	assert.Equal(t, FinishRepeatedCalls,
		r.After([]ToolCall{same}, []string{result}).Check([]ToolCall{same}).Reason)
	for name, change := range map[string]func(c *ToolCall, result *string){
		"tool":      func(c *ToolCall, _ *string) { c.Tool = "local/y" },
		"arguments": func(c *ToolCall, _ *string) { c.ArgumentsHash = "b" },
		"outcome":   func(_ *ToolCall, result *string) { *result = "error r" },
		"result":    func(_ *ToolCall, result *string) { *result = "ok s" },
	} {
		other, differs := same, result
		change(&other, &differs)
		assert.Equal(t, 1, r.After([]ToolCall{other}, []string{differs}).Steps, name)
		assert.Equal(t, 1, r.After([]ToolCall{same, other}, []string{result, differs}).Steps, name)
	}
	assert.Zero(t, r.After([]ToolCall{same}, []string{""}), "an older worker reports no hash")
}
