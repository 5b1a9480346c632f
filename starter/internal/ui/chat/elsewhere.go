package chat

import (
	"context"
	"errors"
	"fmt"
	"strconv"

	tea "charm.land/bubbletea/v2"

	"github.com/everturn/everturn/client"
	"github.com/everturn/everturn/journal"
	"github.com/everturn/everturn/starter/internal/ui"
	"github.com/everturn/everturn/starter/internal/ui/termsafe"
	"github.com/everturn/everturn/workflows/turn"
)

// Commands that switch to another session.

// listSessions is how many sessions /sessions lists.
const listSessions = 20

// sessionsCommand lists the last sessions, or switches to the one that the argument names.
func (m *Model) sessionsCommand(argument string) tea.Cmd {
	if argument != "" {
		return m.switchTo(argument)
	}
	return m.background(func(ctx context.Context) tea.Msg {
		list, err := m.o.Journal.Sessions(ctx, listSessions)
		if err != nil {
			return replyMsg{err: fmt.Errorf("listing the sessions: %w", err)}
		}
		r := replyMsg{listed: []string{}}
		for i, s := range list {
			r.listed = append(r.listed, s.ID)
			r.lines = append(r.lines, sessionLine(i+1, s))
		}
		if len(list) == 0 {
			r.lines = []string{"the journal has no sessions yet"}
		} else {
			r.lines = append(r.lines, "/sessions N switches to one")
		}
		return r
	})
}

// sessionLine describes a session, the n-th of the list, in one line.
func sessionLine(n int, s journal.SessionRecord) string {
	waits := ""
	if s.PendingRequests > 0 {
		waits = " · waiting for you"
	}
	return fmt.Sprintf("%d  %s · %s · %s%s · %s", n, termsafe.Line(s.ID, 60), ui.Count(s.Turns, "turn"),
		s.LastTurn.State,
		waits, termsafe.Line(s.FirstText, 60))
}

// switchTo switches to a session, given by its number in the list or by its ID.
func (m *Model) switchTo(which string) tea.Cmd {
	if n, err := strconv.Atoi(which); err == nil && n >= 1 && n <= len(m.listed) {
		return m.switchSession(m.listed[n-1])
	}
	if err := turn.CheckSession(which); err != nil {
		m.printError("%v", err)
		return nil
	}
	return m.background(func(ctx context.Context) tea.Msg {
		_, err := m.o.Journal.Session(ctx, which)
		switch {
		case errors.Is(err, journal.ErrNotFound):
			return replyMsg{err: fmt.Errorf("the journal has no session %q; /sessions lists the last ones", which)}
		case err != nil:
			return replyMsg{err: fmt.Errorf("looking for the session: %w", err)}
		}
		return replyMsg{open: which}
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
func (m *Model) fork(ctx context.Context, session string, at int64) (journal.SessionRecord, error) {
	s, err := m.o.Journal.Session(ctx, session)
	if errors.Is(err, journal.ErrNotFound) {
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
