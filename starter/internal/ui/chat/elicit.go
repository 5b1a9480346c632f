package chat

import (
	"context"
	"fmt"
	"strings"

	tea "charm.land/bubbletea/v2"

	"github.com/everturn/everturn/client"
	"github.com/everturn/everturn/starter/internal/ui/form"
	"github.com/everturn/everturn/starter/internal/ui/terminal"
	"github.com/everturn/everturn/workflows/turn"
)

// Elicitations: requests by an MCP server in the middle of a tool call. The chat prints the server's text in full above
// the live part; the panel shows the field that is asked for.

// elicitation returns the elicitation that the input answers; nil if there is none.
func (m *Model) elicitation() *wait {
	if w := m.asked(); w != nil && w.Kind == turn.RequestElicitation {
		return w
	}
	return nil
}

// interview returns the request's interview. The first call starts it.
func (w *wait) interview() *form.Interview {
	if w.asking == nil {
		w.asking, _ = form.NewInterview(form.InquiryOf(w.Request)) // inquiryText reports the error
	}
	return w.asking
}

// inquiryText describes everything that an elicitation asks for, and where the response goes.
func inquiryText(w turn.Request) string {
	q := form.InquiryOf(w)
	lines := []string{terminal.Visible(q.Message)}
	if q.URL != "" {
		return strings.Join(append(lines, addressLines(w, q.URL)...), "\n")
	}
	f, err := form.Parse(q.Schema)
	if err != nil {
		return strings.Join(append(lines, fmt.Sprintf("its form cannot be shown, and can only be declined: %v", err)), "\n")
	}
	lines = append(lines, f.Lines()...)
	return strings.Join(append(lines, form.Keep), "\n")
}

// addressLines shows the address to which a server sends the user. The chat never opens it.
func addressLines(w turn.Request, raw string) []string {
	a := form.AddressOf(raw)
	lines := []string{"it sends you to this address:", a.URL}
	if a.Host != "" {
		lines[0] = "it sends you to this address, which leads to " + a.Host + ":"
	}
	for _, warning := range a.Warnings {
		lines = append(lines, "beware: "+warning)
	}
	return append(lines, "open it only if you trust "+form.Asker(w)+" and expect this")
}

// elicitationPanel shows the field that is asked for now, in at most rows rows.
func (m *Model) elicitationPanel(w *wait, rows int) []string {
	i := w.interview()
	title := "? " + form.Asker(w.Request) + " asks"
	if n := len(m.waits); n > 1 {
		title += fmt.Sprintf(", 1 of %d", n)
	}
	prompt := i.Prompt()
	if w.sent {
		prompt = "answered; waiting for the turn"
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
func (m *Model) replyLine(w *wait, text string) tea.Cmd {
	i := w.interview()
	switch {
	case w.sent:
		m.hint("the answer is on its way")
		return nil
	case w.fresh: // the text was typed before the elicitation arrived, perhaps for something else
		w.fresh = false
		m.hint("this goes to %s: Enter again sends it, Ctrl-C clears it", form.Asker(w.Request))
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
func (m *Model) replyWhenOver(w *wait) tea.Cmd {
	r, over := w.interview().Reply()
	if !over || w.sent {
		return nil
	}
	w.sent = true
	in := client.RespondInput{Session: m.session, Turn: w.turn, Request: w.ID, Response: r, By: m.o.Person}
	key := w.key()
	return m.ask(func(ctx context.Context) tea.Msg { return decidedMsg{key, m.o.Client.Respond(ctx, in)} })
}

// declineCommand declines the current elicitation.
func (m *Model) declineCommand(string) tea.Cmd {
	w := m.elicitation()
	if w == nil {
		m.refuse("no server asks anything; an approval is denied with n")
		return nil
	}
	if w.sent {
		m.hint("the answer is on its way")
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
		m.hint("/decline says no; Ctrl-D leaves, and the question stays open")
	}
	return true
}

// ruledInquiry describes the decision on an elicitation in one line. It omits the content of the response, which stays
// between the user and the server.
func ruledInquiry(p turn.RequestChunk) string {
	came := string(p.Decision.Status)
	if p.Decision.Response != nil {
		came = form.Acted(*p.Decision.Response)
	}
	return fmt.Sprintf("? %s: %s · %s", form.Asker(p.Request), terminal.Line(form.InquiryOf(p.Request).Message, 2*previewRunes), came)
}
