package chat

import (
	"fmt"
	"strings"
	"time"

	"github.com/everturn/everturn/starter/internal/ui/terminal"
	"github.com/everturn/everturn/workflows/turn"
)

// entryKind is the kind of a printed entry.
type entryKind int

const (
	entryNote   entryKind = iota // a note by the chat itself
	entrySaid                    // a user message that was sent from here
	entryOther                   // a user message that was sent elsewhere
	entryCall                    // a tool call that ended
	entryRuled                   // a decision on a request
	entryBlock                   // a block of an answer
	entryEnd                     // how a turn ended
	entryFault                   // an error
	entryBarred                  // an elicitation, each line behind a bar
	entryLink                    // an address, which the terminal itself breaks, so that it can be copied whole
)

// entry is something that is printed. The model keeps its source for a while, to lay it out again after a resize.
type entry struct {
	kind  entryKind
	text  string
	block block
	// gap puts a blank line before the entry.
	gap bool
}

// lines lays out an entry.
func (e entry) lines(p palette, m *markdown) []string {
	var out []string
	width := m.width
	switch e.kind {
	case entryBlock:
		out = m.render(e.block)
	case entrySaid:
		out = p.marked("› ", e.text, width)
	case entryOther:
		out = p.marked("» ", e.text, width)
	case entryBarred:
		out = p.barred(e.text, width)
	case entryLink:
		out = []string{terminal.Line(e.text, maxLine)}
	case entryFault:
		out = p.paintLines(red, wrapText(terminal.Printable(e.text), width))
	default:
		out = p.paintLines(dim, wrapText(terminal.Printable(e.text), width))
	}
	if e.gap {
		out = append([]string{""}, out...)
	}
	return out
}

// marked lays out a text with a mark before its first line, and indents the other lines.
func (p palette) marked(mark, text string, width int) []string {
	if width < narrow {
		mark = ""
	}
	indent := len([]rune(mark))
	lines := p.paintLines(bold, wrapText(terminal.Printable(text), width-indent))
	for i, line := range lines {
		switch {
		case i == 0:
			lines[i] = mark + line
		case line != "":
			lines[i] = strings.Repeat(" ", indent) + line
		}
	}
	return lines
}

// barred lays out a text behind a bar, so that none of its lines passes for text of the chat itself.
func (p palette) barred(text string, width int) []string {
	mark := "│ "
	if width < narrow {
		mark = ""
	}
	lines := wrapText(terminal.Printable(text), width-len([]rune(mark)))
	for i, line := range lines {
		lines[i] = mark + line
	}
	return lines
}

// previewRunes is how many runes of a call's arguments its line shows.
const previewRunes = 80

// outcomeMarks are the marks of the outcomes, to see at a glance how a call ended.
var outcomeMarks = map[turn.Outcome]string{turn.OutcomeOK: "✓", turn.OutcomeError: "✗", turn.OutcomeDenied: "✗", turn.OutcomeUnknown: "?", turn.OutcomeCancelled: "–"}

// callLine describes a call that ended, in one line.
func callLine(tool, arguments string, outcome turn.Outcome, code turn.Code, took string) string {
	mark := outcomeMarks[outcome]
	if mark == "" {
		mark = "·"
	}
	said := strings.TrimSpace(fmt.Sprintf("%s %s %s", mark, terminal.Line(tool, previewRunes), terminal.Line(arguments, previewRunes)))
	said += " · " + Ended(outcome, code)
	if outcome == turn.OutcomeUnknown {
		said += ": it may or may not have taken effect"
	}
	if took != "" {
		said += " · " + took
	}
	return said
}

// IsNotice reports whether a message with the user's role is not a user message but a notice of the system about a late
// result. User messages have no step.
func IsNotice(m turn.Message) bool {
	return m.Role == turn.RoleUser && m.Step > 0 && strings.HasPrefix(m.ID, "late:")
}

// Ended describes how a call ended. If the call did not reach its tool, it names the command that shows why.
func Ended(outcome turn.Outcome, code turn.Code) string {
	switch code {
	case "":
		return string(outcome)
	case turn.CodeToolDrift:
		return fmt.Sprintf("%s (%s: `starter tools diff` shows what is held back)", outcome, code)
	case turn.CodeToolNotSent:
		return fmt.Sprintf("%s (%s: `starter tools status` shows how its server does)", outcome, code)
	}
	return fmt.Sprintf("%s (%s)", outcome, terminal.Line(string(code), previewRunes))
}

// MediaMarks returns a short mark for each part of a result that is not text.
func MediaMarks(media []turn.Media) string {
	out := ""
	for _, m := range media {
		out += " " + terminal.Media(m.Type, m.Bytes)
	}
	return out
}

// short formats a duration for display, rounded.
func short(d time.Duration) string {
	switch {
	case d < time.Second:
		return d.Round(time.Millisecond).String()
	case d < time.Minute:
		return d.Round(100 * time.Millisecond).String()
	}
	return d.Round(time.Second).String()
}

// tokens describes the tokens that were used, and their cost.
func tokens(u turn.Usage) string {
	estimated := ""
	if u.Estimated {
		estimated = " (estimated)"
	}
	return fmt.Sprintf("%d tokens in, %d out%s · cost unknown", u.InputTokens, u.OutputTokens, estimated)
}

func plural(n int, one, many string) string {
	if n == 1 {
		return "1 " + one
	}
	return fmt.Sprintf("%d %s", n, many)
}
