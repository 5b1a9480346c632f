package chat

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"github.com/everturn/everturn/starter/internal/ui"
	"github.com/everturn/everturn/starter/internal/ui/termsafe"
	"github.com/everturn/everturn/workflows/turn"
)

// entryKind is the kind of an entry.
type entryKind int

const (
	entryNote      entryKind = iota // a note by the chat itself
	entryOwn                        // a user message that was sent from this chat
	entryOther                      // a user message that was sent from elsewhere
	entryCall                       // a tool call
	entryAnswer                     // text of the model
	entryError                      // an error
	entryQuoted                     // the text of an elicitation: each line is behind a bar
	entryReasoning                  // the model's reasoning
	entryShell                      // a command of the user, with its output
	entryDiff                       // what the session has changed
)

// entry is a part of the conversation as the chat shows it.
type entry struct {
	kind   entryKind
	text   string
	call   *toolCall // of entryCall
	head   string    // of entryShell: the command and how it ended; of entryDiff: the commit
	short  string    // what is shown of the text of a message that is not open; empty: all of it
	open   bool      // the details of the call, or all of the user message or the output, are shown
	lines  []string  // the layout
	width  int       // the width of the screen for which lines were laid out; 0 if they must be laid out again
	paused time.Time // until when a growing entry is not laid out again
}

// toolCall is a tool call with its result, if it has one.
type toolCall struct {
	turn.CallEvent
	progress string // a description; empty if the server reports no progress
	output   string // the end of what a command has written
	media    []turn.Media
	diff     string // of a call that has changed a file; otherwise empty
	late     bool   // the result came after the outcome was recorded as unknown
}

// renderPause is the pause before a growing entry is laid out again, as a multiple of the time that the last layout
// took. With 9, layouts take at most a tenth of the time.
const renderPause = 9

// layOutEntry returns the lines of an entry, and lays the entry out if it or the width has changed. While the answer
// grows, it may return the last layout instead and set m.stale: see renderPause.
func (m *Model) layOutEntry(e *entry) []string {
	if e.width == m.cols() {
		return e.lines
	}
	began := m.now()
	if e == m.turn.answer && len(e.lines) > 0 && began.Before(e.paused) {
		m.stale = true
		return e.lines
	}
	e.lines, e.width = m.entryLines(e), m.cols()
	e.paused = began.Add((1 + renderPause) * m.now().Sub(began))
	return e.lines
}

// entryLines lays out an entry for the width of the screen.
func (m *Model) entryLines(e *entry) []string {
	width := m.cols()
	switch e.kind {
	case entryOwn:
		return paint(m.theme.user, marked("› ", m.fold(e, wrapText(termsafe.Printable(e.shown()), width-2), width-2)))
	case entryOther:
		return paint(m.theme.user, marked("» ", m.fold(e, wrapText(termsafe.Printable(e.text), width-2), width-2)))
	case entryAnswer:
		return m.theme.render(e.text, width)
	case entryCall:
		return m.callLines(e, width)
	case entryReasoning:
		return m.reasoningLines(e, width)
	case entryError:
		return paint(m.theme.fault, wrapText(termsafe.Printable(e.text), width))
	case entryShell:
		lines := paint(m.theme.accent, wrapText(termsafe.Printable(e.head), width))
		if e.text == "" {
			return lines
		}
		return append(lines, barred(m.fold(e, breakText(e.text, width-2), width-2))...)
	case entryDiff:
		lines := paint(m.theme.dim, wrapText(termsafe.Printable(e.head), width))
		return append(lines, barred(m.fold(e, m.theme.paintDiff(breakText(termsafe.Printable(e.text), width-2)), width-2))...)
	case entryQuoted:
		return barred(wrapText(termsafe.Printable(e.text), width-2))
	}
	return paint(m.theme.dim, wrapText(termsafe.Printable(e.text), width))
}

// needsBlankLine reports whether a blank line separates an entry from the previous one, which is nil for the first
// entry.
func (e *entry) needsBlankLine(previous *entry) bool {
	return previous != nil && (e.kind == entryOwn || e.kind == entryOther || e.kind == entryAnswer ||
		previous.kind == entryAnswer)
}

// marked puts a mark before the first line and indents the others by its width. It changes lines.
func marked(mark string, lines []string) []string {
	for i, line := range lines {
		if i == 0 {
			lines[i] = mark + line
		} else {
			lines[i] = strings.Repeat(" ", len([]rune(mark))) + line
		}
	}
	return lines
}

// barred puts a bar before each line, so that the user cannot take a line for text of the chat itself. It changes
// lines.
func barred(lines []string) []string {
	for i, line := range lines {
		lines[i] = "│ " + line
	}
	return lines
}

