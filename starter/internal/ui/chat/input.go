package chat

import (
	"fmt"
	"strings"
	"time"

	"charm.land/bubbles/v2/key"
	"charm.land/bubbles/v2/textarea"
	tea "charm.land/bubbletea/v2"

	"github.com/everturn/everturn/client"
	"github.com/everturn/everturn/starter/internal/ui"
)

// Bounds of the input, in bytes. A longer text is for `everturn run -`.
const (
	maxInput = 32 << 10 // typed, or pasted bit by bit
	maxPaste = 8 << 20  // one paste
	allPaste = 32 << 20 // all pastes of one message
)

// The longest paste that the input shows. A longer one is kept beside the input, which shows a placeholder for it.
const (
	shownPaste = 1 << 10 // bytes
	shownLines = 8
)

// pastes holds the long pastes of the message that is being written, by placeholder.
type pastes struct {
	texts map[string]string
	bytes int
	count int
}

func (p *pastes) put(text string) string {
	if p.texts == nil {
		p.texts = map[string]string{}
	}
	p.count++
	p.bytes += len(text)
	word := fmt.Sprintf("[paste %d: %s]", p.count, ui.Count(strings.Count(text, "\n")+1, "line"))
	p.texts[word] = text
	return word
}

// fold stores a long text and returns its placeholder. It returns any other text unchanged.
func (p *pastes) fold(text string) string {
	if len(text) > shownPaste || strings.Count(text, "\n") >= shownLines {
		return p.put(text)
	}
	return text
}

// expand replaces each placeholder with its paste. A placeholder that the user has edited stays as it is.
func (p *pastes) expand(text string) string {
	for word, whole := range p.texts {
		text = strings.Replace(text, word, whole, 1)
	}
	return text
}

func newInput() textarea.Model {
	in := textarea.New()
	in.Prompt, in.ShowLineNumbers, in.EndOfBufferCharacter = "> ", false, ' '
	in.CharLimit, in.DynamicHeight, in.MinHeight, in.MaxHeight, in.MaxWidth = maxInput, true, 1, 1, 0
	in.KeyMap.InsertNewline = key.NewBinding(key.WithKeys("alt+enter", "ctrl+j", "shift+enter"))
	in.KeyMap.Paste.SetEnabled(false)         // it reads this machine's clipboard, which is not the user's over ssh
	in.KeyMap.CopySelection.SetEnabled(false) // likewise
	in.SetStyles(textarea.Styles{})
	in.SetVirtualCursor(false)
	return in
}

// fitInput gives the input its share of the screen.
func (m *Model) fitInput() {
	m.input.Prompt = "> "
	if m.cols() < narrowColumns {
		m.input.Prompt = ""
	}
	m.input.MaxHeight = max(1, m.height/4)
	m.input.MaxContentHeight = 4 * maxInput // rows; CharLimit is the bound that counts
	m.input.SetWidth(m.cols())
}

// setInput puts a text into the input. A long text is folded, as a paste is.
func (m *Model) setInput(text string) {
	m.input.SetValue(m.pastes.fold(text))
	m.input.MoveToEnd()
}

// paste handles a paste from the terminal.
func (m *Model) paste(msg tea.PasteMsg) tea.Cmd {
	m.pressed = m.now()
	text := strings.NewReplacer("\r\n", "\n", "\r", "\n").Replace(msg.Content)
	if m.focused && m.elicitation() != nil {
		return m.updateForm(tea.PasteMsg{Content: text})
	}
	if len(text) > maxPaste || m.pastes.bytes+len(text) > allPaste {
		m.printError("the pasted text is %d bytes, too long for the chat; write it to a file and use `everturn run -s %s - "+
			"<FILE`", len(text), m.session)
		return nil
	}
	text = m.pastes.fold(text)
	m.focused = false // a paste is meant for the input
	var cmd tea.Cmd
	m.input, cmd = m.input.Update(tea.PasteMsg{Content: text})
	return cmd
}

// twice is how soon a second Ctrl-C must follow the first.
const twice = 3 * time.Second

// key handles a key press.
func (m *Model) key(msg tea.KeyPressMsg) tea.Cmd {
	name := msg.String()
	defer func() { m.pressed = m.now() }()
	m.notice = ""
	switch name {
	case "ctrl+c":
		return m.interrupt()
	case "ctrl+d":
		if m.input.Value() == "" {
			return m.detach()
		}
	}
	m.interrupted = time.Time{}
	switch name {
	case "ctrl+o":
		m.foldCalls()
		return nil
	case "pgup", "pgdown", "ctrl+up", "ctrl+down", "shift+up", "shift+down":
		if !m.focused {
			return m.scroll(msg)
		}
	}
	if m.focused {
		return m.requestKey(msg)
	}
	return m.inputKey(msg)
}

