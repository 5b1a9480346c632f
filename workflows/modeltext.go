package workflows

import (
	"fmt"
	"strings"

	"github.com/everturn/everturn/workflows/turn"
)

// The functions in this file return the texts that the model gets for calls without a result of their tool.

// modelText returns the model's text for a call that ended with err. outcome is the outcome that outcomeOf derives from
// err.
func modelText(c *callState, tool turn.Tool, outcome turn.Outcome, err error) string {
	switch {
	case outcome != turn.OutcomeUnknown:
		return message(err)
	case tool.Repeatable && c.reached > 1:
		return fmt.Sprintf("Outcome unknown: %s. The call was made up to %d times, and each may or may not have taken effect. "+
			"Check before you try again.", strings.TrimSuffix(message(err), "."), c.reached)
	}
	return "Outcome unknown: " + strings.TrimSuffix(message(err), ".") +
		". The call may or may not have taken effect, and it was not repeated. Check before you try again."
}

// reachedText returns the model's text for a call whose last attempt failed without effect, but that an earlier attempt
// may have carried out.
func reachedText(c *callState, err error) string {
	why := strings.TrimSuffix(message(err), ".")
	if c.reached == 0 { // an earlier attempt was suspended by an elicitation
		return "Outcome unknown: the tool's server had requested input and did not get it: " + why +
			". The call may have taken effect in part. Check before you try again."
	}
	return "Outcome unknown: the call was made, and its end is not known; it may or may not have taken effect. It was " +
		"tried again, " +
		"without success: " + why + ". Check before you try again."
}

// denialText returns the model's text for a call that was denied or whose approval expired.
func denialText(decision turn.Decision) string {
	if decision.Status == turn.StatusExpired {
		return "not run: it needed an approval, which did not come in time; do not try again unless the user asks for it"
	}
	text := "not run: the user denied it"
	if decision.Reason != "" {
		text += ": " + decision.Reason
	}
	return text + "; do not try again unless the user asks for it"
}

// recoveredText returns the model's text for servers that are available again.
func recoveredText(servers []string) string {
	quoted := make([]string, len(servers))
	for i, s := range servers {
		quoted[i] = fmt.Sprintf("%q", s)
	}
	return "Available again, with their tools: tool server " + strings.Join(quoted, ", ") + "."
}
