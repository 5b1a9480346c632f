package chat

import (
	"cmp"
	"slices"
	"strings"
	"time"

	"charm.land/bubbles/v2/key"
	"charm.land/bubbles/v2/viewport"
	tea "charm.land/bubbletea/v2"

	"github.com/everturn/everturn/starter/internal/ui"
	"github.com/everturn/everturn/starter/internal/ui/form"
	"github.com/everturn/everturn/starter/internal/ui/termsafe"
)

// pendingRows is how many outgoing messages are shown.
const pendingRows = 3

// cols returns the width of the screen in columns, at least 1.
func (m *Model) cols() int { return max(1, m.width) }

// newTalk returns the viewport of the conversation. It scrolls by keys that the input does not use.
func newTalk() viewport.Model {
	v := viewport.New()
	v.KeyMap = viewport.KeyMap{PageUp: bind("pgup", "pgup", "scroll"), PageDown: bind("pgdown", "", ""),
		HalfPageUp: bind("ctrl+up", "", ""), HalfPageDown: bind("ctrl+down", "", ""),
		Up: bind("shift+up", "", ""), Down: bind("shift+down", "", "")}
	return v
}

// bind returns a key binding for the key name. The help line shows it as shown, with what it does. An empty name is
// only for the help line.
func bind(name, shown, does string) key.Binding {
	return key.NewBinding(key.WithKeys(name), key.WithHelp(shown, does))
}

// scroll passes a key press or a turn of the mouse wheel to the conversation.
func (m *Model) scroll(msg tea.Msg) tea.Cmd {
	var cmd tea.Cmd
	m.talk, cmd = m.talk.Update(msg)
	return cmd
}

// click shows or hides the rest of the tool call or of the user message under the mouse.
func (m *Model) click(msg tea.MouseClickMsg) {
	row := msg.Y + m.talk.YOffset()
	if msg.Y >= m.talk.Height() || row >= len(m.rows) {
		return
	}
	if i := m.rows[row]; i < len(m.entries) && m.entries[i].folds() {
		m.entries[i].open = !m.entries[i].open
		m.change(m.entries[i])
	}
}

// layOut lays out the conversation if it has changed, and sets its height to the rows above the parts returned by
// below. If the conversation was scrolled to its end, it stays there.
func (m *Model) layOut() {
	if m.width == 0 { // the size of the screen is not known yet
		return
	}
	wasAtBottom := m.talk.AtBottom()
	m.talk.SetWidth(m.cols())
	m.talk.SetHeight(max(0, m.height-len(m.below())))
	if m.changed {
		m.changed, m.stale = false, false
		m.talk.SetContentLines(m.conversation())
	}
	if wasAtBottom {
		m.talk.GotoBottom()
	}
	if m.reveal != nil {
		m.talk.SetYOffset(slices.IndexFunc(m.rows, func(i int) bool { return m.entries[i] == m.reveal }))
		m.reveal = nil
	}
}

// conversation returns the lines of all entries, and sets m.rows to the entry of each line.
func (m *Model) conversation() []string {
	var lines []string
	var previous *entry
	m.rows = m.rows[:0]
	for i, e := range m.entries {
		if e.needsBlankLine(previous) {
			lines = append(lines, "")
		}
		lines = append(lines, m.layOutEntry(e)...)
		for len(m.rows) < len(lines) {
			m.rows = append(m.rows, i)
		}
		previous = e
	}
	return lines
}

// View implements tea.Model. It returns the whole screen: the conversation and the parts below it, and the cursor if
// keys go to the input.
func (m *Model) View() tea.View {
	var v tea.View
	v.AltScreen, v.MouseMode = true, tea.MouseModeCellMotion
	if m.width == 0 || m.leaving {
		return v
	}
	below := m.below()
	var lines []string
	if m.talk.Height() > 0 {
		lines = strings.Split(m.talk.View(), "\n")
	}
	lines = append(lines, below...)
	for i, line := range lines {
		lines[i] = cutWidth(line, m.cols())
	}
	v.Content = strings.Join(lines, "\n")
	if c := m.input.Cursor(); c != nil && !m.focused {
		c.Y += max(0, m.height-m.inputRows()-len(m.footer())) // from a row of the input to a row of the screen
		c.Blink = false
		v.Cursor = c
	}
	return v
}

func (m *Model) inputRows() int { return strings.Count(m.input.View(), "\n") + 1 }

// footer returns the rows below the input.
func (m *Model) footer() []string {
	if m.height < 4 {
		return []string{m.status()}
	}
	return append([]string{m.status()}, m.helpLines()...)
}

// below returns the rows below the conversation: the outgoing messages, the current request, the menu, the input, the
// status and the keys. If the screen is too small for all, it returns the lower ones.
func (m *Model) below() []string {
	input := strings.Split(m.input.View(), "\n")
	footer := m.footer()
	room := max(0, m.height-len(input)-len(footer)) // for the menu, the request and the outgoing messages
	// The menu gets at most a third of the screen, and the request at most two thirds of the room, but each may have a few
	// rows on a small screen.
	lines := m.menu.view(m, min(room, max(3, m.height/3)))
	lines = append(m.panel(min(room-len(lines), max(room*2/3, 8))), lines...)
	pending := clip(m.pendingLines(), max(0, min(room-len(lines), pendingRows)))
	lines = append(append(append(pending, lines...), input...), footer...)
	return lines[max(0, len(lines)-m.height):]
}

