package ui

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/dustin/go-humanize"
	"github.com/dustin/go-humanize/english"

	"github.com/everturn/everturn/starter/internal/ui/termsafe"
	"github.com/everturn/everturn/workflows/turn"
)

// Count returns a count with its noun, in the singular or the plural.
func Count(n int, noun string) string { return english.Plural(n, noun, "") }

// Withdrawn is shown when an interrupted inference starts again: the text that it has streamed so far is void.
const Withdrawn = "the inference was interrupted and starts again; its text so far is withdrawn"

// Failure describes why an inference failed, and adds that it is retried. It does not add that for a completion that is
// not a valid action, because such a completion may end the turn.
func Failure(why string, code turn.Code) string {
	why = strings.TrimSuffix(termsafe.Line(why, 300), ".")
	if code == turn.CodeInvalidAction {
		return why
	}
	return why + "; retrying"
}

// Waiting describes the wait of an inference for its provider: the reason why, and the times of the next attempt and of
// the end of the wait. at is the time of the event w.
func Waiting(why string, at time.Time, w turn.WaitingEvent) string {
	status := ""
	if w.Status != 0 && !strings.Contains(why, strconv.Itoa(w.Status)) {
		status = fmt.Sprintf(" (%d)", w.Status)
	}
	end := at.Add(time.Duration(w.LimitMS-w.WaitedMS) * time.Millisecond)
	return fmt.Sprintf("waiting for %s: %s%s · next attempt %s · gives up %s", termsafe.Line(w.Provider, 40),
		strings.TrimSuffix(termsafe.Line(why, 300), "."), status, w.NextAt.Local().Format(time.TimeOnly),
		end.Local().Format(time.TimeOnly))
}

// Tokens describes the number of tokens that were used, in and out. It adds how many input tokens came from the
// provider's cache and how many output tokens were reasoning.
func Tokens(u turn.Usage) string {
	including := func(part int64, what string) string {
		if part == 0 {
			return ""
		}
		return fmt.Sprintf(" (%s %s)", humanize.Comma(part), what)
	}
	return fmt.Sprintf("%s in%s, %s out%s", Count(int(u.InputTokens), "token"), including(u.CachedTokens, "cached"),
		humanize.Comma(u.OutputTokens), including(u.ReasoningTokens, "reasoning"))
}

// Cost describes what the tokens cost, or is empty if there were none.
func Cost(u turn.Usage) string {
	cost := u.DescribeCost()
	if cost == "unknown" {
		return "cost unknown"
	}
	return cost
}

// Usage describes the tokens that were used, and their cost.
func Usage(u turn.Usage) string {
	text := Tokens(u)
	if u.Estimated {
		text += " (estimated)"
	}
	if cost := Cost(u); cost != "" {
		text += " · " + cost
	}
	return text
}

// Totals describes how many steps and tool calls a turn took, and its usage.
func Totals(steps, calls int, u turn.Usage) string {
	return fmt.Sprintf("%s · %s · %s", Count(steps, "step"), Count(calls, "tool call"), Usage(u))
}

// IsNotice reports whether a message with the user's role is a notice of the system about a late result. User messages
// have no step.
func IsNotice(m turn.Message) bool {
	return m.Role == turn.RoleUser && m.Step > 0 && strings.HasPrefix(m.ID, "late:")
}

// CutShortNote returns a note why an assistant message is only the beginning of an answer, or "" if the message is
// complete.
func CutShortNote(m turn.Message) string {
	switch {
	case m.Role != turn.RoleAssistant || m.Outcome == "":
		return ""
	case m.Outcome == turn.OutcomeCancelled:
		return "(interrupted: the turn was stopped)"
	}
	return "(cut off: the turn ended)"
}
