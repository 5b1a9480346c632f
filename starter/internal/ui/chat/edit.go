package chat

import (
	"encoding/json"
	"fmt"
	"os"
	"strings"

	tea "charm.land/bubbletea/v2"
	"golang.org/x/sys/unix"

	"github.com/everturn/everturn/client"
	"github.com/everturn/everturn/starter/internal/ui"
)

// compose opens the text of the input in the user's editor, which takes over the terminal. A composedMsg has the result.
func (m *Model) compose() tea.Cmd {
	cmd, edited, err := ui.EditText(m.pastes.expand(m.input.Value()), "message-*.md", maxPaste)
	if err != nil {
		m.printError("%v", err)
		return nil
	}
	return tea.ExecProcess(cmd, func(failed error) tea.Msg {
		text, err := edited()
		if failed != nil {
			err = fmt.Errorf("the input is not changed: the editor: %w", failed)
		}
		return composedMsg{text, err}
	})
}

// composedMsg arrives when the user has closed the editor of the input.
type composedMsg struct {
	text string
	err  error
}

// composed puts the text from the editor into the input.
func (m *Model) composed(msg composedMsg) {
	if msg.err != nil {
		m.printError("%v", msg.err)
		return
	}
	m.pastes = pastes{}
	m.setInput(strings.TrimRight(msg.text, "\n"))
	m.complete()
}

// suspend stops the chat's process, as Ctrl-Z does in a shell, until the shell continues it. Without a shell that could
// do so, it does nothing: the kernel would not stop the process, and the chat would wait for ever to be continued.
func (m *Model) suspend() tea.Cmd {
	session, err := unix.Getsid(0)
	above, aboveErr := unix.Getsid(os.Getppid())
	group, groupErr := unix.Getpgid(os.Getppid())
	if err != nil || aboveErr != nil || groupErr != nil || session != above || group == unix.Getpgrp() {
		m.hint("there is no shell that could continue the chat")
		return nil
	}
	return tea.Suspend
}

// editPlan opens a plan in the user's editor, which takes over the terminal. An editedMsg reports the result.
func (m *Model) editPlan(p *pendingRequest) tea.Cmd {
	cmd, changed, err := ui.Editor(p.Arguments)
	if err != nil {
		m.printError("%v", err)
		return nil
	}
	key := p.key()
	return tea.ExecProcess(cmd, func(failed error) tea.Msg {
		plan, err := changed()
		if failed != nil {
			plan, err = nil, fmt.Errorf("the plan is not changed: the editor: %w", failed)
		}
		return editedMsg{key, plan, err}
	})
}

// editedMsg arrives when the user has closed the editor of a plan.
type editedMsg struct {
	key  string          // the key of the request
	plan json.RawMessage // the changed plan; nil if the user did not change it
	err  error
}

// edited approves the plan with the user's changes, unless the request was decided elsewhere meanwhile.
func (m *Model) edited(msg editedMsg) tea.Cmd {
	p := m.approval()
	switch {
	case msg.err != nil:
		m.printError("%v", msg.err)
	case msg.plan == nil:
		m.hint("the plan is not changed: press y to allow it as it is")
	case p == nil || p.key() != msg.key:
		m.note("the plan was decided meanwhile; your changes were not sent")
	default:
		return m.send(p, client.DecideInput{Allow: true, ChangedPlan: msg.plan})
	}
	return nil
}
