package chat

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	tea "charm.land/bubbletea/v2"

	"github.com/everturn/everturn/client"
	"github.com/everturn/everturn/journal"
	"github.com/everturn/everturn/starter/form"
	"github.com/everturn/everturn/starter/terminal"
	"github.com/everturn/everturn/workflows"
	"github.com/everturn/everturn/workflows/turn"
)

// wait is something that a person is asked for.
type wait struct {
	turn.Request
	turn string
	// whole: Arguments have ArgumentsHash: they are all that would run. Otherwise the call cannot be allowed.
	whole bool
	// sent: a decision is on its way.
	sent bool

	scroll int // the first row of the arguments that is shown
	// rows is how many there are, and room how many were shown last; seen is how many were, from the first on.
	rows, room, seen int
	// read: all of them were. What was not on the screen is not allowed.
	read bool
	// fits: the tool and a row of the arguments are on the screen.
	fits bool

	asking *form.Interview // of an elicitation
	fresh  bool            // something was in the input when it came
}

// people reads the data of what people are asked and say.
func people(c turn.Chunk) (turn.RequestChunk, bool) {
	var p turn.RequestChunk
	err := json.Unmarshal(c.Data, &p)
	return p, err == nil && p.ID != ""
}

// calm is how long a person has to see what is asked before keys decide about it, and how long none must have been
// pressed: a y of a word that is being typed allows nothing.
const calm = 600 * time.Millisecond

// calmMsg comes when calm has passed since something new was asked.
type calmMsg struct{ wait string }

func (m *Model) showWait(c turn.Chunk, arguments string) {
	asked, ok := people(c)
	if !ok {
		return
	}
	m.settleText()
	w := wait{Request: asked.Request, turn: c.Turn}
	if arguments != "" {
		w.Arguments = arguments
	}
	w.whole = journal.HashOf([]byte(w.Arguments)) == w.ArgumentsHash
	m.waits = append(m.waits, w)
	if w.Kind == turn.RequestElicitation {
		m.say(entryNote, "? "+form.Asker(w.Request)+" asks, in the middle of a call of "+terminal.Line(w.Tool, previewRunes)+":")
		m.say(entryBarred, inquiryText(w.Request))
	}
}

// asked is what the person is asked now: the first of the waits.
func (m *Model) asked() *wait {
	if len(m.waits) == 0 {
		return nil
	}
	return &m.waits[0]
}

// question is the question that the input answers.
func (m *Model) question() *wait {
	if w := m.asked(); w != nil && w.Kind == turn.RequestQuestion {
		return w
	}
	return nil
}

func (m *Model) approval() *wait {
	if w := m.asked(); w != nil && w.Kind == turn.RequestApproval {
		return w
	}
	return nil
}

func (w *wait) key() string { return w.turn + " " + w.ID }

// heed starts the time in which nothing can be decided, where something new is asked.
func (m *Model) heed() tea.Cmd {
	if e := m.elicitation(); e != nil && m.heeded != e.key() {
		m.heeded, e.fresh = e.key(), m.input.Value() != ""
	}
	w := m.approval()
	if w == nil {
		m.deciding = false
		if m.asked() == nil {
			m.heeded = ""
		}
		return nil
	}
	if m.heeded == w.key() {
		return nil
	}
	m.heeded, m.deciding = w.key(), false
	return m.calmly(w.key())
}

func (m *Model) calmly(key string) tea.Cmd {
	return m.later(calm, func(time.Time) tea.Msg { return calmMsg{key} })
}

// calmed lets keys decide about what is asked, unless the person is writing.
func (m *Model) calmed(msg calmMsg) tea.Cmd {
	w := m.approval()
	switch {
	case w == nil || w.key() != msg.wait || m.deciding:
		return nil
	case m.input.Value() != "" || m.reason != "":
		return nil // Tab leads there
	case m.now().Sub(m.pressed) < calm:
		return m.calmly(msg.wait)
	}
	m.deciding = true
	return nil
}

// decideForGood allows a call for good, where that would spare the question again.
func (m *Model) decideForGood(w *wait, scope turn.GrantScope) tea.Cmd {
	if !w.Grants(scope) {
		m.note("%s", w.WhyNoGrant())
		return nil
	}
	return m.decide(w, true, client.DecideInput{Grant: scope})
}

