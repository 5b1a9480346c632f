package chat

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"charm.land/bubbles/v2/list"
	tea "charm.land/bubbletea/v2"

	"github.com/everturn/everturn/client"
	"github.com/everturn/everturn/starter/internal/ui"
	"github.com/everturn/everturn/starter/internal/ui/termsafe"
)

// The menu also offers the arguments of /model and /sessions.

// ModelChoice is a model that a user may choose.
type ModelChoice struct {
	Name string // as /model takes it
	Note string // what distinguishes it, such as its price
}

// sessionsMsg has the last sessions of the journal, which the menu offers after /sessions.
type sessionsMsg struct {
	list []client.Session
	err  error
	// open switches to the session with this number, from 1; 0 only lists them.
	open int
	// word is the number as the user has typed it, which may be a session's ID.
	word string
}

// argumentChoices returns what the menu offers for the input text, which is a command and a blank, perhaps with the
// beginning of an argument. The first time that it is asked for sessions, it returns the command that reads them.
func (m *Model) argumentChoices(text string) ([]list.Item, tea.Cmd) {
	name, term, _ := strings.Cut(text, " ")
	switch name {
	case "/model":
		return m.modelChoices(strings.TrimSpace(term)), nil
	case "/sessions":
		if !m.menu.listing {
			m.menu.listing = true
			return nil, m.background(func(ctx context.Context) tea.Msg { return m.readSessions(ctx, 0, "") })
		}
		return m.sessionChoices(strings.TrimSpace(term)), nil
	}
	return nil, nil
}

// modelChoices returns the models that match term, the best match first, and the agent's own model.
func (m *Model) modelChoices(term string) []list.Item {
	if m.o.Models == nil {
		return nil
	}
	all := []choice{{text: "/model default", label: "default", does: "the agent's: " + ui.Preview(m.o.Model)}}
	for _, c := range m.o.Models() {
		if termsafe.Line(c.Name, 120) != c.Name {
			continue // the input could not hold it
		}
		note := c.Note
		if c.Name == m.o.Requested {
			note = strings.TrimPrefix(note+" · chosen", " · ")
		}
		all = append(all, choice{text: "/model " + c.Name, label: c.Name, does: ui.Preview(note)})
	}
	return matching(term, all, func(c choice) bool {
		_, bare, _ := strings.Cut(c.label, ":")
		return c.label == term || bare == term
	})
}

// sessionChoices returns the listed sessions that match term, the best match first. A term that is a number or an ID
// matches that session only.
func (m *Model) sessionChoices(term string) []list.Item {
	all := make([]choice, len(m.listed))
	for i, s := range m.listed {
		all[i] = choice{text: "/sessions " + s.ID, label: strconv.Itoa(i+1) + "  " + m.sessionTitle(s)}
	}
	if n, err := strconv.Atoi(term); err == nil && n >= 1 && n <= len(all) {
		return []list.Item{all[n-1]}
	}
	return matching(term, all, func(c choice) bool { return c.text == "/sessions "+term })
}

// matching returns the choices whose labels match term best, the best first, at most shownChoices. Those that exact
// accepts come first. An empty term matches all choices, in their order.
func matching(term string, all []choice, exact func(choice) bool) (items []list.Item) {
	var labels []string
	for _, c := range all {
		labels = append(labels, c.label)
	}
	order := make([]int, 0, len(all))
	if i := slices.IndexFunc(all, exact); term != "" && i >= 0 {
		order = append(order, i)
	}
	if term == "" {
		for i := range all {
			order = append(order, i)
		}
	} else {
		for _, r := range list.DefaultFilter(term, labels) {
			if !slices.Contains(order, r.Index) {
				order = append(order, r.Index)
			}
		}
	}
	for _, i := range order[:min(len(order), shownChoices)] {
		items = append(items, all[i])
	}
	return items
}

// sessionTitle describes a session in one line: the beginning of its first message, its state and its ID.
func (m *Model) sessionTitle(s client.Session) string {
	parts := []string{cmp.Or(termsafe.Line(s.FirstText, 60), "(no message)"), ui.Count(s.Turns, "turn"),
		string(s.LastTurn.State)}
	if s.PendingRequests > 0 {
		parts = append(parts, "waiting for you")
	}
	if s.ID == m.session {
		parts = append(parts, "this session")
	}
	parts = slices.DeleteFunc(append(parts, termsafe.Line(s.ID, 60)), func(p string) bool { return p == "" })
	return strings.Join(parts, " · ")
}

// readSessions reads the last sessions of the journal.
func (m *Model) readSessions(ctx context.Context, open int, word string) sessionsMsg {
	list, err := m.o.Journal.Sessions(ctx, listSessions)
	if err != nil {
		err = fmt.Errorf("listing the sessions: %w", err)
	}
	return sessionsMsg{list, err, open, word}
}

// showSessions keeps the sessions that were read, and offers them or switches to one.
func (m *Model) showSessions(msg sessionsMsg) tea.Cmd {
	switch {
	case msg.err != nil:
		m.printError("%v", msg.err)
		return nil
	case msg.open > len(msg.list):
		return m.openByID(msg.word)
	case msg.open > 0:
		m.listed = msg.list
		return m.switchSession(msg.list[msg.open-1].ID)
	case len(msg.list) == 0:
		m.note("the journal has no sessions yet")
	}
	m.listed = msg.list
	return m.complete()
}
