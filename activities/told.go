package activities

import (
	"fmt"
	"strings"

	"github.com/everturn/everturn/workflows/turn"
)

// maxToldTools bounds the tools that limitsPrompt names in one list.
const maxToldTools = 40

// limitsPrompt returns the part of the system prompt that tells the model the limits of a turn and which of its tools
// need approvals. It is empty for a turn without tools. It depends on the configuration and the user's message alone,
// and not on what is left of the limits, so that the turns of a session have the same prompt prefix.
func limitsPrompt(l turn.Limits, policy turn.Policy, descriptors []turn.Descriptor) string {
	if len(descriptors) == 0 {
		return ""
	}
	var b strings.Builder
	fmt.Fprintf(&b, "\n\nA turn has at most %d steps (your completions), %d tool calls and %s of work", l.MaxSteps,
		l.MaxToolCalls, l.TurnTimeout)
	if l.MaxTokens > 0 {
		fmt.Fprintf(&b, ", and %d tokens", l.MaxTokens)
	}
	fmt.Fprintf(&b, ". The same calls with the same results %d times in a row end it. Answer before a limit does.",
		turn.MaxRepeats)
	var all, some []string
	for _, d := range descriptors {
		switch always, sometimes := policy.Asks(d.Pinned()); {
		case always:
			all = append(all, d.Wire)
		case sometimes:
			some = append(some, d.Wire)
		}
	}
	if len(all) > 0 {
		b.WriteString(" The user must approve each call of " + listed(all) + ".")
	}
	if len(some) > 0 {
		b.WriteString(" Depending on the arguments, the user must approve calls of " + listed(some) + ".")
	}
	return b.String()
}

// listed joins the first maxToldTools names.
func listed(names []string) string {
	if more := len(names) - maxToldTools; more > 0 {
		return fmt.Sprintf("%s and %d other tools", strings.Join(names[:maxToldTools], ", "), more)
	}
	return strings.Join(names, ", ")
}
