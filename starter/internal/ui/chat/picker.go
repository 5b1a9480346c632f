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
	"github.com/everturn/everturn/workflows/turn"
)

// The menu also offers the arguments of /model, /merge, /effort, /sessions and /fork.

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
// beginning of an argument. The first time that it is asked for choices from the journal, it returns the command that
// reads them.
func (m *Model) argumentChoices(text string) ([]list.Item, tea.Cmd) {
	name, term, _ := strings.Cut(text, " ")
	term = strings.TrimSpace(term)
	read := m.menu.listing == name
	m.menu.listing = name
	switch {
	case name == "/model":
		return m.modelChoices(term), nil
	case name == "/merge":
		return m.mergeChoices(text), nil
	case name == "/effort":
		return m.effortChoices(term), nil
	case name == "/sessions" && !read:
		return nil, m.background(func(ctx context.Context) tea.Msg { return m.readSessions(ctx, 0, "") })
	case name == "/sessions":
		return m.sessionChoices(term), nil
	case !read:
		session := m.session
		m.forkPoints = nil
		return nil, m.background(func(ctx context.Context) tea.Msg { return m.readForkPoints(ctx, session) })
	}
	return m.forkChoices(term), nil
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

// forkChoices returns the points at which the session can be forked that match term, the best match first. A term that
// is a number matches only the point after that message, because Enter takes what the menu offers.
func (m *Model) forkChoices(term string) []list.Item {
	exact := func(c choice) bool { return c.text == "/fork "+term }
	if _, err := strconv.Atoi(term); err == nil {
		i := slices.IndexFunc(m.forkPoints, exact)
		if i < 0 {
			return nil
		}
		return []list.Item{m.forkPoints[i]}
	}
	return matching(term, m.forkPoints, exact)
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

// forkPointsMsg has the points at which a session can be forked, which the menu offers after /fork.
type forkPointsMsg struct {
	session string
	list    []choice
	err     error
}

// readForkPoints reads the last messages of a session. Each message of the user stands for the point before the user's
// next one, which is after its answer. The last point comes first; the running turn has none.
func (m *Model) readForkPoints(ctx context.Context, session string) forkPointsMsg {
	o, msg := openedMsg{session: session}, forkPointsMsg{session: session}
	msg.err = o.read(ctx, m.o.Journal)
	end := o.earlier + int64(len(o.past))
	for i, p := range slices.Backward(o.past) {
		if p.Role != turn.RoleUser || ui.IsNotice(p) {
			continue
		}
		number := strconv.FormatInt(end, 10)
		msg.list = append(msg.list, choice{text: "/fork " + number,
			label: number + "  after: " + cmp.Or(termsafe.Line(p.Text, 60), "(no text)")})
		end = o.earlier + int64(i)
	}
	return msg
}

// showForkPoints offers the points that were read.
func (m *Model) showForkPoints(msg forkPointsMsg) tea.Cmd {
	if msg.session != m.session {
		return nil
	}
	if msg.err != nil {
		m.printError("%v", msg.err)
	}
	m.forkPoints = msg.list
	return m.complete()
}