// requestKey handles a key press that is for the current request.
func (m *Model) requestKey(msg tea.KeyPressMsg) tea.Cmd {
	switch {
	case msg.String() == "esc":
		return m.unfocus()
	case m.elicitation() != nil:
		return m.updateForm(msg)
	}
	return m.decideKey(msg)
}

// inputKey handles a key press that is for the input.
func (m *Model) inputKey(msg tea.KeyPressMsg) tea.Cmd {
	name := msg.String()
	if m.menu.shown() {
		if cmd, taken := m.menuKey(name); taken {
			return cmd
		}
	}
	switch name {
	case "esc":
		m.escape()
		return nil
	case "tab":
		m.focus()
		return nil
	case "enter":
		return m.submit()
	case "up", "down":
		if m.recall(name) {
			return m.complete()
		}
	}
	var cmd tea.Cmd
	m.input, cmd = m.input.Update(msg)
	return tea.Batch(cmd, m.complete())
}

// escape goes back from the reason of a denial. Otherwise it shows a hint.
func (m *Model) escape() {
	switch {
	case m.reason != "":
		m.endReason()
		m.focus()
	case m.turn.id != "":
		m.hint("Ctrl-C twice stops the turn; Ctrl-D leaves it running")
	default:
		m.hint("Ctrl-D leaves; /help shows more")
	}
}

// interrupt handles Ctrl-C. The first one clears the input or shows a hint; a second one stops the turn, or leaves if
// no turn runs.
func (m *Model) interrupt() tea.Cmd {
	if m.interrupted.IsZero() || m.now().Sub(m.interrupted) > twice {
		m.interrupted = m.now()
		switch {
		case m.input.Value() != "":
			m.history.add(m.pastes.expand(m.input.Value()))
			m.setInput("")
			m.hint("input cleared; the up arrow restores it")
		case m.turn.id != "":
			m.hint("Ctrl-D leaves and the turn continues")
		default:
			m.hint("press Ctrl-C again, or Ctrl-D, to leave")
		}
		return nil
	}
	m.interrupted = time.Time{}
	if m.turn.id != "" {
		return m.stop()
	}
	return m.detach()
}

// detach leaves the chat. If a message is still on its way, the first call shows a warning instead.
func (m *Model) detach() tea.Cmd {
	if len(m.outbox.unsent()) > 0 && m.interrupted.IsZero() {
		m.interrupted = m.now()
		m.hint("a message is still being sent; press again to leave anyway, and it may be lost")
		return nil
	}
	m.leaving = true
	return nil
}

// recall moves through the history if the cursor is at the input's edge.
func (m *Model) recall(name string) bool {
	by, edge := -1, m.input.Line() == 0 && m.input.LineInfo().RowOffset == 0
	if name == "down" {
		info := m.input.LineInfo()
		by, edge = 1, m.input.Line() == m.input.LineCount()-1 && info.RowOffset >= info.Height-1
	}
	if !edge {
		return false
	}
	if text, ok := m.history.move(by, m.pastes.expand(m.input.Value())); ok {
		m.pastes = pastes{}
		m.setInput(text)
		if by < 0 { // one more key press reaches the next entry, however many lines this one has
			m.input.MoveToBegin()
			m.input.CursorEnd()
		}
	}
	return true
}

// submit handles the text of the input: a command, a reason, an answer, or a message.
func (m *Model) submit() tea.Cmd {
	text := strings.TrimSpace(m.pastes.expand(m.input.Value()))
	if text == "" {
		return nil
	}
	m.typing = false
	m.talk.GotoBottom()
	if m.reason != "" {
		return m.denyWithReason(text)
	}
	if strings.HasPrefix(text, "/") && !strings.HasPrefix(text, "//") {
		return m.command(text)
	}
	if strings.HasPrefix(text, "//") {
		text = text[1:] // two slashes begin a message that starts with one
	}
	if p := m.question(); p != nil {
		if p.sent {
			m.hint("the answer is being sent")
			return nil
		}
		m.clearInput(text)
		return m.answer(p, text)
	}
	return m.queueMessage(text, false)
}

func (m *Model) denyWithReason(text string) tea.Cmd {
	p := m.approval()
	m.history.add(text)
	m.pastes = pastes{}
	m.endReason()
	return m.send(p, false, client.DecideInput{Reason: text})
}

// queueMessage puts a message into the outbox. The message is merged into the running turn or starts a turn. With
// queue, it is queued for the next turn.
func (m *Model) queueMessage(text string, queue bool) tea.Cmd {
	if len(m.outbox.list) >= maxOutbox {
		m.hint("%d messages are already waiting; wait for the turn, or /stop it", maxOutbox)
		return nil
	}
	m.clearInput(text)
	m.outbox.put(text, queue && m.turn.id != "")
	return nil
}

// clearInput adds a text to the history and clears the input.
func (m *Model) clearInput(text string) {
	m.history.add(text)
	m.pastes = pastes{}
	m.setInput("")
	m.complete()
}
