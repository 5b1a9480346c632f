package chat

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"

	tea "charm.land/bubbletea/v2"

	"github.com/everturn/everturn/client"
	"github.com/everturn/everturn/starter/internal/ui"
	"github.com/everturn/everturn/starter/internal/ui/termsafe"
	"github.com/everturn/everturn/workflows/turn"
)

// pastMessages is how many messages of a session the chat shows when it opens the session. pastText bounds the text of
// each, in bytes.
const (
	pastMessages = 200
	pastText     = 16 << 10
)

// openedMsg is the state of a session in the journal when the chat opens it.
type openedMsg struct {
	session string
	record  client.Session
	found   bool           // the journal has the session
	past    []turn.Message // the last messages before the running turn
	earlier int64          // how many messages precede past
	used    turn.Usage     // by the turns that have ended
	model   string         // the model of the last inference; empty if there was none
	err     error
}

// loadSession returns the command that reads a session from the journal, so that the chat can open it.
func (m *Model) loadSession(session string) tea.Cmd {
	return func() tea.Msg {
		msg := openedMsg{session: session}
		msg.err = msg.read(m.ctx, m.o.Journal)
		return msg
	}
}

// read fills in the message from the journal. A session that the journal does not have is not an error.
func (o *openedMsg) read(ctx context.Context, j client.Journal) error {
	var err error
	o.record, err = j.Session(ctx, o.session)
	if errors.Is(err, client.ErrNotFound) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("opening the session: %w", err)
	}
	o.found = true
	from := max(1, o.record.Head.Seq-pastMessages+1)
	list, err := j.Messages(ctx, o.session, from, o.record.Head.Seq)
	if err != nil {
		return fmt.Errorf("reading the session's last messages: %w", err)
	}
	last := o.record.LastTurn
	for _, msg := range list {
		if last.ID != "" && !last.State.Terminal() && msg.TurnID == last.ID {
			break // the feed shows the running turn from its beginning
		}
		o.past = append(o.past, msg)
	}
	o.earlier = from - 1
	turns, err := j.Turns(ctx, o.session)
	if err != nil {
		return fmt.Errorf("reading the session's turns: %w", err)
	}
	for _, t := range turns {
		if t.State.Terminal() {
			o.used = o.used.Add(t.Usage)
		}
	}
	_, o.model = usageOf(ctx, j, last.ID)
	return nil
}

// cursor returns where the feed starts: at the beginning of the running turn, or after the last turn if none is
// running.
func (o *openedMsg) cursor() client.Cursor {
	last := o.record.LastTurn
	if last.ID != "" && last.State.Terminal() {
		return client.Cursor{Turn: last.ID, Index: math.MaxInt64}
	}
	return client.Cursor{Turn: last.ID, Index: -1}
}

// openSession makes a session the one that the chat shows: it shows the last messages and starts to read new events. If
// the session could not be read, the chat stays with its current session, or opens it without its past if it has none.
func (m *Model) openSession(msg openedMsg) tea.Cmd {
	if msg.err != nil {
		m.printError("%v", msg.err)
		if m.feed != nil {
			return nil
		}
	}
	if m.feed != nil {
		m.feed.close()
	}
	m.session, m.begun = msg.session, msg.found
	m.turn, m.used, m.model = runningTurn{}, msg.used, cmp.Or(msg.model, m.o.Model)
	m.pending, m.subagents, m.toMerge = nil, nil, toMerge{}
	m.menu.reading = false
	m.dropRequests() // also ends the input of a reason
	m.showPast(msg)
	m.feed = newFeed(m.ctx, m.o.Journal, msg.session, msg.cursor())
	if msg.record.PendingRequests > 0 && m.subagents == nil { // a subagent may have made them
		m.subagents = &subagents{m.session}
	}
	return tea.Batch(m.feed.next, m.pollSubagents())
}

// showPast shows the messages of a session before its running turn. Tool results are shown as calls: the arguments come
// from the message with the calls.
func (m *Model) showPast(msg openedMsg) {
	if !msg.found {
		m.addText(entryNote, fmt.Sprintf("new session %s; /help lists the commands", msg.session))
		return
	}
	m.addText(entryNote, fmt.Sprintf("session %s, %s", msg.session, ui.Count(msg.record.Turns, "turn")))
	if msg.earlier > 0 {
		m.addText(entryNote, fmt.Sprintf("%d earlier messages are not shown; `everturn show %s` shows them", msg.earlier,
			termsafe.Quoted(msg.session)))
	}
	calls := map[string]turn.ToolCall{} // by turn and call ID
	for _, p := range msg.past {
		text := turn.Truncate(p.Text, pastText)
		switch p.Role {
		case turn.RoleUser:
			kind := entryOwn
			if ui.IsNotice(p) {
				kind = entryNote
			}
			m.add(&entry{kind: kind, text: text + ui.Media(p.Media), open: m.open})
		case turn.RoleAssistant:
			for _, c := range p.ToolCalls {
				calls[p.TurnID+" "+c.ID] = c
				m.watchSubagents(c.Tool)
			}
			if text != "" {
				m.addText(entryAnswer, text)
			}
			if cut := ui.CutShortNote(p); cut != "" {
				m.addText(entryNote, cut)
			}
		case turn.RoleTool:
			c := calls[p.TurnID+" "+p.CallID]
			size := int64(0) // not shown, because the preview is the whole result
			if len(p.Text) > client.PreviewBytes {
				size = int64(len(p.Text))
			}
			m.add(&entry{kind: entryCall, open: m.open, call: &toolCall{media: p.Media,
				diff: changeOf(c, p.Outcome, p.Text), output: ui.CommandOutput(c.Tool, p.Text), CallEvent: turn.CallEvent{
					Tool: c.Tool, Arguments: c.Arguments, Outcome: p.Outcome, SizeBytes: size,
					Preview: turn.Truncate(p.Text, client.PreviewBytes)}}})
		}
	}
}
