package chat

import (
	"fmt"
	"strings"

	"charm.land/bubbles/v2/key"
	"charm.land/bubbles/v2/viewport"

	"github.com/everturn/everturn/starter/internal/ui"
	"github.com/everturn/everturn/starter/internal/ui/form"
	"github.com/everturn/everturn/starter/internal/ui/termsafe"
	"github.com/everturn/everturn/workflows/turn"
)

// panel shows the current request in at most rows rows.
func (m *Model) panel(rows int) []string {
	p := m.currentRequest()
	if p == nil {
		return nil
	}
	p.fits = false
	switch {
	case rows < 1:
		return nil
	case p.Kind == turn.RequestQuestion:
		lines := wrapText("? "+strings.TrimSpace(termsafe.Printable(p.Question)), m.cols())
		return paint(m.theme.warn, clip(lines, rows))
	case p.Kind == turn.RequestElicitation:
		return m.formPanel(p, rows)
	}
	return m.approvalPanel(p, rows)
}

// newPage returns the viewport of an approval's arguments.
func newPage() viewport.Model {
	v := viewport.New()
	v.KeyMap = viewport.KeyMap{PageDown: key.NewBinding(key.WithKeys("pgdown", "space")),
		PageUp: key.NewBinding(key.WithKeys("pgup")), Up: key.NewBinding(key.WithKeys("up", "k")),
		Down: key.NewBinding(key.WithKeys("down", "j"))}
	return v
}

// minColumns is the width of a window that has room for any grapheme cluster of a text that termsafe.Visible returns.
const minColumns = 18

const tooSmall = "enlarge the window to see the call; n denies"

// approvalPanel lays out a call that waits for approval in at most rows rows: its tool, the reason if there is room,
// and as many rows of the arguments as fit. If there is no room for a row of the arguments, it shows only that the
// window is too small, and the call cannot be allowed.
func (m *Model) approvalPanel(p *pendingRequest, rows int) []string {
	head := m.approvalHead(p)
	room := rows - len(head)
	if p.fits = room > 0 && m.cols() >= minColumns; !p.fits {
		return paint(m.theme.warn, []string{cutWidth(tooSmall, m.cols())})
	}
	if why := wrapText(termsafe.Line(p.Why, 300), m.cols()); p.Why != "" && len(head)+len(why) <= rows/2 {
		head, room = append(head, paint(m.theme.dim, why)...), room-len(why)
	}
	arguments := m.argumentLines(p)
	if p.page.Width() != m.cols() {
		p.seen = 0 // another width breaks the arguments into other rows
	}
	p.page.SetWidth(m.cols())
	p.page.SetHeight(min(room, len(arguments)))
	p.page.SetContentLines(arguments)
	p.recordShown(len(arguments))
	// The viewport's own View counts columns in only one way: see columns.
	return append(head, arguments[p.page.YOffset():][:p.page.Height()]...)
}

// argumentLines lays out the arguments of a call, exactly as the call would run with them. The calls that run together
// with the call, and the steps of a plan or the diff of a call that edits a file, precede them. What the verdicts cover
// follows them.
func (m *Model) argumentLines(p *pendingRequest) []string {
	var lines []string
	if title, calls := ui.Beside(p.Request); title != "" {
		lines = paint(m.theme.warn, wrapText(title, m.cols()))
		lines = append(lines, barred(breakText(termsafe.Visible(calls), m.cols()-2))...)
	}
	if steps := ui.Steps(p.Request); steps != "" {
		lines = append(lines, barred(breakText(termsafe.Visible(steps), m.cols()-2))...)
	} else if diff := m.diffOf(p); diff != "" {
		lines = append(lines, barred(m.theme.paintDiff(breakText(diff, m.cols()-2)))...)
	}
	if command, others, ok := ui.Command(p.Tool, p.Arguments); ok {
		if len(lines) > 0 {
			lines = append(lines, m.theme.dim.Render("command:"))
		}
		lines = append(lines, m.commandLines(command, m.cols())...)
		if others != "" {
			lines = append(append(lines, m.theme.dim.Render("other arguments:")),
				breakText(termsafe.Visible(others), m.cols())...)
		}
	} else {
		if len(lines) > 0 {
			lines = append(lines, m.theme.dim.Render("exact arguments:"))
		}
		lines = append(lines, breakText(termsafe.Visible(ui.Arguments(p.Arguments)), m.cols())...)
	}
	if covers := ui.Covers(p.Request); covers != "" {
		lines = append(lines, paint(m.theme.dim, wrapText(covers, m.cols()))...)
	}
	return lines
}