// pendingLines returns a row for each outgoing message, with its state.
func (m *Model) pendingLines() []string {
	var lines []string
	for _, p := range m.outbox.list {
		state := " · sending"
		switch {
		case p.accepted && p.queue:
			state = " · queued"
		case p.accepted && m.turn.id != "" && len(m.turn.calls) > 0:
			state = " · accepted, read after the tool calls"
		case p.accepted && m.turn.id != "":
			state = " · accepted, read after this answer"
		case p.accepted:
			state = " · accepted"
		}
		width := m.cols() - len(state) + 1 // the dot in state is 2 bytes but 1 column
		text := cutWidth("› "+termsafe.Line(p.typed, 400)+p.marks(), max(8, width))
		lines = append(lines, m.theme.dim.Render(text+state))
	}
	return lines
}

// status returns the row below the input: the chat's state, the cost, the tokens, the model and the session. It leaves
// out parts that do not fit.
func (m *Model) status() string {
	parts := []string{m.state()}
	used := m.used.Add(m.turn.usage)
	if !m.talk.AtBottom() {
		parts = append(parts, "more below")
	}
	if used.Cost > 0 {
		parts = append(parts, ui.Cost(used))
	}
	model := ui.Preview(m.model)
	if m.o.Chosen.Effort != "" {
		model += " (" + string(m.o.Chosen.Effort) + ")"
	}
	parts = append(parts, ui.Tokens(used), model, termsafe.Line(m.session, 40))
	return m.theme.accent.Render(joinFitting(parts, m.cols()))
}

// state describes what the chat is waiting for, or what its turn is doing.
func (m *Model) state() string {
	t := &m.turn
	switch {
	case !m.interrupted.IsZero() && m.now().Sub(m.interrupted) <= secondPressWithin && t.id != "":
		return "press Ctrl-C again to stop the turn"
	case t.id == "" && m.shell != nil:
		return m.spinner.View() + " running your command"
	case t.id == "" && len(m.outbox.list) > 0:
		return m.spinner.View() + " " + cmp.Or(m.waits.why, "waiting for a worker")
	case t.id == "" && m.feed == nil:
		return "opening"
	case t.id == "":
		return "ready"
	}
	state := "answering"
	switch p := m.currentRequest(); {
	case t.stopping:
		state = "stopping"
	case m.reason != "":
		return "type the reason of the denial"
	case p != nil && p.sent:
		state = "decided; waiting for the turn"
	case m.question() != nil:
		return "question: type your answer"
	case m.elicitation() != nil:
		return form.Asker(p.Request) + " asks"
	case p != nil:
		return strings.TrimSpace("waiting for your decision " + p.position())
	case m.waits.why != "":
		state = m.waits.why
	case len(t.calls) > 0:
		state = "calling " + ui.Count(len(t.calls), "tool")
	case t.thinking:
		state = "thinking"
	}
	took := max(m.now().Sub(t.began).Truncate(time.Second), 0)
	return m.spinner.View() + " " + state + " " + took.String()
}

// helpLines returns the hint, if there is one, or else the keys that have an effect now: in one row, or in two if keys
// go to the current request and the screen is high enough. It leaves out keys that do not fit.
func (m *Model) helpLines() []string {
	if m.notice != "" {
		return clip(paint(m.theme.warn, wrapText(m.notice, m.cols())), max(1, m.height/5))
	}
	rows := 1
	if m.height >= 12 && m.focused {
		rows = 2
	}
	lines := []string{""}
	for _, b := range m.bindings() {
		item := m.help.ShortHelpView([]key.Binding{b})
		last := lines[len(lines)-1]
		switch longer := joinFitting([]string{last, item}, m.cols()); {
		case item == "":
		case last == "":
			lines[len(lines)-1] = item
		case longer != last: // the item fits
			lines[len(lines)-1] = longer
		case len(lines) < rows:
			lines = append(lines, item)
		}
	}
	return lines
}

// bindings returns the keys that have an effect now, for the help line, the most important ones first.
func (m *Model) bindings() []key.Binding {
	p := m.currentRequest()
	switch {
	case m.menu.shown():
		return []key.Binding{bind("", "↑↓", "choose"), bind("", "enter", "take"), bind("", "esc", "close")}
	case m.focused && p.form != nil:
		return append(p.form.KeyBinds(), bind("", "esc", "type a message"))
	case m.focused:
		return m.approvalBindings(p)
	case m.reason != "":
		return []key.Binding{bind("", "enter", "deny the call"), bind("", "esc", "go back")}
	case p != nil && !p.sent && p.form != nil:
		return []key.Binding{bind("", "tab", "fill in the form"), bind("", "/decline", "decline")}
	case p != nil && !p.sent && m.question() == nil:
		return []key.Binding{bind("", "tab", "decide: allow or deny the call"), bind("", "enter", "send a message")}
	case m.turn.id != "":
		return []key.Binding{bind("", "enter", "add to the turn"), bind("", "esc", "stop"),
			bind("", "ctrl+o", "open calls"), bind("", "pgup", "scroll"), bind("", "ctrl+d", "leave")}
	}
	return []key.Binding{bind("", "enter", "send"), bind("", "/", "commands"), bind("", "@", "files"),
		bind("", "!", "shell"),
		bind("", "↑", "history"), bind("", "ctrl+o", "open calls"), bind("", "pgup", "scroll"),
		bind("", "ctrl+d", "leave")}
}
