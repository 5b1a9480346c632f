package chat

import (
	"context"
	"errors"
	"fmt"
	"strconv"

	tea "charm.land/bubbletea/v2"

	"github.com/everturn/everturn/client"
	"github.com/everturn/everturn/starter/internal/ui/termsafe"
	"github.com/everturn/everturn/workflows/turn"
)

// Commands that switch to another session.

// listSessions is how many sessions /sessions lists.
const listSessions = 20

// sessionsCommand switches to the session that the argument names: by its number in the last list, or by its ID. If the
// argument is empty, it offers the last sessions in the menu.
func (m *Model) sessionsCommand(argument string) tea.Cmd {
	if argument == "" {
		return m.offer("/sessions ")
	}
	n, err := strconv.Atoi(argument)
	switch {
	case err != nil || n < 1:
		return m.openByID(argument)
	case n <= len(m.listed):
		return m.switchSession(m.listed[n-1].ID)
	case len(m.listed) == 0: // nothing was listed, so the number is that of the list as it is now
		return m.background(func(ctx context.Context) tea.Msg { return m.readSessions(ctx, n, argument) })
	}
	return m.openByID(argument)
}

// openByID switches to the session with this ID.
func (m *Model) openByID(id string) tea.Cmd {
	if err := turn.CheckSession(id); err != nil {
		m.printError("%v", err)
		return nil
	}
	return m.background(func(ctx context.Context) tea.Msg {
		_, err := m.o.Journal.Session(ctx, id)
		switch {
		case errors.Is(err, client.ErrNotFound):
			return replyMsg{err: fmt.Errorf("the journal has no session %q; /sessions lists the last ones", id)}
		case err != nil:
			return replyMsg{err: fmt.Errorf("looking for the session: %w", err)}
		}
		return replyMsg{open: id}
	})
}

// forkCommand forks the session at the message whose number is the argument (see fork) and switches to the new session.
// A running turn continues in the original session.
func (m *Model) forkCommand(argument string) tea.Cmd {
	at := int64(0)
	if argument != "" {
		n, err := strconv.ParseInt(argument, 10, 64)
		if err != nil || n < 1 {
			m.printError("/fork: %q is not a message number; the first message is 1", termsafe.Line(argument, 20))
			return nil
		}
		at = n
	}
	session := m.session
	return m.background(func(ctx context.Context) tea.Msg {
		forked, err := m.fork(ctx, session, at)
		if err != nil {
			return replyMsg{err: fmt.Errorf("forking the session: %w", err)}
		}
		return replyMsg{lines: []string{fmt.Sprintf("forked %s at message %d", session, forked.ForkSeq)}, open: forked.ID}
	})
}

// fork creates a session that shares the messages of another one up to the number at, which counts from 1. If at is 0,
// it shares all messages, or those before the running turn if there is one.
func (m *Model) fork(ctx context.Context, session string, at int64) (client.Session, error) {
	s, err := m.o.Journal.Session(ctx, session)
	if errors.Is(err, client.ErrNotFound) {
		return s, errors.New("this session has no messages yet")
	}
	if err != nil {
		return s, err
	}
	if at == 0 {
		at = s.Head.Seq
		if last := s.LastTurn; last.ID != "" && !last.State.Terminal() && last.MessageSeq > 0 {
			at = last.MessageSeq - 1
		}
	}
	if at < 1 {
		return s, errors.New("there are no messages before the running turn; wait for it, or /stop it")
	}
	return m.o.Client.Fork(ctx, client.ForkInput{Session: session, At: at})
}
