package chat

import (
	"encoding/json"
	"fmt"

	tea "charm.land/bubbletea/v2"

	"github.com/everturn/everturn/client"
	"github.com/everturn/everturn/starter/internal/ui"
)

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
