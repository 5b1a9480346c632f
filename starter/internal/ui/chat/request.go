package chat

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
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
	turn string // the ID of the turn that waits
	// session is the session of the subagent whose turn waits; empty if it is the chat's session.
	session string
	// sent means that a decision has been sent.
	sent bool
	// rung means that the terminal's bell has told of the request.
	rung bool

	page viewport.Model // the visible rows of the arguments
	rows int            // the number of rows at the last layout
	seen int            // how many rows have been shown without a gap, counted from the first
	// read means that all rows have been shown. The user cannot allow a call before.
	read bool
	// fits means that the tool and at least one row of the arguments are on the screen now.
	fits bool
	// offered caches the result of verdicts, and diff that of diffOf.
	offered []ui.Verdict
	diff    *string

	form *form.Dialog // of an elicitation
}

// requestOf decodes the event of a request or of its decision. It returns false if the event is malformed.
func requestOf(e turn.Event) (turn.Request, bool) {
	var p turn.Request
	err := json.Unmarshal(e.Data, &p)
	return p, err == nil && p.ID != ""
}

// keyDelay is the calm period: how long a request must be on the screen, and how long the user must not have pressed a
// key, before keys go to the request. Otherwise the y of a word that the user is typing could allow a call.
const keyDelay = 600 * time.Millisecond

// keyDelayMsg arrives when the calm period of the request with this key has passed.
type keyDelayMsg struct{ key string }

// showRequest adds a new request of the session's turn. arguments are the complete arguments of the call; empty if the
// event has them.
func (m *Model) showRequest(e turn.Event, arguments string) {
	requested, ok := requestOf(e)
	if !ok {
		return
	}
	m.endText()
	if requested.Kind == turn.RequestResult { // a client, and not this user, runs the call
		m.addText(entryNote, ui.Requested(requested))
		return
	}
	p := &pendingRequest{Request: requested, turn: e.Turn, page: newPage()}
	if arguments != "" {
		p.Arguments = arguments
	}
	m.addRequest(p)
}

// addRequest adds a request to those that wait. The text of an elicitation also becomes part of the conversation,
// because the panel has room only for its form.
func (m *Model) addRequest(p *pendingRequest) {
	m.pending = append(m.pending, p)
	if p.Kind == turn.RequestElicitation {
		m.addText(entryNote, "? "+ui.Asks(p.Request)+":")
		m.addText(entryQuoted, elicitationText(p.Request))
	}
}

// currentRequest returns the oldest pending request, which the chat shows to the user now; nil if there is none.
func (m *Model) currentRequest() *pendingRequest {
	if len(m.pending) == 0 {
		return nil
	}
	return m.pending[0]
}

// question returns the current request if it is a question, which the next text in the input answers; otherwise nil.
func (m *Model) question() *pendingRequest {
	if p := m.currentRequest(); p != nil && p.Kind == turn.RequestQuestion {
		return p
	}
	return nil
}

// approval returns the current request if it is an approval; otherwise nil.
func (m *Model) approval() *pendingRequest {
	if p := m.currentRequest(); p != nil && p.Kind == turn.RequestApproval {
		return p
	}
	return nil
}

// verdicts returns the verdicts that the request permits. It computes them once, because that hashes the arguments.
func (p *pendingRequest) verdicts() []ui.Verdict {
	if p.offered == nil {
		p.offered = ui.Verdicts(p.Request)
	}
	return p.offered
}

// takes reports whether the key of a verdict has an effect. The keys of verdicts that only some tools have do nothing if
// the request does not permit them.
func (p *pendingRequest) takes(v ui.Verdict) bool {
	common := !v.Edit && v.Grant != turn.GrantHost && v.Grant != turn.GrantCommand
	return common || slices.ContainsFunc(p.verdicts(), func(o ui.Verdict) bool { return o.Key == v.Key })
}

// diffOf returns the diff of the call that waits for approval; "" if it changes no file. It is computed once, so that
// it stays while the user reads it.
func (m *Model) diffOf(p *pendingRequest) string {
	if p.diff == nil {
		workspace := ""
		if m.o.Workspace != nil {
			workspace = m.o.Workspace(cmp.Or(p.Session, m.session))
		}
		diff := ui.DiffIn(workspace, p.Tool, p.Arguments)
		p.diff = &diff
	}
	return *p.diff
}

// key identifies the request among those of all turns.
func (p *pendingRequest) key() string { return requestKey(p.turn, p.ID) }

func requestKey(turnID, request string) string { return turnID + " " + request }

// elicitation returns the current request if it is an elicitation; otherwise nil.
func (m *Model) elicitation() *pendingRequest {
	if p := m.currentRequest(); p != nil && p.Kind == turn.RequestElicitation {
		return p
	}
	return nil
}

// watchRequest starts the calm period if the current request has changed, and its form if it is an elicitation. Until
// the period has passed, keys do not go to the request unless the user presses Tab. A question needs no such period,
// because the user answers it in the input.
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
	return tea.Batch(m.startKeyDelay(p.key()), m.startForm(p))
}

// ringBell returns the command that rings the terminal's bell if a request is new; otherwise nil.
func (m *Model) ringBell() (bell tea.Cmd) {
	for _, p := range m.pending {
		if !p.rung {
			p.rung, bell = true, tea.Raw("\a")
		}
	}
	return bell
}

func (m *Model) startKeyDelay(key string) tea.Cmd {
	return m.later(keyDelay, func(time.Time) tea.Msg { return keyDelayMsg{key} })
}

