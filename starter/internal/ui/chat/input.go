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
	"github.com/everturn/everturn/starter/internal/ui/termsafe"
	"github.com/everturn/everturn/workflows/turn"
)

// Bounds of the input, in bytes. A longer text is for `everturn run -`.
const (
	maxInput = 32 << 10 // the text in the input, with placeholders in place of long pastes
	maxPaste = 8 << 20  // one paste
	allPaste = 32 << 20 // all pastes of one message
)

// The bounds of a paste that the input shows. It shows a placeholder for a longer one: see pastes.
const (
	shownPaste = 1 << 10 // bytes
	shownLines = 8
)

// pastes holds the long pastes of the message that the user is writing.
type pastes struct {
	texts map[string]string // by placeholder
	bytes int               // of all texts
	count int               // for the numbers in placeholders
}

// put stores a text and returns its placeholder.
func (p *pastes) put(text string) string {
	if p.texts == nil {
		p.texts = map[string]string{}
	}
	p.count++
	p.bytes += len(text)
	placeholder := fmt.Sprintf("[paste %d: %s]", p.count, ui.Count(strings.Count(text, "\n")+1, "line"))
	p.texts[placeholder] = text
	return placeholder
}

// fold stores a text that is too long for the input and returns its placeholder. It returns a shorter text unchanged.
func (p *pastes) fold(text string) string {
	if len(text) > shownPaste || strings.Count(text, "\n") >= shownLines {
		return p.put(text)
	}
	return text
}

// expand replaces each placeholder with its paste. A placeholder that the user has edited stays as it is.
func (p *pastes) expand(text string) string {
	for placeholder, paste := range p.texts {
		text = strings.Replace(text, placeholder, paste, 1)
	}
	return text
}

// newInput returns the input: a text area that grows with its text.
func newInput() textarea.Model {
	in := textarea.New()
	in.Prompt, in.ShowLineNumbers, in.EndOfBufferCharacter = "> ", false, ' '
	in.CharLimit, in.DynamicHeight, in.MinHeight, in.MaxHeight, in.MaxWidth = maxInput, true, 1, 1, 0
	in.KeyMap.InsertNewline = key.NewBinding(key.WithKeys("alt+enter", "ctrl+j", "shift+enter"))
	in.KeyMap.SelectAll.SetEnabled(false) // its Ctrl-G opens the editor
	// These keys use the clipboard of this machine, which over ssh is not the user's.
	in.KeyMap.Paste.SetEnabled(false)
	in.KeyMap.CopySelection.SetEnabled(false)
	in.SetStyles(textarea.Styles{})
	in.SetVirtualCursor(false)
	return in
}

// fitInput sets the input to the width of the screen and at most a quarter of its height.
func (m *Model) fitInput() {
	m.input.Prompt = "> "
	if m.cols() < narrowColumns {
		m.input.Prompt = ""
	}
	m.input.MaxHeight = max(1, m.height/4)
	m.input.MaxContentHeight = 4 * maxInput // rows; never reached, because CharLimit bounds the text
	m.input.SetWidth(m.cols())
}

// setInput replaces the text of the input. For a long text, it shows a placeholder, as for a paste.
func (m *Model) setInput(text string) {
	m.input.SetValue(m.pastes.fold(text))
	m.input.MoveToEnd()
}

// paste handles a paste from the terminal: it goes to the form that has the keys, or else into the input.
func (m *Model) paste(msg tea.PasteMsg) tea.Cmd {
	m.pressed = m.now()
	text := strings.NewReplacer("\r\n", "\n", "\r", "\n").Replace(msg.Content)
	if m.focused && m.elicitation() != nil {
		return m.updateForm(tea.PasteMsg{Content: text})
	}
	if len(text) > maxPaste || m.pastes.bytes+len(text) > allPaste {
		m.printError("the pasted text is %d bytes, too long for the chat; write it to a file and use `everturn run -s %s - "+
			"<FILE`", len(text), termsafe.Quoted(m.session))
		return nil
	}
	text = m.pastes.fold(text)
	m.focused = false // a paste is meant for the input
	var cmd tea.Cmd
	m.input, cmd = m.input.Update(tea.PasteMsg{Content: text})
	return cmd
}

// secondPressWithin is how soon a second Ctrl-C must follow the first one to have its own effect: see interrupt.
const secondPressWithin = 3 * time.Second

// key handles a key press. Ctrl-C and Ctrl-O always have their effect, Ctrl-D if the input is empty, and scroll keys
// unless the current request has the keys. All other keys go to the current request or to the input.
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
	if name == "ctrl+z" {
		return m.suspend()
	}
	m.interrupted = time.Time{} // another key came between two Ctrl-C
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
		if cmd, handled := m.menuKey(name); handled {
			return cmd
		}
	}
	switch name {
	case "esc":
		return m.escape()
	case "tab":
		m.focus()
		return nil
	case "enter":
		return m.submit()
	case "ctrl+g":
		return m.compose()
	case "ctrl+r":
		m.menu.searching = m.reason == ""
		return m.complete()
	case "up", "down":
		if m.recall(name) {
			return m.complete()
		}
	}
	var cmd tea.Cmd
	m.input, cmd = m.input.Update(msg)
	return tea.Batch(cmd, m.complete())
}

