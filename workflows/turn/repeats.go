package turn

import (
	"fmt"
	"strings"
)

// MaxRepeats is the number of steps in a row with the same calls and the same results that ends a turn, because the
// model learns nothing new from them.
const MaxRepeats = 5

// RepeatsVersion is the behavior version since which MaxRepeats bounds a turn.
const RepeatsVersion = 2

// Repeats counts the turn's latest steps whose calls and results are the same.
type Repeats struct {
	Calls string `json:"calls,omitempty"` // the hash of the calls and their results; empty means unknown
	Steps int    `json:"steps,omitempty"`
}

// After returns the count after another step, which made calls, at least one. results has the outcome of each call and
// a hash of its result. If a result is unknown (empty), the count begins again.
func (r Repeats) After(calls []ToolCall, results []string) Repeats {
	var b strings.Builder
	for i, c := range calls {
		if results[i] == "" {
			return Repeats{}
		}
		fmt.Fprintf(&b, "%q %s %s\n", c.Tool, c.ArgumentsHash, results[i])
	}
	hash := HashText(b.String())
	if hash != r.Calls {
		return Repeats{Calls: hash, Steps: 1}
	}
	return Repeats{Calls: hash, Steps: r.Steps + 1}
}

// Check returns the result of a turn after MaxRepeats equal steps, or nil. calls are those of the last step.
func (r Repeats) Check(calls []ToolCall) *Result {
	if r.Steps < MaxRepeats {
		return nil
	}
	what := "call of " + calls[0].Tool
	if len(calls) > 1 {
		what = fmt.Sprintf("%d calls, the first of %s,", len(calls), calls[0].Tool)
	}
	return &Result{State: StateCompleted, Reason: FinishRepeatedCalls, Code: CodeLimitExceeded,
		Message: fmt.Sprintf("the model made the same %s with the same result %d times in a row. What was done is kept; ask "+
			"again in other words to go on.", what, r.Steps)}
}
