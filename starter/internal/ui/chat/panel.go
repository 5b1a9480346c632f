package chat

import (
	"fmt"
	"slices"
	"strings"

	"github.com/everturn/everturn/starter/internal/ui/termsafe"
	"github.com/everturn/everturn/workflows/turn"
)

// panel shows the current request in at most rows rows.
func (m *Model) panel(rows int) []string {
	w := m.currentRequest()
	if w == nil {
		return nil
	}
	w.fits = false
	switch {
	case rows < 1:
		return nil
	case w.Kind == turn.RequestQuestion:
		lines := wrapText("? "+strings.TrimSpace(termsafe.Printable(w.Question)), m.cols())
		return m.palette.paintLines(yellow, clip(lines, rows))
	case w.Kind == turn.RequestElicitation:
		return m.elicitationPanel(w, rows)
	}
	before := w.read
	panel := m.approvalPanel(w, rows)
	if w.read != before { // reading to the end changes the keys
		panel = m.approvalPanel(w, rows)
	}
	return panel
}

// approvalPanel lays out a call that waits for approval: its tool, the rows of its arguments that fit, and the keys. If
// the tool and one row of the arguments do not fit, it shows none of them, and the call cannot be allowed.
func (m *Model) approvalPanel(w *pendingRequest, rows int) []string {
	keys := m.approvalKeys(w, max(1, rows/3))
	head := m.approvalHead(w)
	room := rows - len(head) - len(keys)
	if w.fits = room > 0; !w.fits {
		return m.palette.paintLines(yellow, []string{cutWidth(tooSmall, m.cols())})
	}
	if why := m.approvalWhy(w); len(head)+len(why)+len(keys) <= rows/2 {
		head, room = append(head, why...), room-len(why)
	}
	arguments := breakText(termsafe.Visible(w.Arguments), m.cols())
	w.scroll = min(max(w.scroll, 0), max(0, len(arguments)-room))
	w.show(len(arguments), room)
	lines := append(head, arguments[w.scroll:min(len(arguments), w.scroll+room)]...)
	return append(lines, keys...)
}

// show records which rows of the arguments are on the screen. Rows after a gap that the user jumped over do not count.
// If a new layout has another number of rows, no earlier row counts any more.
func (w *pendingRequest) show(rows, room int) {
	if w.rows != rows {
		w.seen = 0
	}
	w.rows, w.room = rows, room
	if w.scroll <= w.seen {
		w.seen = max(w.seen, w.scroll+room)
	}
	w.read = w.read || w.seen >= rows
}

// position describes which rows of the arguments are shown; empty if all are.
func (w *pendingRequest) position() string {
	if w.rows <= w.room {
		return ""
	}
	return fmt.Sprintf("rows %d-%d/%d ↑↓", w.scroll+1, min(w.scroll+w.room, w.rows), w.rows)
}

func (m *Model) approvalHead(w *pendingRequest) []string {
	title := fmt.Sprintf("Allow %s?", strings.ReplaceAll(termsafe.Visible(w.Tool), "\n", `\n`))
	if w.Risk != "" {
		title += fmt.Sprintf(" (%s risk)", termsafe.Line(string(w.Risk), 20))
	}
	if n := len(m.pending); n > 1 {
		title += fmt.Sprintf(" 1 of %d", n)
	}
	if m.cols() < 2*len("Allow mcp/server/tool?") { // a narrow screen has no rows to spare
		return m.palette.paintLines(yellow, breakText(title, m.cols()))
	}
	return m.palette.paintLines(yellow, wrapText(title, m.cols()))
}

func (m *Model) approvalWhy(w *pendingRequest) []string {
	if w.Why == "" {
		return nil
	}
	return m.palette.paintLines(dim, wrapText(termsafe.Line(w.Why, 300), m.cols()))
}

// Texts about the keys that decide: the long one, the short one, and the explanation.
const (
	allKeys = "y allow · n deny · a allow this call from now on · t allow this tool from now on · r deny with a " +
		"reason"
	tooSmall  = "enlarge the window to see the call; n denies"
	moreKeys  = "space shows the rest, then y allows · n deny · r deny with a reason"
	shortMore = "space/y/n/r ?=help"
	shortKeys = "y/n/a/t/r ?=help"
	keyHelp   = "y allows this call and n denies it; a allows later calls with the same arguments, t all later calls of " +
		"this tool; r denies with a reason; Tab switches to the input"
)

// approvalKeys shows in at most rows rows which keys decide.
func (m *Model) approvalKeys(w *pendingRequest, rows int) []string {
	switch {
	case w.sent:
		return []string{m.palette.paint(dim, cutWidth("decided; waiting for the turn to continue", m.cols()))}
	case m.deciding && !w.read:
		return m.keys(moreKeys, shortMore, rows)
	case m.deciding:
		return m.keys(keysFor(w, " · ", allKeys), keysFor(w, "/", shortKeys), rows)
	case m.reason != "":
		return []string{cutWidth("reason? Enter denies", m.cols())}
	}
	return []string{m.palette.paint(dim, cutWidth("Tab to decide", m.cols()))}
}

// keys returns the long text if it fits, and the short one otherwise.
func (m *Model) keys(long, short string, rows int) []string {
	if lines := wrapText(long, m.cols()); m.cols() >= 60 && len(lines) <= rows {
		return lines
	}
	return []string{cutWidth(short, m.cols())}
}

// keysFor omits the keys that would have no effect.
func keysFor(w *pendingRequest, between, keys string) string {
	return strings.Join(slices.DeleteFunc(strings.Split(keys, between), func(key string) bool {
		return key[0] == 'a' && !w.Grants(turn.GrantCall) || key[0] == 't' && !w.Grants(turn.GrantTool)
	}), between)
}

// page is how many rows of the arguments one page scrolls.
func (w *pendingRequest) page() int { return max(1, w.room-1) }

// clip shortens a list of lines to n, and replaces the last one with an ellipsis if it cuts any.
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
