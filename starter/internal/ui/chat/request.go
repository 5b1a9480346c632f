package chat

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"charm.land/bubbles/v2/viewport"
	tea "charm.land/bubbletea/v2"

	"github.com/everturn/everturn/client"
	"github.com/everturn/everturn/starter/internal/ui"
	"github.com/everturn/everturn/starter/internal/ui/form"
	"github.com/everturn/everturn/starter/internal/ui/termsafe"
	"github.com/everturn/everturn/workflows"
	"github.com/everturn/everturn/workflows/turn"
)

// pendingRequest is a request that waits for the user.
type pendingRequest struct {
	turn.Request
	turn string
	// session is that of a subagent whose turn makes the request; empty for the chat's own.
	session string
	// sent reports that a decision is on its way.
	sent bool

	page viewport.Model // the visible rows of the arguments
	rows int            // the number of rows at the last layout
	seen int            // how many rows have been shown without a gap, counted from the first
	// read reports that all rows were shown. The chat does not allow a call with rows that were never on the screen.
	read bool
	// fits reports that the tool and at least one row of the arguments are on the screen.
	fits bool
	// offered are the verdicts that the request permits: see verdicts.
	offered []ui.Verdict

	form *form.Dialog // of an elicitation
}

// requestOf decodes the event of a request or of its decision.
func requestOf(e turn.Event) (turn.RequestEvent, bool) {
	var p turn.RequestEvent
	err := json.Unmarshal(e.Data, &p)
	return p, err == nil && p.ID != ""
}

// calm is how long a request must be visible, and how long no key must have been pressed, before keys decide it.
// Otherwise the y of a word that the user is typing could allow a call.
const calm = 600 * time.Millisecond

// calmMsg arrives when calm has passed since a new approval was requested.
type calmMsg struct{ wait string }

func (m *Model) showRequest(e turn.Event, arguments string) {
	asked, ok := requestOf(e)
	if !ok {
		return
	}
	m.endText()
	p := &pendingRequest{Request: asked.Request, turn: e.Turn, page: newPage()}
	if arguments != "" {
		p.Arguments = arguments
	}
	m.addRequest(p)
}

func (m *Model) addRequest(p *pendingRequest) {
	m.pending = append(m.pending, p)
	if p.Kind == turn.RequestElicitation {
		m.addText(entryNote, "? "+ui.Asks(p.Request)+":")
		m.addText(entryBarred, elicitationText(p.Request))
	}
}

// currentRequest returns the current request, the first of the waits; nil if there is none.
func (m *Model) currentRequest() *pendingRequest {
	if len(m.pending) == 0 {
		return nil
	}
	return m.pending[0]
}

// question returns the question that the input answers; nil if there is none.
func (m *Model) question() *pendingRequest {
	if p := m.currentRequest(); p != nil && p.Kind == turn.RequestQuestion {
		return p
	}
	return nil
}

func (m *Model) approval() *pendingRequest {
	if p := m.currentRequest(); p != nil && p.Kind == turn.RequestApproval {
		return p
	}
	return nil
}

// verdicts returns the verdicts that the request permits. It hashes the arguments, so it does so once.
func (p *pendingRequest) verdicts() []ui.Verdict {
	if p.offered == nil {
		p.offered = ui.Verdicts(p.Request)
	}
	return p.offered
}

func (p *pendingRequest) key() string { return p.turn + " " + p.ID }

// elicitation returns the elicitation whose form is shown; nil if there is none.
func (m *Model) elicitation() *pendingRequest {
	if p := m.currentRequest(); p != nil && p.Kind == turn.RequestElicitation {
		return p
	}
	return nil
}

// watchRequest starts the calm period if the current request is a new approval or a new form. Until calm has passed,
// its keys decide nothing unless the user presses Tab.
func (m *Model) watchRequest() tea.Cmd {
	p := m.currentRequest()
	if p == nil || p.Kind == turn.RequestQuestion {
		m.focused, m.watched = false, ""
		return nil
	}
	if m.watched == p.key() {
		return nil
	}
	m.watched, m.focused = p.key(), false
	return tea.Batch(m.startCalm(p.key()), m.startForm(p))
}

func (m *Model) startCalm(key string) tea.Cmd {
	return m.later(calm, func(time.Time) tea.Msg { return calmMsg{key} })
}

// endCalm gives the keys to the current request unless the user is typing. Otherwise it looks again later: the user may
// have sent or cleared the text by then.
func (m *Model) endCalm(msg calmMsg) tea.Cmd {
	p := m.currentRequest()
	switch {
	case p == nil || p.key() != msg.wait || m.focused || p.sent:
		return nil
	case m.typing || m.input.Value() != "" || m.reason != "" || m.now().Sub(m.pressed) < calm:
		return m.startCalm(msg.wait)
	}
	m.focused = true
	return nil
}

// focus gives the keys to the current request.
func (m *Model) focus() {
	if p := m.currentRequest(); p != nil && !p.sent && p.Kind != turn.RequestQuestion {
		if m.reason != "" {
			m.endReason()
		}
		m.focused, m.typing = true, false
	}
}

// unfocus gives the keys to the input until the user presses Tab or has sent a message.
func (m *Model) unfocus() tea.Cmd {
	m.focused, m.typing = false, true
	return m.startCalm(m.watched)
}

// startReason asks for the reason of a denial in the input, and endReason puts back what the input held before.
func (m *Model) startReason(p *pendingRequest) tea.Cmd {
	m.reason, m.draft = p.key(), m.input.Value()
	m.setInput("")
	m.focused = false
	return m.startCalm(m.watched)
}