// commandLines lays out a command, as ui.Command returns it, behind a bar.
func (m *Model) commandLines(command string, width int) []string {
	return barred(breakText(termsafe.Visible(command), width-2))
}

// recordShown records which of the rows of the arguments are on the screen now. A call may be allowed once all were:
// see pendingRequest. Rows after a gap, over which the user has jumped, do not count. If rows, the number of rows, has
// changed, counting starts again.
func (p *pendingRequest) recordShown(rows int) {
	if p.rows != rows {
		p.seen = 0
	}
	p.rows = rows
	if top := p.page.YOffset(); top <= p.seen {
		p.seen = max(p.seen, top+p.page.Height())
	}
	p.read = p.read || p.seen >= rows
}

// position describes which rows of the arguments are on the screen: "(rows 1 to 5 of 9)". It is empty if all are.
func (p *pendingRequest) position() string {
	if p.rows <= p.page.Height() {
		return ""
	}
	top := p.page.YOffset()
	return fmt.Sprintf("(rows %d to %d of %d)", top+1, min(top+p.page.Height(), p.rows), p.rows)
}

// approvalHead lays out the question whether to allow a call, with its tool and its risk.
func (m *Model) approvalHead(p *pendingRequest) []string {
	title := fmt.Sprintf("Allow %s?", strings.ReplaceAll(termsafe.Visible(p.Tool), "\n", `\n`))
	if p.Risk != "" {
		title += fmt.Sprintf(" (%s risk)", termsafe.Line(string(p.Risk), 20))
	}
	if n := len(m.pending); n > 1 {
		title += fmt.Sprintf(" 1 of %d", n)
	}
	return paint(m.theme.warn, wrapText(title, m.cols()))
}

// approvalBindings returns the keys of an approval, for the help line: those of the verdicts that are possible now, and
// those that show more, deny with a reason or switch to the input.
func (m *Model) approvalBindings(p *pendingRequest) []key.Binding {
	if !p.fits {
		return []key.Binding{bind("", "n", "deny")}
	}
	var keys []key.Binding
	for _, v := range p.verdicts() {
		if !v.Allow || p.read {
			keys = append(keys, bind("", v.Key, v.Label))
		}
	}
	if !p.read {
		keys = append([]key.Binding{bind("", "space", "show the rest")}, keys...)
	}
	return append(keys, bind("", "r", "deny with a reason"), bind("", "tab", "type a message"))
}

// formPanel shows the form of an elicitation in at most rows rows.
func (m *Model) formPanel(p *pendingRequest, rows int) []string {
	title := "? " + form.Asker(p.Request) + " asks"
	if n := len(m.pending); n > 1 {
		title += fmt.Sprintf(", 1 of %d", n)
	}
	head := paint(m.theme.warn, []string{cutWidth(title, m.cols())})
	switch {
	case p.form == nil:
		return head
	case p.sent:
		return append(head, m.theme.dim.Render("answered; waiting for the turn to continue"))
	case rows < 4: // the form needs all rows
		head = nil
	}
	body := p.form.Resize(m.cols(), max(1, rows-len(head))).View()
	return append(head, trimBlank(strings.Split(sgrOnly(body), "\n"))...)
}
