package workflows

import (
	"fmt"
	"strings"

	"github.com/everturn/everturn/workflows/turn"
)

// The texts that the model gets for calls that have no result of their own.

// told returns the model's text for a call that ended with an error.
func told(outcome turn.Outcome, err error) string {
	if outcome == turn.OutcomeUnknown {
		return "Outcome unknown: " + message(err) + ". The call may or may not have taken effect, and it was not repeated. Check before you try again."
	}
	return message(err)
}

// toldOpen returns the model's text for a call whose last dispatch did nothing, although an earlier one may have.
func toldOpen(f *flight, err error) string {
	why := strings.TrimSuffix(message(err), ".")
	if !f.reached {
		return "Outcome unknown: the tool's server had asked for something, and did not get the answer: " + why +
			". What it had done until then is not known. Check before you try again."
	}
	return "Outcome unknown: the call was made, and how that ended is not known; it may or may not have taken effect. It was tried again, " +
		"without success: " + why + ". Check before you try again."
}

// refusal returns the model's text for a call that was denied or whose approval expired.
func refusal(decision turn.Decision) string {
	if decision.Status == turn.StatusExpired {
		return "not run: it needs a person's approval, and nobody gave it in time; do not try again unless the user asks for it"
	}
	text := "not run: the user denied it"
	if decision.Reason != "" {
		text += ": " + decision.Reason
	}
	return text + "; do not try again unless the user asks for it"
}

// toldBack returns the model's text for servers that are available again.
func toldBack(servers []string) string {
	quoted := make([]string, len(servers))
	for i, s := range servers {
		quoted[i] = fmt.Sprintf("%q", s)
	}
	return "Available again, with their tools: tool server " + strings.Join(quoted, ", ") + "."
}
