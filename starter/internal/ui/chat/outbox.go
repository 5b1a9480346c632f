package chat

import (
	"context"
	"crypto/rand"
	"strings"

	tea "charm.land/bubbletea/v2"

	"github.com/everturn/everturn/client"
)

// outgoing is a message that was typed here and is not in the journal yet.
type outgoing struct {
	id, text string
	queue    bool
	accepted bool
}

// outbox holds outgoing messages in the order in which they were typed. It sends one at a time, so that no message
// overtakes another.
type outbox struct {
	list    []outgoing
	sending bool
	own     map[string]bool // IDs of all messages sent from here
	retry   map[string]string
}

// maxOutbox is how many messages may wait.
const maxOutbox = 50

// put adds a message. A text that could not be sent before keeps its ID, because the first attempt may have arrived
// after all.
func (o *outbox) put(text string, queue bool) {
	id := o.retry[text]
	if id == "" {
		id = "m-" + strings.ToLower(rand.Text()[:16])
	}
	delete(o.retry, text)
	o.list = append(o.list, outgoing{id: id, text: text, queue: queue})
	o.addOwn(id)
}

// addOwn records that a message was sent from here.
func (o *outbox) addOwn(id string) {
	if o.own == nil {
		o.own = map[string]bool{}
	}
	o.own[id] = true
}

// seen removes a message that the journal has, and reports whether it was sent from here.
func (o *outbox) seen(id string) bool {
	o.remove(id)
	return o.own[id]
}

func (o *outbox) remove(id string) (outgoing, bool) {
	for i, m := range o.list {
		if m.id == id {
			o.list = append(o.list[:i:i], o.list[i+1:]...)
			return m, true
		}
	}
	return outgoing{}, false
}

// failed removes a message that was not accepted and returns its text; false if the journal has the message.
func (o *outbox) failed(id string) (string, bool) {
	m, ok := o.remove(id)
	if !ok { // the journal has it, so it was accepted despite the error
		return "", false
	}
	if o.retry == nil {
		o.retry = map[string]string{}
	}
	o.retry[m.text] = m.id
	return m.text, true
}

func (o *outbox) accept(id string) {
	for i := range o.list {
		if o.list[i].id == id {
			o.list[i].accepted = true
		}
	}
}

// unsent returns the texts of the messages that the session's workflow has not accepted.
func (o *outbox) unsent() []string {
	var texts []string
	for _, m := range o.list {
		if !m.accepted {
			texts = append(texts, m.text)
		}
	}
	return texts
}

// sentMsg is the result of sending a message.
type sentMsg struct {
	id  string
	err error
}

// sendNext sends the next message that waits.
func (m *Model) sendNext() tea.Cmd {
	if m.outbox.sending {
		return nil
	}
	for _, next := range m.outbox.list {
		if next.accepted {
			continue
		}
		m.outbox.sending = true
		message := m.o.Chosen
		message.ID, message.Text, message.Queue, message.Model = next.id, next.text, next.queue, m.o.Requested
		in := client.SendInput{Session: m.session, Message: message, Agent: m.o.Agent}
		return m.background(func(ctx context.Context) tea.Msg {
			_, err := m.o.Client.Send(ctx, in)
			return sentMsg{next.id, err}
		})
	}
	return nil
}

// sent handles the result of sending a message. A message that was not accepted goes back into the input, or into the
// history if the input is in use, so that nothing is lost.
func (m *Model) sent(msg sentMsg) {
	m.outbox.sending = false
	if msg.err == nil {
		m.outbox.accept(msg.id)
		return
	}
	text, failed := m.outbox.failed(msg.id)
	if !failed {
		return
	}
	m.printError("the message was not sent: %v", msg.err)
	if m.input.Value() == "" {
		m.setInput(text)
		m.printError("it is back in the input; press Enter to send it again")
	} else {
		m.history.add(text)
		m.printError("it is in the history; the up arrow restores it")
	}
}

// background returns a command that runs request with a timeout of callWithin.
func (m *Model) background(request func(context.Context) tea.Msg) tea.Cmd {
	return func() tea.Msg {
		ctx, cancel := context.WithTimeout(m.ctx, callWithin)
		defer cancel()
		return request(ctx)
	}
}