// escape handles Esc in the input. It ends the input of a denial's reason, or stops the user's command or the running
// turn. While a request waits, it stops nothing: the same key has just switched from the request to the input.
func (m *Model) escape() tea.Cmd {
	switch p := m.currentRequest(); {
	case m.menu.searching: // for a text that the history does not have
		m.menu.searching = false
	case m.toDeny() != nil:
		m.focus()
	case m.reason != "":
		m.endReason()
	case m.stopShell():
	case m.turn.id == "":
		m.hint("Ctrl-D leaves; /help shows more")
	case p != nil && p.Kind != turn.RequestQuestion:
		m.hint("Ctrl-C twice stops the turn; Ctrl-D leaves it running")
	case !m.turn.stopping:
		return m.stop()
	}
	return nil
}

// interrupt handles Ctrl-C. It stops the user's command. If none runs, the first one clears the input or shows a hint;
// a second one stops the turn, or leaves if no turn runs.
func (m *Model) interrupt() tea.Cmd {
	if m.stopShell() {
		return nil
	}
	if m.interrupted.IsZero() || m.now().Sub(m.interrupted) > secondPressWithin {
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
	if m.turn.id != "" {
		m.interrupted = time.Time{}
		return m.stop()
	}
	m.interrupted = m.now() // the next one leaves if detach only shows a warning
	return m.detach()
}

// detach leaves the chat. If a message has not been accepted yet, the first call only shows a warning, and the next one
// leaves.
func (m *Model) detach() tea.Cmd {
	if len(m.outbox.unsent()) > 0 && !m.outbox.warned {
		m.outbox.warned = true
		m.hint("a message is still being sent; press again to leave anyway, and it may be lost")
		return nil
	}
	m.leaving = true
	return nil
}

// recall handles the keys up and down in the input. If the cursor is in the first or the last row, it puts the previous
// or the next text of the history into the input. Otherwise it returns false, and the key moves the cursor.
func (m *Model) recall(name string) bool {
	by, atEdge := -1, m.input.Line() == 0 && m.input.LineInfo().RowOffset == 0
	if name == "down" {
		info := m.input.LineInfo()
		by, atEdge = 1, m.input.Line() == m.input.LineCount()-1 && info.RowOffset >= info.Height-1
	}
	if !atEdge {
		return false
	}
	if text, ok := m.history.move(by, m.pastes.expand(m.input.Value())); ok {
		m.pastes = pastes{}
		m.setInput(text)
		if by < 0 { // to the first row, so that the next key press recalls the text before
			m.input.MoveToBegin()
			m.input.CursorEnd()
		}
	}
	return true
}

// submit handles Enter in the input. Its text is the reason of a denial, a slash command, a command of the shell, the
// answer to the current question, or a message.
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
	// A text of several lines was most likely pasted, and must not run.
	if strings.HasPrefix(text, "!") && !strings.HasPrefix(text, "!!") && !strings.Contains(text, "\n") {
		return m.runShell(strings.TrimSpace(text[1:]))
	}
	if strings.HasPrefix(text, "//") || strings.HasPrefix(text, "!!") {
		text = text[1:] // two of them begin a message that starts with one
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

// denyWithReason denies the call for which the user has typed a reason, unless it was decided elsewhere meanwhile, and
// restores the input from before.
func (m *Model) denyWithReason(text string) tea.Cmd {
	p := m.toDeny()
	m.history.add(text)
	m.pastes = pastes{}
	m.endReason()
	if p == nil {
		m.note("the call was decided meanwhile; your reason was not sent")
		return nil
	}
	return m.send(p, client.DecideInput{Reason: text})
}

// queueMessage puts a message into the outbox and clears the input, unless too many messages wait or a file that the
// message names cannot be attached. The message starts a turn or is merged into the running one. With queue, it is not
// merged, but for the turn after the running one.
func (m *Model) queueMessage(text string, queue bool) tea.Cmd {
	if len(m.outbox.list) >= maxOutbox {
		m.hint("%d messages are already waiting; wait for the turn, or /stop it", maxOutbox)
		return nil
	}
	out := outgoing{typed: text, text: text, queue: queue && m.turn.id != ""}
	if err := out.attach(m.input.Value(), m.tree()); err != nil {
		m.printError("%v", err)
		return nil
	}
	if len(out.media) > 0 && m.o.SeesImages != nil && !m.o.SeesImages(m.o.Requested) {
		m.note("the model takes no images: it is told what was attached, but cannot see it; /model chooses another one")
	}
	out.include(m.commands)
	m.commands = nil
	m.clearInput(text)
	m.outbox.put(out)
	return nil
}

// clearInput adds a text to the history and clears the input.
func (m *Model) clearInput(text string) {
	m.history.add(text)
	m.pastes = pastes{}
	m.setInput("")
	m.menu.searching = false
	m.complete()
}
