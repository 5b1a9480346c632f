package chat

import (
	"strings"

	"github.com/everturn/everturn/starter/internal/ui/termsafe"
)

// entryKind is the kind of a printed entry.
type entryKind int

const (
	entryNote     entryKind = iota // a note by the chat itself
	entryOwn                       // a user message that was sent from here
	entryOther                     // a user message that was sent elsewhere
	entryCall                      // a tool call that ended
	entryDecision                  // a decision on a request
	entryBlock                     // a block of an answer
	entryEnd                       // how a turn ended
	entryFault                     // an error
	entryBarred                    // an elicitation, each line behind a bar
	entryLink                      // an address, which the terminal itself breaks, so that it can be copied whole
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
	case entryOwn:
		out = p.marked("› ", e.text, width)
	case entryOther:
		out = p.marked("» ", e.text, width)
	case entryBarred:
		out = p.barred(e.text, width)
	case entryLink:
		out = []string{termsafe.Line(e.text, maxLine)}
	case entryFault:
		out = p.paintLines(red, wrapText(termsafe.Printable(e.text), width))
	default:
		out = p.paintLines(dim, wrapText(termsafe.Printable(e.text), width))
	}
	if e.gap {
		out = append([]string{""}, out...)
	}
	return out
}

// marked lays out a text with a mark before its first line, and indents the other lines.
func (p palette) marked(mark, text string, width int) []string {
	if width < narrowColumns {
		mark = ""
	}
	indent := len([]rune(mark))
	lines := p.paintLines(bold, wrapText(termsafe.Printable(text), width-indent))
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
	if width < narrowColumns {
		mark = ""
	}
	lines := wrapText(termsafe.Printable(text), width-len([]rune(mark)))
	for i, line := range lines {
		lines[i] = mark + line
	}
	return lines
}