// decideKey takes a key while something is asked.
func (m *Model) decideKey(key string) tea.Cmd {
	w := m.approval()
	switch key {
	case "y", "Y":
		return m.decide(w, true, client.DecideInput{})
	case "a", "A":
		return m.decideForGood(w, turn.GrantCall)
	case "t", "T":
		return m.decideForGood(w, turn.GrantTool)
	case "n", "N":
		return m.decide(w, false, client.DecideInput{})
	case "r", "R":
		m.reason, m.deciding = w.key(), false
		m.hint("say why; Enter denies with it, Esc goes back")
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
		if w.Why != "" { // a small screen has no room for it
			m.note("you are asked because %s", terminal.Line(w.Why, 4*previewRunes))
		}
		m.note(meantByKey)
	default:
		m.hint("a decision is asked for: y or n; Tab goes to the input")
	}
	return nil
}

// decide sends a decision about exactly what was shown.
func (m *Model) decide(w *wait, allow bool, in client.DecideInput) tea.Cmd {
	if w.sent {
		return nil
	}
	if allow && !w.whole {
		m.hint("the arguments cannot be shown whole, so they cannot be allowed here; n denies")
		return nil
	}
	if allow && !w.fits {
		m.hint(tooSmall)
		return nil
	}
	if allow && !w.read {
		m.hint("there is more of the arguments: space shows it, and then y allows")
		return nil
	}
	w.sent, m.deciding = true, false
	in.Session, in.Turn, in.Call, in.ArgumentsHash, in.By = m.session, w.turn, w.ID, w.ArgumentsHash, m.o.Person
	key, decide := w.key(), m.o.Client.Deny
	if allow {
		decide = m.o.Client.Approve
	}
	return m.ask(func(ctx context.Context) tea.Msg {
		_, err := decide(ctx, in)
		return decidedMsg{key, err}
	})
}

// decidedMsg is what came of a decision, or of an answer with its text.
type decidedMsg struct {
	wait string
	err  error
}

// decided notes what came of it. Where it was accepted, the journal's word is waited for.
func (m *Model) decided(msg decidedMsg) {
	if msg.err == nil {
		return
	}
	var refused *turn.Error
	if errors.As(msg.err, &refused) && refused.Code == turn.CodeNotWaiting {
		m.note("%s", refused.Message) // somebody was faster; the journal says who
		return
	}
	m.trouble("that did not arrive: %v", msg.err)
	for i := range m.waits {
		if m.waits[i].key() == msg.wait {
			m.waits[i].sent, m.waits[i].asking, m.heeded = false, nil, ""
		}
	}
}

// answer sends the answer to a question.
func (m *Model) answer(w *wait, text string) tea.Cmd {
	w.sent = true
	m.outbox.own(workflows.AnswerID(w.turn, w.ID)) // the message that an answer becomes
	in := client.AnswerInput{Session: m.session, Turn: w.turn, Question: w.ID, Text: text, By: m.o.Person}
	key := w.key()
	return m.ask(func(ctx context.Context) tea.Msg { return decidedMsg{key, m.o.Client.Answer(ctx, in)} })
}

// showRuling takes what was asked off the list, and prints what came of it: here, elsewhere, or by time.
func (m *Model) showRuling(c turn.Chunk) {
	said, ok := people(c)
	if !ok {
		return
	}
	for i, w := range m.waits {
		if w.turn == c.Turn && w.ID == said.ID {
			said.Request = w.Request
			m.waits = append(m.waits[:i:i], m.waits[i+1:]...)
			break
		}
	}
	if said.Decision != nil {
		m.say(entryRuled, ruled(said))
	}
}

// ruled is what came of a wait, on a line or two.
func ruled(p turn.RequestChunk) string {
	r := p.Decision
	by := ""
	if r.By != "" {
		by = " by " + terminal.Line(r.By, previewRunes)
	}
	if p.Kind == turn.RequestQuestion {
		return fmt.Sprintf("? %s · %s%s", terminal.Line(p.Question, 2*previewRunes), r.Status, by)
	}
	if p.Kind == turn.RequestElicitation {
		return ruledInquiry(p) + by
	}
	tool := p.Tool
	text := fmt.Sprintf("! %s %s · %s%s", terminal.Line(tool, previewRunes), terminal.Line(terminal.Visible(p.Arguments), previewRunes), r.Status, by)
	if r.Status == turn.StatusExpired && r.Allowed {
		text += ", which allows it"
	}
	switch r.Grant {
	case turn.GrantTool:
		text += "; from now on always"
	case turn.GrantCall:
		text += "; from now on always with these arguments"
	}
	if r.Reason != "" {
		text += ": " + terminal.Line(r.Reason, 2*previewRunes)
	}
	return text
}
