package chat

import (
	"context"
	"slices"
	"strings"
	"time"

	tea "charm.land/bubbletea/v2"

	"github.com/everturn/everturn/client"
	"github.com/everturn/everturn/starter/internal/ui/termsafe"
	"github.com/everturn/everturn/workflows/turn"
)

// pollEvery is how often the chat reads the requests of the session's subagents. It has to poll them, because a
// subagent's turn has an event stream of its own, which the chat does not follow.
const pollEvery = time.Second

// maxPolledRequests is how many requests the chat reads each time.
const maxPolledRequests = 100

// subagents identifies the polling for one session: when the chat switches to another session, the old pointer no
// longer equals Model.subagents, and late messages of the old polling are ignored.
type subagents struct{ session string }

// subagentsMsg has the pending requests of a session and of its subagents.
type subagentsMsg struct {
	watch    *subagents
	requests []client.Request
	err      error
}

// watchSubagents sets m.subagents, so that the chat polls requests of subagents, if tool is an agent.
func (m *Model) watchSubagents(tool string) {
	if m.subagents == nil && strings.HasPrefix(tool, turn.AgentTools) {
		m.subagents = &subagents{m.session}
	}
}

// pollSubagents returns the command that reads the pending requests of the session and its subagents; nil if the
// session has not called an agent.
func (m *Model) pollSubagents() tea.Cmd {
	watch := m.subagents
	if watch == nil {
		return nil
	}
	return m.background(func(ctx context.Context) tea.Msg {
		list, err := m.o.Journal.PendingRequests(ctx, watch.session, maxPolledRequests)
		return subagentsMsg{watch, list, err}
	})
}

// showSubagents shows new requests of subagents, removes those that are no longer pending, and schedules the next poll.
// It does not show an error, because the feed reads the same journal and shows its own.
func (m *Model) showSubagents(msg subagentsMsg) tea.Cmd {
	if msg.watch != m.subagents {
		return nil // the chat has left that session
	}
	if msg.err == nil {
		m.pending = slices.DeleteFunc(m.pending, func(p *pendingRequest) bool {
			return p.session != "" && !slices.ContainsFunc(msg.requests, p.matches)
		})
		for _, r := range msg.requests {
			if r.Kind != turn.RequestResult && r.Session != m.session &&
				!slices.ContainsFunc(m.pending, func(p *pendingRequest) bool { return p.matches(r) }) {
				m.showSubagentRequest(r)
			}
		}
	}
	return m.later(pollEvery, func(time.Time) tea.Msg { return pollMsg{msg.watch} })
}

// pollMsg arrives when it is time for the next poll.
type pollMsg struct{ watch *subagents }

// matches reports whether p is the request of the record r.
func (p *pendingRequest) matches(r client.Request) bool {
	return p.turn == r.Turn && p.ID == r.ID
}

// showSubagentRequest adds a new request of a subagent, with a note in the conversation.
func (m *Model) showSubagentRequest(r client.Request) {
	m.endText()
	m.addText(entryNote, "the subagent "+termsafe.Line(r.Session, 120)+" waits for you")
	m.addRequest(&pendingRequest{Request: r, turn: r.Turn, session: r.Session, page: newPage()})
}

// sessionOf returns the session to which a decision on the request is sent: the subagent's, or the chat's own.
func (m *Model) sessionOf(p *pendingRequest) string {
	if p.session != "" {
		return p.session
	}
	return m.session
}