func (m *Model) endReason() {
	m.reason = ""
	m.setInput(m.draft)
	m.draft = ""
}

// decideKey handles a key press that decides the current approval.
func (m *Model) decideKey(msg tea.KeyPressMsg) tea.Cmd {
	p := m.approval()
	if p == nil {
		return nil
	}
	if v, ok := ui.VerdictOf(msg.String()); ok && msg.Text != "" {
		return m.decide(p, v)
	}
	switch strings.ToLower(msg.String()) {
	case "r":
		return m.startReason(p)
	case "tab":
		return m.unfocus()
	case "home":
		p.page.GotoTop()
	case "end":
		p.page.GotoBottom()
	case "?":
		m.note("reason: %s", termsafe.Line(p.Why, 300)) // a small screen has no room for the reason
	default:
		before := p.page.YOffset()
		p.page, _ = p.page.Update(msg)
		if p.page.YOffset() == before && msg.Text != "" && msg.Text != " " {
			m.hint("press y to allow or n to deny; Tab switches to the input")
		}
	}
	return nil
}

// decide sends the verdict. It allows exactly the call that was shown, if all of it was. A grant also allows the later
// calls that it covers, and those that wait already.
func (m *Model) decide(p *pendingRequest, v ui.Verdict) tea.Cmd {
	switch refused := v.Refused(p.Request); {
	case refused != nil:
		m.note("%v", refused)
	case v.Allow && !p.fits:
		m.hint(tooSmall)
	case v.Allow && !p.read:
		m.hint("there is more of the arguments: press space to see the rest, then y")
	case v.Edit:
		return m.editPlan(p)
	default:
		return m.send(p, v.Allow, client.DecideInput{Grant: v.Grant, Covered: v.Grant != ""})
	}
	return nil
}

// editPlan lets the user change a plan in an editor, which takes over the terminal.
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

// editedMsg is the plan as the user has changed it in an editor; nil if it was not changed.
type editedMsg struct {
	wait string
	plan json.RawMessage
	err  error
}

// edited allows the changed plan, unless another client has decided meanwhile.
func (m *Model) edited(msg editedMsg) tea.Cmd {
	p := m.approval()
	switch {
	case msg.err != nil:
		m.printError("%v", msg.err)
	case msg.plan == nil:
		m.hint("the plan is not changed: press y to allow it as it is")
	case p == nil || p.key() != msg.wait:
		m.note("the plan was decided meanwhile; your changes were not sent")
	default:
		return m.send(p, true, client.DecideInput{ChangedPlan: msg.plan})
	}
	return nil
}

// send sends a decision about a call.
func (m *Model) send(p *pendingRequest, allow bool, in client.DecideInput) tea.Cmd {
	if p.sent {
		return nil
	}
	p.sent, m.focused = true, false
	in.Session, in.Turn, in.Call, in.ArgumentsHash, in.By = m.sessionOf(p), p.turn, p.ID, p.ArgumentsHash, m.o.Person
	decide, keys := m.o.Client.Deny, []string{p.key()}
	if allow {
		decide = m.o.Client.Approve
	}
	for _, other := range m.pending {
		if !other.sent && other.turn == p.turn && p.Covers(in.Grant, other.Request) { // the client allows it, too
			other.sent, keys = true, append(keys, other.key())
		}
	}
	return m.background(func(ctx context.Context) tea.Msg {
		_, err := decide(ctx, in)
		return decidedMsg{keys, err}
	})
}

// decidedMsg is the result of sending a decision, an answer or a response.
type decidedMsg struct {
	waits []string // the keys of the requests
	err   error
}

// decided handles the result of sending a decision. If the decision was accepted, the chat shows it once the journal
// has it.
func (m *Model) decided(msg decidedMsg) {
	if msg.err == nil {
		return
	}
	var refused *turn.Error
	if errors.As(msg.err, &refused) && refused.Code == turn.CodeNotWaiting {
		m.note("%s", refused.Message) // the request was already decided; the journal says by whom
		return
	}
	m.printError("sending the decision: %v", msg.err)
	for i := range m.pending {
		if slices.Contains(msg.waits, m.pending[i].key()) {
			m.pending[i].sent, m.pending[i].form, m.watched = false, nil, ""
		}
	}
}

// answer sends the answer to a question.
func (m *Model) answer(p *pendingRequest, text string) tea.Cmd {
	p.sent = true
	if p.session == "" {
		m.outbox.addOwn(workflows.AnswerID(p.turn, p.ID)) // the ID of the message that holds the answer
	}
	in := client.AnswerInput{Session: m.sessionOf(p), Turn: p.turn, Question: p.ID, Text: text, By: m.o.Person}
	key := p.key()
	return m.background(func(ctx context.Context) tea.Msg { return decidedMsg{[]string{key}, m.o.Client.Answer(ctx, in)} })
}

// showDecision removes a settled request from the waits and prints its decision, whether the decision was made here,
// was made elsewhere, or is the request's expiry.
func (m *Model) showDecision(e turn.Event) {
	decided, ok := requestOf(e)
	if !ok {
		return
	}
	for i, p := range m.pending {
		if p.turn == e.Turn && p.ID == decided.ID {
			decided.Request = p.Request
			m.pending = append(m.pending[:i:i], m.pending[i+1:]...)
			break
		}
	}
	if decided.Decision != nil {
		m.addText(entryNote, ui.Decided(decided))
	}
}