// callLines lays out a tool call: one line, and below it the beginning of the diff of a call that has changed a file,
// or, if the call is open, its arguments and the beginning of its result.
func (m *Model) callLines(e *entry, width int) []string {
	c := e.call
	mark, result, style := "→", c.progress, m.theme.accent
	if c.Outcome != "" {
		mark, result, style = ui.OutcomeMark(c.Outcome), ui.CallResult(c.CallEvent, c.media), m.theme.dim
		if c.Outcome != turn.OutcomeOK {
			style = m.theme.fault
		}
	}
	if c.late {
		mark = "late result: " + mark
	}
	// The call gets the room that the mark, the result and the separators between them (4 columns) leave.
	head := ui.Preview(c.Tool)
	if room := width - len([]rune(mark)) - len([]rune(result)) - 4; room > len([]rune(head))+8 && !e.open {
		head = cutWidth(ui.CallText(c.CallEvent, c.diff, room), room)
	}
	lines := paint(style, wrapText(joinNonEmpty(strings.TrimSpace(mark+" "+head), result), width))
	switch {
	case c.Outcome == "" && c.output != "":
		lines = append(lines, paint(m.theme.dim, barred(lastLines(c.output, runningRows, width-2)))...)
	case c.output != "" && !e.open:
		return append(lines, paint(m.theme.dim, barred(lastLines(c.output, endedRows, width-2)))...)
	}
	switch {
	case e.open:
		return append(lines, barred(m.callDetails(c, width-2))...)
	case c.diff != "":
		return append(lines, barred(m.fold(e, m.theme.paintDiff(breakText(c.diff, width-2)), width-2))...)
	case c.Outcome == turn.OutcomeError || c.Outcome == turn.OutcomeDenied:
		if why := termsafe.Line(c.Preview, 160); why != "" && !ui.Exited(c.Tool, c.Preview) {
			lines = append(lines, paint(m.theme.dim, marked("  ", wrapText(why, width-2)))...)
		}
	}
	return lines
}

// runningRows is how many rows of a command's output are shown while it runs, and endedRows after it has ended.
const (
	runningRows = 6
	endedRows   = 3
)

// lastLines returns the last rows of a text, as they fit into the width. Before them, a row says how many there are
// more.
func lastLines(text string, rows, width int) (out []string) {
	lines := strings.Split(strings.TrimRight(text, "\n"), "\n")
	if more := len(lines) - rows; more > 1 { // the row that says so would take the place of the one that it hides
		out, lines = append(out, cutWidth("… "+ui.Count(more, "more line"), width)), lines[more:]
	}
	for _, line := range lines {
		out = append(out, termsafe.Fit(termsafe.Line(line, width), width))
	}
	return out
}

// foldedRows is how many rows of a diff or of a user message are shown before Ctrl-O or a click opens it.
const foldedRows = 24

// folds reports whether Ctrl-O or a click opens the entry.
func (e *entry) folds() bool {
	switch e.kind {
	case entryCall, entryOwn, entryOther, entryShell, entryReasoning, entryDiff:
		return true
	}
	return false
}

// shown returns what is shown of the text of a message.
func (e *entry) shown() string {
	if e.open {
		return e.text
	}
	return cmp.Or(e.short, e.text)
}

// fold returns the first foldedRows of an entry's lines, and a row that says how many more there are. It returns all
// lines of an open entry.
func (m *Model) fold(e *entry, lines []string, width int) []string {
	more := len(lines) - foldedRows
	if e.open || more <= 1 { // the row that says so would take the place of the one that it hides
		return lines
	}
	note := cutWidth(fmt.Sprintf("… %d more rows; Ctrl-O or a click shows them", more), width)
	return append(lines[:foldedRows:foldedRows], m.theme.dim.Render(note))
}

func joinNonEmpty(a, b string) string { return strings.TrimSuffix(a+" · "+b, " · ") }

// callDetails lays out what an open call shows: the diff of a call that edits a file, the arguments, indented if they
// are JSON, and the beginning of the result.
func (m *Model) callDetails(c *toolCall, width int) []string {
	var lines []string
	arguments := c.Arguments
	if command, others, ok := ui.Command(c.Tool, c.Arguments); ok {
		lines, arguments = m.commandLines(command, width), others
	}
	var indented bytes.Buffer
	if json.Indent(&indented, []byte(arguments), "", "  ") == nil {
		arguments = indented.String()
	}
	arguments = termsafe.Visible(ui.Arguments(arguments))
	if diff := cmp.Or(c.diff, ui.Diff(c.Tool, c.Arguments)); diff != "" {
		lines = append(m.theme.paintDiff(breakText(diff, width)), m.theme.dim.Render("exact arguments:"))
	}
	if arguments != "" {
		lines = append(lines, breakText(arguments, width)...)
	}
	if c.ArgumentsBytes > int64(len(c.Arguments)) {
		lines = append(lines, m.theme.dim.Render(cutWidth(fmt.Sprintf("… (%d bytes; `everturn show` has all of them)",
			c.ArgumentsBytes), width)))
	}
	if c.Preview == "" {
		return lines
	}
	lines = append(lines, m.theme.dim.Render(cutWidth("result:", width)))
	result := breakText(termsafe.Printable(c.Preview), width)
	if isDiff(c.Preview) {
		result = m.theme.paintDiff(result)
	}
	return append(lines, result...)
}

// maxEntries is how many entries the chat keeps.
const maxEntries = 2000

// add appends an entry to the conversation and returns it. It drops the oldest entries above maxEntries.
func (m *Model) add(e *entry) *entry {
	m.entries = append(m.entries, e)
	m.entries = m.entries[max(0, len(m.entries)-maxEntries):]
	m.changed = true
	return e
}

// change marks an entry to be laid out again.
func (m *Model) change(e *entry) {
	e.width = 0
	m.changed = true
}

// changeAll marks all entries to be laid out again.
func (m *Model) changeAll() {
	for _, e := range m.entries {
		e.width, e.lines = 0, nil
	}
	m.changed = true
}

func (m *Model) addText(kind entryKind, text string) { m.add(&entry{kind: kind, text: text}) }

// isDiff reports whether a text looks like a unified diff.
func isDiff(text string) bool {
	return strings.HasPrefix(text, "@@ -") || strings.Contains(text, "\n@@ -")
}
