package chat

import (
	"strings"

	tea "charm.land/bubbletea/v2"

	"github.com/everturn/everturn/client"
	"github.com/everturn/everturn/starter/internal/ui"
	"github.com/everturn/everturn/starter/internal/ui/form"
	"github.com/everturn/everturn/starter/internal/ui/termsafe"
	"github.com/everturn/everturn/workflows/turn"
)

// Elicitations: requests by an MCP server in the middle of a tool call. The conversation has the server's text in full;
// the panel shows the form.

// elicitationText describes an elicitation, with its fields and who gets the response, safe for a terminal.
func elicitationText(r turn.Request) string {
	var lines []string
	for _, p := range ui.Elicitation(r) {
		lines = append(lines, termsafe.Visible(p.Text))
	}
	return strings.Join(lines, "\n")
}

// startForm creates the form of an elicitation, unless the request has one or is something else.
func (m *Model) startForm(p *pendingRequest) tea.Cmd {
	if p.Kind != turn.RequestElicitation || p.form != nil {
		return nil
	}
	p.form = form.NewDialog(form.ElicitationOf(p.Request)).Resize(m.cols(), max(4, m.height/2))
	return p.form.Init()
}

// updateForm passes a message to the form of the current elicitation, and sends the response when the form is complete.
func (m *Model) updateForm(msg tea.Msg) tea.Cmd {
	p := m.elicitation()
	if p == nil || p.form == nil || p.sent {
		return nil
	}
	cmd := p.form.Update(msg)
	if r, complete := p.form.Response(); complete {
		return m.respond(p, r)
	}
	return cmd
}

// respond sends the response r to the elicitation p.
func (m *Model) respond(p *pendingRequest, r turn.ElicitationResponse) tea.Cmd {
	return m.send(p, client.DecideInput{Response: &r})
}

// declineCommand declines the current elicitation.
func (m *Model) declineCommand(string) tea.Cmd {
	p := m.elicitation()
	switch {
	case p == nil:
		m.printError("no server asks for anything; deny an approval with n")
		return nil
	case p.sent:
		m.hint("the answer is being sent")
		return nil
	}
	return m.respond(p, form.Decline(form.ElicitationOf(p.Request)))
}
