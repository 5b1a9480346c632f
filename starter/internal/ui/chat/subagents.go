package chat

import (
	"context"
	"slices"
	"strings"
	"time"

	tea "charm.land/bubbletea/v2"

	"github.com/everturn/everturn/journal"
	"github.com/everturn/everturn/starter/internal/ui/termsafe"
	"github.com/everturn/everturn/workflows/turn"
)

// lookEvery is the pause before the chat looks again for requests of the session's subagents. Their turns have streams
// of their own, which the chat does not read.
const lookEvery = time.Second

// mostRequests bounds the requests that the chat shows.
const mostRequests = 100

// subagents is the watch over the subagents of one session.
type subagents struct{ session string }

// subagentsMsg has the open requests of a session and of its subagents.
type subagentsMsg struct {
	watch    *subagents
	requests []journal.RequestRecord
	err      error
}

// noteAgent begins the watch when a turn calls an agent.
func (m *Model) noteAgent(tool string) {
	if m.subagents == nil && strings.HasPrefix(tool, turn.AgentTools) {
		m.subagents = &subagents{m.session}
	}
}

// lookForSubagents reads the requests of the session's subagents, if it has any.
func (m *Model) lookForSubagents() tea.Cmd {
	watch := m.subagents
	if watch == nil {
		return nil
	}
	return m.background(func(ctx context.Context) tea.Msg {
		list, err := m.o.Journal.PendingRequests(ctx, watch.session, mostRequests)
		return subagentsMsg{watch, list, err}
	})
}

// showSubagents shows the requests that subagents have made, removes those that were decided, and looks again later. A
// failure is shown by the feed, which reads the same journal.
func (m *Model) showSubagents(msg subagentsMsg) tea.Cmd {
	if msg.watch != m.subagents {
		return nil // of a session that the chat has left
	}
	if msg.err == nil {
		m.pending = slices.DeleteFunc(m.pending, func(p *pendingRequest) bool {
			return p.session != "" && !slices.ContainsFunc(msg.requests, p.is)
		})
		for _, r := range msg.requests {
			if r.Session != m.session && !slices.ContainsFunc(m.pending, func(p *pendingRequest) bool { return p.is(r) }) {
				m.showSubagentRequest(r)
			}
		}
	}
	return m.later(lookEvery, func(time.Time) tea.Msg { return lookMsg{msg.watch} })
}

// lookMsg arrives when the chat is to look again.
type lookMsg struct{ watch *subagents }

// is reports whether w is the request of a record.
func (p *pendingRequest) is(r journal.RequestRecord) bool { return p.turn == r.Turn && p.ID == r.ID }

func (m *Model) showSubagentRequest(r journal.RequestRecord) {
	m.endText()
	m.addText(entryNote, "the subagent "+termsafe.Line(r.Session, 120)+" waits for you")
	m.addRequest(&pendingRequest{Request: r.Request, turn: r.Turn, session: r.Session, page: newPage()})
}

// sessionOf returns the session in which a request is decided.
func (m *Model) sessionOf(p *pendingRequest) string {
	if p.session != "" {
		return p.session
	}
	return m.session
}
