package ui

import (
	"fmt"
	"strings"

	"github.com/dustin/go-humanize"
	"github.com/dustin/go-humanize/english"

	"github.com/everturn/everturn/starter/internal/ui/termsafe"
	"github.com/everturn/everturn/workflows/turn"
)

// Count returns a count with its noun, in the singular or the plural.
func Count(n int, noun string) string { return english.Plural(n, noun, "") }

// Withdrawn tells the user that an interrupted inference starts again, so that its text so far does not count.
const Withdrawn = "the inference was interrupted and starts again; its text so far is withdrawn"

// Retry describes a failed attempt that is repeated.
func Retry(why string) string { return strings.TrimSuffix(termsafe.Line(why, 300), ".") + "; retrying" }

// Tokens describes the tokens that were used.
func Tokens(u turn.Usage) string {
	return fmt.Sprintf("%s in, %s out", Count(int(u.InputTokens), "token"), humanize.Comma(u.OutputTokens))
}

// Usage describes the tokens that were used, and their cost.
func Usage(u turn.Usage) string {
	estimated := ""
	if u.Estimated {
		estimated = " (estimated)"
	}
	return Tokens(u) + estimated + " · cost unknown"
}

// Totals describes what a turn took.
func Totals(steps, calls int, u turn.Usage) string {
	return fmt.Sprintf("%s · %s · %s", Count(steps, "step"), Count(calls, "tool call"), Usage(u))
}

// IsNotice reports whether a message with the user's role is a notice of the system about a late result. User messages
// have no step.
func IsNotice(m turn.Message) bool {
	return m.Role == turn.RoleUser && m.Step > 0 && strings.HasPrefix(m.ID, "late:")
}
