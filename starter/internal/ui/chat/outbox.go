package chat

import (
	"context"
	"crypto/rand"
	"strings"

	tea "charm.land/bubbletea/v2"

	"github.com/everturn/everturn/client"
	"github.com/everturn/everturn/starter/internal/ui"
)

// outgoing is a message that was typed in this chat and that the feed has not read from the journal yet.
type outgoing struct {
	id    string
	typed string // what the user has typed
	text  string // typed, and what the chat adds: see attach and include
	media []client.Attachment
	// added names what the chat has added to the text, and commands are those of which it has added the output.
	added    []string
	commands []commandOutput
	queue    bool // the message is for the next turn
	// accepted means that the session's workflow has accepted it.
	accepted bool
}

// outbox holds outgoing messages in the order in which they were typed. They are sent one at a time, so that no message
// overtakes another.
type outbox struct {
	list    []outgoing
	sending bool
	warned  bool              // the user knows that leaving may lose the messages
	own     map[string]bool   // the IDs of all messages that were sent from this chat
	retry   map[string]string // the IDs of messages that could not be sent, by text
}

// maxOutbox is how many messages may wait.
const maxOutbox = 50

// put adds a message. If the same text could not be sent before, it gets the same ID again: the message may have been
// accepted despite the error, and must not count twice.
func (o *outbox) put(m outgoing) {
	m.id = o.retry[m.text]
	if m.id == "" {
		m.id = "m-" + strings.ToLower(rand.Text()[:16])
	}
	delete(o.retry, m.text)
	o.list, o.warned = append(o.list, m), false
	o.addOwn(m.id)
}

// addOwn records the ID of a message that was sent from this chat.
func (o *outbox) addOwn(id string) {
	if o.own == nil {
		o.own = map[string]bool{}
	}
	o.own[id] = true
}

// arrived removes a message that the feed has read from the journal, and returns it. own reports whether it was sent
// from this chat.
func (o *outbox) arrived(id string) (m outgoing, own bool) {
	m, _ = o.remove(id)
	return m, o.own[id]
}

// remove removes a message and returns it, or returns false if the outbox does not have it.
func (o *outbox) remove(id string) (outgoing, bool) {
	for i, m := range o.list {
		if m.id == id {
			o.list = append(o.list[:i:i], o.list[i+1:]...)
			return m, true
		}
	}
	return outgoing{}, false
}

// failed removes a message that could not be sent and returns it. It returns false if the outbox no longer has
// the message: the feed has read it from the journal, so it was accepted despite the error.
func (o *outbox) failed(id string) (outgoing, bool) {
	m, ok := o.remove(id)
	if !ok {
		return m, false
	}
	if o.retry == nil {
		o.retry = map[string]string{}
	}
	o.retry[m.text] = m.id
	return m, true
}

// accept records that the session's workflow has accepted a message.
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
			texts = append(texts, m.typed)
		}
	}
	return texts
}

// sentMsg is the result of sending a message.
type sentMsg struct {
	id  string
	err error
}

// sendNext returns the command that sends the first message that has not been accepted; nil if there is none, or while
// another message is being sent.
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
		in := client.SendInput{Session: m.session, Message: message, Agent: m.o.Agent, Attachments: next.media}
		return m.background(func(ctx context.Context) tea.Msg {
			_, err := m.o.Client.Send(ctx, in)
			return sentMsg{next.id, err}
		})
	}
	return nil
}

// sent handles the result of sending a message. The text of a message that could not be sent goes back into the input,
// or into the history if the input is not empty, so that it is not lost.
func (m *Model) sent(msg sentMsg) {
	m.outbox.sending = false
	if msg.err == nil {
		m.outbox.accept(msg.id)
		return
	}
	out, failed := m.outbox.failed(msg.id)
	if !failed {
		return
	}
	m.printError("the message was not sent: %v", msg.err)
	m.giveBack(out)
}

// giveBack puts the text of a message back into the input, or into the history if the input is not empty. The next
// message includes the output of the commands that it had.
func (m *Model) giveBack(out outgoing) {
	m.commands = append(out.commands, m.commands...)
	if m.input.Value() == "" && m.reason == "" {
		m.setInput(out.typed)
		m.printError("it is back in the input; press Enter to send it again")
	} else {
		m.history.add(out.typed)
		m.printError("it is in the history; the up arrow restores it")
	}
}

// giveBackUnread gives back the messages of this chat that the ended turn had and that its model has not answered.
func (m *Model) giveBackUnread(unread []outgoing) {
	if len(unread) == 0 {
		return
	}
	all := outgoing{typed: unread[0].typed, commands: unread[0].commands}
	for _, out := range unread[1:] {
		all.typed += "\n\n" + out.typed
		all.commands = append(all.commands, out.commands...)
	}
	m.printError("the turn was stopped before the model answered your last %s",
		strings.TrimPrefix(ui.Count(len(unread), "message"), "1 "))
	m.giveBack(all)
}

// background returns a command that runs request with a timeout of callWithin.
func (m *Model) background(request func(context.Context) tea.Msg) tea.Cmd {
	return func() tea.Msg {
		ctx, cancel := context.WithTimeout(m.ctx, callWithin)
		defer cancel()
		return request(ctx)
	}
}
