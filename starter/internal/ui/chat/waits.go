package chat

import (
	"context"
	"encoding/json"
	"errors"
	"time"

	tea "charm.land/bubbletea/v2"

	"github.com/everturn/everturn/client"
	"github.com/everturn/everturn/journal"
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
	// complete reports that Arguments match ArgumentsHash, so that they are all that would run. Otherwise the chat cannot
	// allow the call.
	complete bool
	// sent reports that a decision is on its way.
	sent bool

	scroll int // the first visible row of the arguments
	// rows is the number of rows of the arguments, and room is how many of them were shown last. seen is how many have
	// been shown without a gap, counted from the first.
	rows, room, seen int
	// read reports that all rows were shown. The chat does not allow a call with rows that were never on the screen.
	read bool
	// fits reports that the tool and at least one row of the arguments are on the screen.
	fits bool

	dialog      *form.Interview // of an elicitation
	typedBefore bool            // the input was not empty when the elicitation arrived
}

// requestOf decodes the chunk of a request or of its decision.
func requestOf(c turn.Chunk) (turn.RequestChunk, bool) {
	var p turn.RequestChunk
	err := json.Unmarshal(c.Data, &p)
	return p, err == nil && p.ID != ""
}

// calm is how long a request must be visible, and how long no key must have been pressed, before keys decide it.
// Otherwise the y of a word that the user is typing could allow a call.
const calm = 600 * time.Millisecond

// calmMsg arrives when calm has passed since a new approval was requested.
type calmMsg struct{ wait string }

func (m *Model) showRequest(c turn.Chunk, arguments string) {
	asked, ok := requestOf(c)
	if !ok {
		return
	}
	m.settleText()
	w := pendingRequest{Request: asked.Request, turn: c.Turn}
	if arguments != "" {
		w.Arguments = arguments
	}
	w.complete = journal.HashOf([]byte(w.Arguments)) == w.ArgumentsHash
	m.pending = append(m.pending, w)
	if w.Kind == turn.RequestElicitation {
		m.printText(entryNote, "? "+ui.Asks(w.Request)+":")
		m.printText(entryBarred, elicitationText(w.Request))
	}
}

// currentRequest returns the current request, the first of the waits; nil if there is none.
func (m *Model) currentRequest() *pendingRequest {
	if len(m.pending) == 0 {
		return nil
	}
	return &m.pending[0]
}

// question returns the question that the input answers; nil if there is none.
func (m *Model) question() *pendingRequest {
	if w := m.currentRequest(); w != nil && w.Kind == turn.RequestQuestion {
		return w
	}
	return nil
}

func (m *Model) approval() *pendingRequest {
	if w := m.currentRequest(); w != nil && w.Kind == turn.RequestApproval {
		return w
	}
	return nil
}

func (w *pendingRequest) key() string { return w.turn + " " + w.ID }

// watchRequest starts the calm period if the current request is a new approval. Until calm has passed, keys decide
// nothing unless the user presses Tab.
func (m *Model) watchRequest() tea.Cmd {
	if e := m.elicitation(); e != nil && m.watched != e.key() {
		m.watched, e.typedBefore = e.key(), m.input.Value() != ""
	}
	w := m.approval()
	if w == nil {
		m.deciding = false
		if m.currentRequest() == nil {
			m.watched = ""
		}
		return nil
	}
	if m.watched == w.key() {
		return nil
	}
	m.watched, m.deciding = w.key(), false
	return m.startCalm(w.key())
}

func (m *Model) startCalm(key string) tea.Cmd {
	return m.later(calm, func(time.Time) tea.Msg { return calmMsg{key} })
}

// endCalm lets keys decide the current approval unless the user is typing.
func (m *Model) endCalm(msg calmMsg) tea.Cmd {
	w := m.approval()
	switch {
	case w == nil || w.key() != msg.wait || m.deciding:
		return nil
	case m.input.Value() != "" || m.reason != "":
		return nil // Tab switches to the decision
	case m.now().Sub(m.pressed) < calm:
		return m.startCalm(msg.wait)
	}
	m.deciding = true
	return nil
}