// endKeyDelay directs keys to the current request when its calm period has passed. If the user is typing, it starts
// another period: the user may have sent or cleared the text by its end.
func (m *Model) endKeyDelay(msg keyDelayMsg) tea.Cmd {
	p := m.currentRequest()
	switch {
	case p == nil || p.key() != msg.key || m.focused || p.sent:
		return nil
	case m.typing || m.input.Value() != "" || m.reason != "" || m.now().Sub(m.pressed) < keyDelay:
		return m.startKeyDelay(msg.key)
	}
	m.focused = true
	return nil
}

// focus directs keys to the current request, unless that is a question or has been decided.
func (m *Model) focus() {
	if p := m.currentRequest(); p != nil && !p.sent && p.Kind != turn.RequestQuestion {
		if m.reason != "" {
			m.endReason()
		}
		m.focused, m.typing = true, false
	}
}

// unfocus directs keys to the input. They go to the request again when the user presses Tab, or some time after the
// user has sent a message.
func (m *Model) unfocus() tea.Cmd {
	m.focused, m.typing = false, true
	return m.startKeyDelay(m.watched)
}

// startReason lets the user type the reason of a denial in the input. It keeps the text that the input had, which
// endReason restores. Keys go to the request again some time after that.
func (m *Model) startReason(p *pendingRequest) tea.Cmd {
	m.reason, m.draft = p.key(), m.input.Value()
	m.setInput("")
	m.focused = false
	return m.startKeyDelay(m.watched)
}

// toDeny returns the current request if the user is typing the reason of its denial; nil if the user types none, or if
// the request of the reason was decided meanwhile.
func (m *Model) toDeny() *pendingRequest {
	if p := m.approval(); p != nil && p.key() == m.reason {
		return p
	}
	return nil
}

// endReason ends the input of a reason and restores the text that the input had before.
func (m *Model) endReason() {
	m.reason = ""
	m.setInput(m.draft)
	m.draft = ""
}

// decideKey handles a key press while the current request is an approval and has the keys: it decides, scrolls the
// arguments, or switches to the input.
func (m *Model) decideKey(msg tea.KeyPressMsg) tea.Cmd {
	p := m.approval()
	if p == nil {
		return nil
	}
	if v, ok := ui.VerdictOf(msg.String()); ok && msg.Text != "" && p.takes(v) { // keys that type nothing decide nothing
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

// decide sends a verdict about a call. It refuses to allow a call whose arguments have not all been on the screen. A
// verdict with a grant also allows the pending calls that the grant covers.
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
		return m.send(p, client.DecideInput{Allow: v.Allow, Grant: v.Grant, Covered: v.Grant != ""})
	}
	return nil
}

// send sends the decision in about a request; send fills in the request and the person. If a decision has been sent
// already, send does nothing.
func (m *Model) send(p *pendingRequest, in client.DecideInput) tea.Cmd {
	if p.sent {
		return nil
	}
	p.sent, m.focused = true, false
	in.Session, in.Turn, in.Request, in.ArgumentsHash, in.By = m.sessionOf(p), p.turn, p.ID, p.ArgumentsHash, m.o.Person
	keys := []string{p.key()}
	for _, other := range m.pending {
		if !other.sent && other.turn == p.turn && in.Covered && p.Covers(in.Grant, other.Request) {
			other.sent, keys = true, append(keys, other.key())
		}
	}
	return m.background(func(ctx context.Context) tea.Msg {
		decided, err := m.o.Client.Decide(ctx, in)
		if err == nil { // the turn may have allowed fewer calls
			keys = slices.DeleteFunc(keys, func(key string) bool {
				return slices.ContainsFunc(decided, func(d turn.Decision) bool { return key == requestKey(in.Turn, d.ID) })
			})
		}
		return decidedMsg{keys, err}
	})
}

// decidedMsg is the result of sending a decision, an answer or a response.
type decidedMsg struct {
	keys []string // the keys of the requests that the user can decide again
	err  error
}

// decided handles the result of sending a decision. After an error, the user can decide again, unless the request no
// longer waits. An accepted decision is shown when the feed reads it from the journal: see showDecision.
func (m *Model) decided(msg decidedMsg) {
	var refused *turn.Error
	if errors.As(msg.err, &refused) && refused.Code == turn.CodeNotWaiting {
		m.note("%s", refused.Message) // the request was already decided; the journal says by whom
		return
	}
	if msg.err != nil {
		m.printError("sending the decision: %v", msg.err)
	}
	for i := range m.pending {
		if slices.Contains(msg.keys, m.pending[i].key()) {
			// A form that is complete takes no keys: watchRequest starts a new one.
			m.pending[i].sent, m.pending[i].form, m.watched = false, nil, ""
		}
	}
}

// answer sends the answer to a question. The message that holds it is shown as one that was sent from this chat.
func (m *Model) answer(p *pendingRequest, text string) tea.Cmd {
	if p.session == "" {
		m.outbox.addOwn(workflows.AnswerID(p.turn, p.ID))
	}
	return m.send(p, client.DecideInput{Text: text})
}

// showDecision removes a decided request from those that wait and shows the decision, wherever it was made, or that the
// request has expired.
func (m *Model) showDecision(e turn.Event) {
	decided, ok := requestOf(e)
	if !ok {
		return
	}
	for i, p := range m.pending {
		if p.turn == e.Turn && p.ID == decided.ID {
			p.Decision = decided.Decision
			decided = p.Request // the event of the decision does not have all of it
			m.pending = append(m.pending[:i:i], m.pending[i+1:]...)
			break
		}
	}
	if decided.Decision != nil {
		m.addText(entryNote, ui.Decided(decided))
	}
}
