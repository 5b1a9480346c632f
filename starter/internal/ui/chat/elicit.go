package chat

import (
	"context"
	"fmt"
	"strings"

	tea "charm.land/bubbletea/v2"

	"github.com/everturn/everturn/client"
	"github.com/everturn/everturn/starter/internal/ui"
	"github.com/everturn/everturn/starter/internal/ui/form"
	"github.com/everturn/everturn/starter/internal/ui/termsafe"
	"github.com/everturn/everturn/workflows/turn"
)

// Elicitations: requests by an MCP server in the middle of a tool call. The chat prints the server's text in full above
// the live part; the panel shows the field that is asked for.

// elicitation returns the elicitation that the input answers; nil if there is none.
func (m *Model) elicitation() *pendingRequest {
	if w := m.currentRequest(); w != nil && w.Kind == turn.RequestElicitation {
		return w
	}
	return nil
}

// interview returns the request's interview. The first call starts it.
func (w *pendingRequest) interview() *form.Interview {
	if w.dialog == nil {
		w.dialog, _ = form.NewInterview(form.ElicitationOf(w.Request)) // ui.Elicitation reports the error
	}
	return w.dialog
}

// elicitationText describes everything that an elicitation asks for, and where the response goes.
func elicitationText(r turn.Request) string {
	var lines []string
	for _, p := range ui.Elicitation(r) {
		lines = append(lines, termsafe.Visible(p.Text))
	}
	return strings.Join(lines, "\n")
}

// elicitationPanel shows the field that is asked for now, in at most rows rows.
func (m *Model) elicitationPanel(w *pendingRequest, rows int) []string {
	i := w.interview()
	title := "? " + form.Asker(w.Request) + " asks"
	if n := len(m.pending); n > 1 {
		title += fmt.Sprintf(", 1 of %d", n)
	}
	prompt := i.Prompt()
	if w.sent {
		prompt = "answered; waiting for the turn to continue"
	}
	below := clip(wrapText(prompt, m.cols()), max(1, rows/2))
	head := []string{cutWidth(title, m.cols())}
	var lines []string
	for _, l := range i.Lines() {
		lines = append(lines, breakText(l, m.cols())...)
	}
	lines = clip(lines, rows-len(head)-len(below))
	if rows < len(head)+len(below) {
		head = nil
	}
	return append(append(m.palette.paintLines(yellow, head), lines...), below...)
}

// replyLine passes a line to the interview.
func (m *Model) replyLine(w *pendingRequest, text string) tea.Cmd {
	i := w.interview()
	switch {
	case w.sent:
		m.hint("the answer is being sent")
		return nil
	case w.typedBefore: // the text was typed before the elicitation arrived, perhaps for something else
		w.typedBefore = false
		m.hint("your text goes to %s: press Enter again to send it, or Ctrl-C to clear it", form.Asker(w.Request))
		return nil
	}
	if err := i.Take(text); err != nil {
		m.hint("%v", err)
		return nil
	}
	m.pastes = pastes{}
	m.setInput("") // responses to servers are not kept in the history
	return m.replyWhenOver(w)
}

// replyWhenOver sends the response if the interview is over.
func (m *Model) replyWhenOver(w *pendingRequest) tea.Cmd {
	r, over := w.interview().Response()
	if !over || w.sent {
		return nil
	}
	w.sent = true
	in := client.RespondInput{Session: m.session, Turn: w.turn, Request: w.ID, Response: r, By: m.o.Person}
	key := w.key()
	return m.background(func(ctx context.Context) tea.Msg { return decidedMsg{key, m.o.Client.Respond(ctx, in)} })
}

// declineCommand declines the current elicitation.
func (m *Model) declineCommand(string) tea.Cmd {
	w := m.elicitation()
	if w == nil {
		m.refuse("no server asks for anything; deny an approval with n")
		return nil
	}
	if w.sent {
		m.hint("the answer is being sent")
		return nil
	}
	w.interview().Decline()
	return m.replyWhenOver(w)
}

// backToField goes back to the previous field; false if the input answers no elicitation.
func (m *Model) backToField() bool {
	w := m.elicitation()
	if w == nil || w.sent {
		return false
	}
	if !w.interview().Back() {
		m.hint("/decline declines; Ctrl-D leaves the request open")
	}
	return true
}