// decideWithGrant allows a call and later ones. If the request cannot be granted, it shows why.
func (m *Model) decideWithGrant(w *pendingRequest, scope turn.GrantScope) tea.Cmd {
	if !w.Grants(scope) {
		m.note("%s", w.WhyNoGrant())
		return nil
	}
	return m.decide(w, true, client.DecideInput{Grant: scope})
}

// decideKey handles a key press that decides the current approval.
func (m *Model) decideKey(key string) tea.Cmd {
	w := m.approval()
	switch key {
	case "y", "Y":
		return m.decide(w, true, client.DecideInput{})
	case "a", "A":
		return m.decideWithGrant(w, turn.GrantCall)
	case "t", "T":
		return m.decideWithGrant(w, turn.GrantTool)
	case "n", "N":
		return m.decide(w, false, client.DecideInput{})
	case "r", "R":
		m.reason, m.deciding = w.key(), false
		m.hint("type the reason; Enter denies the call, Esc goes back")
	case "tab":
		m.deciding = false
	case "up", "k":
		w.scroll--
	case "down", "j":
		w.scroll++
	case "pgup":
		w.scroll -= w.page()
	case "pgdown", "space":
		w.scroll += w.page()
	case "home":
		w.scroll = 0
	case "end":
		w.scroll = w.rows
	case "?":
		if w.Why != "" { // a small screen has no room for the reason
			m.note("reason: %s", termsafe.Line(w.Why, 300))
		}
		m.note(keyHelp)
	default:
		m.hint("press y to allow or n to deny; Tab switches to the input")
	}
	return nil
}

// decide sends a decision about exactly the call that was shown.
func (m *Model) decide(w *pendingRequest, allow bool, in client.DecideInput) tea.Cmd {
	if w.sent {
		return nil
	}
	if allow && !w.complete {
		m.hint("the arguments are incomplete: the call can only be denied; press n")
		return nil
	}
	if allow && !w.fits {
		m.hint(tooSmall)
		return nil
	}
	if allow && !w.read {
		m.hint("there is more of the arguments: press space to see the rest, then y")
		return nil
	}
	w.sent, m.deciding = true, false
	in.Session, in.Turn, in.Call, in.ArgumentsHash, in.By = m.session, w.turn, w.ID, w.ArgumentsHash, m.o.Person
	key, decide := w.key(), m.o.Client.Deny
	if allow {
		decide = m.o.Client.Approve
	}
	return m.background(func(ctx context.Context) tea.Msg {
		_, err := decide(ctx, in)
		return decidedMsg{key, err}
	})
}

// decidedMsg is the result of sending a decision, an answer or a response.
type decidedMsg struct {
	wait string
	err  error
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
		if m.pending[i].key() == msg.wait {
			m.pending[i].sent, m.pending[i].dialog, m.watched = false, nil, ""
		}
	}
}

// answer sends the answer to a question.
func (m *Model) answer(w *pendingRequest, text string) tea.Cmd {
	w.sent = true
	m.outbox.addOwn(workflows.AnswerID(w.turn, w.ID)) // the ID of the message that holds the answer
	in := client.AnswerInput{Session: m.session, Turn: w.turn, Question: w.ID, Text: text, By: m.o.Person}
	key := w.key()
	return m.background(func(ctx context.Context) tea.Msg { return decidedMsg{key, m.o.Client.Answer(ctx, in)} })
}

// showDecision removes a settled request from the waits and prints its decision, whether the decision was made here,
// was made elsewhere, or is the request's expiry.
func (m *Model) showDecision(c turn.Chunk) {
	decided, ok := requestOf(c)
	if !ok {
		return
	}
	for i, w := range m.pending {
		if w.turn == c.Turn && w.ID == decided.ID {
			decided.Request = w.Request
			m.pending = append(m.pending[:i:i], m.pending[i+1:]...)
			break
		}
	}
	if decided.Decision != nil {
		m.printText(entryDecision, ui.Decided(decided))
	}
}
