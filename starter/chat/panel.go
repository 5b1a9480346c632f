package chat

import (
	"fmt"
	"slices"
	"strings"

	"github.com/everturn/everturn/starter/terminal"
	"github.com/everturn/everturn/workflows/turn"
)

// panel is what a person is asked, in at most so many rows.
func (m *Model) panel(rows int) []string {
	w := m.asked()
	if w == nil || rows < 1 {
		return nil
	}
	if w.Kind == turn.WaitQuestion {
		lines := wrapText("? "+strings.TrimSpace(terminal.Printable(w.Question)), m.cols())
		return m.palette.paintLines(yellow, clip(lines, rows))
	}
	if w.Kind == turn.WaitElicitation {
		return m.elicitationPanel(w, rows)
	}
	before := w.read
	panel := m.approvalPanel(w, rows)
	if w.read != before { // its keys are others now
		panel = m.approvalPanel(w, rows)
	}
	return panel
}

// approvalPanel is what would run, in as many rows as are left between its name and the keys.
func (m *Model) approvalPanel(w *wait, rows int) []string {
	keys := clip(m.approvalKeys(w), max(1, rows/3))
	head := m.approvalHead(w)
	if why := m.approvalWhy(w); len(head)+len(why)+len(keys) <= rows/2 {
		head = append(head, why...)
	}
	head = clip(head, max(1, rows-len(keys)-1))
	room := max(1, rows-len(head)-len(keys))
	arguments := breakText(terminal.Visible(w.Arguments), m.cols())
	w.scroll = min(max(w.scroll, 0), max(0, len(arguments)-room))
	w.show(len(arguments), room)
	lines := append(head, arguments[w.scroll:min(len(arguments), w.scroll+room)]...)
	return append(lines, keys...)
}

// show notes which rows of the arguments are on the screen. Those behind a gap that was jumped over do not count, and none
// do any more where other rows were made of them.
func (w *wait) show(rows, room int) {
	if w.rows != rows {
		w.seen = 0
	}
	w.rows, w.room = rows, room
	if w.scroll <= w.seen {
		w.seen = max(w.seen, w.scroll+room)
	}
	w.read = w.read || w.seen >= rows
}

// where says which of the arguments' rows are shown, where those are not all.
func (w *wait) where() string {
	if w.rows <= w.room {
		return ""
	}
	return fmt.Sprintf("rows %d-%d/%d ↑↓", w.scroll+1, min(w.scroll+w.room, w.rows), w.rows)
}

func (m *Model) approvalHead(w *wait) []string {
	title := fmt.Sprintf("Allow %s?", terminal.Line(w.Tool, previewRunes))
	if w.Risk != "" {
		title += fmt.Sprintf(" (%s risk)", terminal.Line(string(w.Risk), 20))
	}
	if n := len(m.waits); n > 1 {
		title += fmt.Sprintf(" 1 of %d", n)
	}
	if m.cols() < 2*len("Allow mcp/server/tool?") { // rows are dear
		return m.palette.paintLines(yellow, breakText(title, m.cols()))
	}
	return m.palette.paintLines(yellow, wrapText(title, m.cols()))
}

func (m *Model) approvalWhy(w *wait) []string {
	if w.Why == "" {
		return nil
	}
	return m.palette.paintLines(dim, wrapText(terminal.Line(w.Why, 4*previewRunes), m.cols()))
}

// The keys that decide: whole, in short, and what they mean.
const (
	allKeys    = "y allow · n deny · a always exactly this call · t always this tool · r deny with a reason"
	moreKeys   = "there is more: space shows it, and then y allows · n deny · r deny with a reason"
	shortMore  = "space/y/n/r ?=help"
	shortKeys  = "y/n/a/t/r ?=help"
	meantByKey = "y allows this call, n denies it; a allows exactly this call from now on, t allows this tool whatever its arguments; r denies with a reason; Tab goes to the input"
)

func (m *Model) approvalKeys(w *wait) []string {
	switch {
	case w.sent:
		return []string{m.palette.paint(dim, cutWidth("decided; waiting for the turn", m.cols()))}
	case m.deciding && !w.read && m.cols() < 60:
		return []string{cutWidth(shortMore, m.cols())}
	case m.deciding && !w.read:
		return wrapText(moreKeys, m.cols())
	case m.deciding && m.cols() < 60:
		return []string{cutWidth(keysFor(w, "/", shortKeys), m.cols())}
	case m.deciding:
		return wrapText(keysFor(w, " · ", allKeys), m.cols())
	case m.reason != "":
		return []string{cutWidth("why not? Enter denies", m.cols())}
	}
	return []string{m.palette.paint(dim, cutWidth("Tab decides", m.cols()))}
}

// keysFor leaves out the keys that would have no effect.
func keysFor(w *wait, between, keys string) string {
	return strings.Join(slices.DeleteFunc(strings.Split(keys, between), func(key string) bool {
		return key[0] == 'a' && !w.Spares(turn.AlwaysCall) || key[0] == 't' && !w.Spares(turn.AlwaysTool)
	}), between)
}

// page is by how many rows a page of arguments is scrolled.
func (w *wait) page() int { return max(1, w.room-1) }

// clip shortens a list of lines to n, and shows that it did.
func clip(lines []string, n int) []string {
	switch {
	case len(lines) <= n:
		return lines
	case n <= 0:
		return nil
	}
	lines = append([]string(nil), lines[:n]...)
	lines[n-1] = "…"
	return lines
}
