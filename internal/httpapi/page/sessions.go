package page

import (
	"cmp"
	"context"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/everturn/everturn/client"
	"github.com/everturn/everturn/workflows/turn"
)

// frame is what surrounds the pages of a signed-in user.
type frame struct {
	head
	Here                      string // sessions or inbox
	Session                   string // the one that is shown
	Open                      int    // requests that wait for a decision
	Waiting, Running, Earlier []row
	Agents                    []string
}

// row is a session in a list.
type row struct {
	client.Session
	mark
	Title, About, Ago string
}

// mark is the state of something, as the style sheet shows it, with a word for it.
type mark struct{ S, Icon, Word string }

// Bounds of the lists of sessions.
const (
	recentSessions = 30
	rowsAtOnce     = 50
	mostSessions   = 1000
)

// frame reads what surrounds a page.
func (v *visit) frame(ctx context.Context, title, here string) (f frame, err error) {
	f = frame{head: v.head(title), Here: here, Agents: v.Agents}
	open, err := v.Pending(ctx, client.PendingInput{})
	if err != nil {
		return f, err
	}
	f.Open = len(open)
	list, err := v.Sessions(ctx, recentSessions)
	for _, s := range list {
		r := v.row(s)
		switch {
		case r.S == "wait":
			f.Waiting = append(f.Waiting, r)
		case r.S == "run":
			f.Running = append(f.Running, r)
		case len(f.Earlier) < 8:
			f.Earlier = append(f.Earlier, r)
		}
	}
	return f, err
}

// row describes a session.
func (v *visit) row(s client.Session) row {
	r := row{Session: s, mark: sessionMark(s), Title: title(s), Ago: ago(v.now.Sub(s.UpdatedAt))}
	t := s.LastTurn
	about := []string{cmp.Or(t.Agent, s.Agent)}
	if s.Caller.Session != "" {
		about = append(about, "subagent of "+s.Caller.Session)
	}
	switch {
	case s.PendingRequests > 0:
		about = append(about, fmt.Sprintf("waits for %s", plural(s.PendingRequests, "decision")))
	case t.State == turn.StateFailed && t.Message != "":
		about = append(about, t.Message)
	case t.State.Terminal():
		about = append(about, words(string(t.Reason)), plural(t.Steps, "step"))
	}
	if s.Parent != "" {
		about = append(about, "fork of "+s.Parent)
	}
	r.About = line(strings.Join(slices.DeleteFunc(about, func(s string) bool { return s == "" }), " · "))
	return r
}

// title returns what a session is called: the beginning of its first message, or its ID.
func title(s client.Session) string { return cmp.Or(line(s.FirstText), line(s.ID)) }

// sessionMark returns the state of a session.
func sessionMark(s client.Session) mark {
	if s.PendingRequests > 0 {
		return mark{"wait", "wait", "waiting"}
	}
	return turnMark(s.LastTurn)
}

// turnMark returns the state of a turn.
func turnMark(t client.TurnRecord) mark {
	switch t.State {
	case turn.StateWaiting:
		return mark{"wait", "wait", "waiting"}
	case turn.StateRunning:
		return mark{"run", "ring", "running"}
	case turn.StateFailed:
		return mark{"fail", "cross", "failed"}
	case turn.StateCancelled, turn.StateClosed:
		return mark{"off", "slash", "stopped"}
	case turn.StateCompleted:
		if t.Reason != turn.FinishAnswered {
			return mark{"off", "time", words(string(t.Reason))}
		}
		return mark{"off", "check", "completed"}
	}
	return mark{"off", "dots", "new"}
}

// words returns a name of a state or of a reason as words.
func words(name string) string { return strings.ReplaceAll(name, "_", " ") }

func plural(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return strconv.Itoa(n) + " " + noun + "s"
}

// sessionsPage is the list of sessions.
type sessionsPage struct {
	frame
	Query, State, Agent string
	Rows                []row
	Matching            int // also those that are not shown
	All                 int
	More                int // the limit of a longer list; 0 if there is none
	Today               turn.Usage
}

func (v *visit) sessions() error {
	ctx, query := v.r.Context(), v.r.URL.Query()
	f, err := v.frame(ctx, "Sessions", "sessions")
	if err != nil {
		return err
	}
	p := sessionsPage{frame: f, Query: query.Get("q"), State: query.Get("state"), Agent: query.Get("agent")}
	limit, err := strconv.Atoi(query.Get("limit"))
	if err != nil || limit < rowsAtOnce || limit > mostSessions {
		limit = rowsAtOnce
	}
	list, err := v.Sessions(ctx, mostSessions)
	if err != nil {
		return err
	}
	p.All = len(list)
	for _, s := range list {
		r := v.row(s)
		if !p.matches(r) {
			continue
		}
		if p.Matching++; len(p.Rows) >= limit {
			p.More = min(limit+rowsAtOnce, mostSessions)
			continue
		}
		if r.Usage, err = v.Journal().SessionUsage(ctx, s.ID); err != nil {
			return err
		}
		p.Rows = append(p.Rows, r)
	}
	y, m, d := v.now.UTC().Date()
	days, err := v.Journal().Usage(ctx, client.UsageByTenant, time.Date(y, m, d, 0, 0, 0, 0, time.UTC))
	for _, row := range days {
		p.Today = p.Today.Add(row.Usage)
	}
	if err != nil {
		return err
	}
	return v.render(http.StatusOK, "sessions.html", p)
}

// matches reports whether the filters of the page let a session through.
func (p *sessionsPage) matches(r row) bool {
	states := map[string]bool{"": true, "waiting": r.S == "wait", "running": r.S == "run",
		"ended": r.S != "wait" && r.S != "run"}
	text := strings.ToLower(r.ID + "\n" + r.FirstText + "\n" + r.LastTurn.ID)
	return states[p.State] && (p.Agent == "" || p.Agent == cmp.Or(r.LastTurn.Agent, r.Session.Agent)) &&
		strings.Contains(text, strings.ToLower(strings.TrimSpace(p.Query)))
}
