package page

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"net/http"
	"slices"
	"strings"

	"github.com/everturn/everturn/client"
	"github.com/everturn/everturn/workflows/plan"
	"github.com/everturn/everturn/workflows/turn"
)

// sessionPage is a session with its transcript.
type sessionPage struct {
	frame
	Row      row
	Usage    turn.Usage
	Active   bool
	Turns    []turnView
	Hidden   int    // the turns before the first that is shown
	Before   string // the ID of that one
	Shared   []item // the messages that a fork has of its parent
	After    string // the event with which the page ends: see the route of events
	Live     *liveText
	State    stateLine
	Requests []request
	Plan     plan.Progress
	Done     int // steps of the plan
	Models   []string
	Skills   []string
}

// stateLine says what the session does now.
type stateLine struct {
	mark
	Detail string
}

// turnsAtOnce is how many turns a page shows at once.
const turnsAtOnce = 20

// session serves a session. With the parameter turn, only that turn is in its transcript: the module asks for it when
// the turn has changed.
func (v *visit) session() error {
	ctx, id := v.r.Context(), v.r.PathValue("session")
	s, err := v.Journal().Session(ctx, id)
	if errors.Is(err, client.ErrNotFound) { // Temporal knows a session before a worker has begun its first turn
		if _, lost := v.Find(ctx, id, ""); lost != nil {
			return err
		}
		s, err = client.Session{ID: id}, nil
	}
	if err != nil {
		return err
	}
	f, err := v.frame(ctx, title(s), "sessions")
	if err != nil {
		return err
	}
	f.Session = s.ID
	p := sessionPage{frame: f, Row: v.row(s), Active: s.LastTurn.ID == "" && s.Parent == "" ||
		s.LastTurn.ID != "" && !s.LastTurn.State.Terminal()}
	if s.Head.Seq > 0 || s.LastTurn.ID != "" {
		err = v.readSession(ctx, &p, s)
	} else {
		p.State = stateLine{mark{"run", "ring", "waiting for a worker"}, "the message is accepted"}
	}
	if err != nil {
		return err
	}
	return v.render(http.StatusOK, "session.html", p)
}

// readSession reads the content of the page of a session.
func (v *visit) readSession(ctx context.Context, p *sessionPage, s client.Session) (err error) {
	// The events come first: the module gets those that come later, and what they tell is perhaps shown already.
	if p.After, p.Live, err = v.liveText(ctx, s.LastTurn); err != nil {
		return err
	}
	j := v.Journal()
	if p.Usage, err = j.SessionUsage(ctx, s.ID); err != nil {
		return err
	}
	open, err := v.Pending(ctx, client.PendingInput{Session: s.ID})
	if err != nil {
		return err
	}
	for i, r := range open {
		p.Requests = append(p.Requests, v.request(r, i+1, len(open)))
	}
	if err := v.readTurns(ctx, p, s); err != nil {
		return err
	}
	live, err := client.ReadLive(ctx, j, s)
	if err != nil {
		return err
	}
	p.State = stateOf(s, live)
	return nil
}

// stateOf describes what a session does.
func stateOf(s client.Session, l client.LiveState) stateLine {
	switch l.State {
	case client.LiveInferring:
		return stateLine{mark{"run", "ring", "inferring"}, ""}
	case client.LiveCallingTools:
		return stateLine{mark{"run", "ring", "calling"}, line(fmt.Sprint(l.Calls[0], more(len(l.Calls)-1)))}
	case client.LiveWaiting:
		return stateLine{mark{"wait", "wait", "waiting for you"}, ""}
	case client.LiveWaitingForModel:
		return stateLine{mark{"wait", "time", "waiting for the model"}, line(l.Reason)}
	}
	m := turnMark(s.LastTurn)
	return stateLine{m, line(cmp.Or(s.LastTurn.Message, words(string(s.LastTurn.Reason))))}
}

func more(n int) string {
	if n == 0 {
		return ""
	}
	return fmt.Sprintf(" and %d more", n)
}

// readTurns reads the turns that the page shows, with the messages before them if it shows the first.
func (v *visit) readTurns(ctx context.Context, p *sessionPage, s client.Session) error {
	j, query := v.Journal(), v.r.URL.Query()
	all, err := j.Turns(ctx, s.ID)
	if err != nil {
		return err
	}
	first, end := max(0, len(all)-turnsAtOnce), len(all)
	is := func(id string) int {
		return slices.IndexFunc(all, func(t client.TurnRecord) bool { return t.ID == id })
	}
	if before := is(query.Get("before")); before >= 0 {
		first, end = max(0, before-turnsAtOnce), before
	}
	if only := is(query.Get("turn")); only >= 0 {
		first, end = only, only+1
	}
	from, to := int64(1), int64(math.MaxInt64)
	if p.Hidden = first; first > 0 {
		from, p.Before = all[first].MessageSeq, all[first].ID
	}
	if end < len(all) {
		to = all[end].MessageSeq - 1
	}
	messages, err := j.Messages(ctx, s.ID, max(from, 1), min(to, s.Head.Seq))
	if err != nil {
		return err
	}
	compactions, err := j.Compactions(ctx, s.ID)
	if err != nil {
		return err
	}
	b := builder{visit: v, messages: messages, from: max(from, 1), compactions: compactions}
	if first == 0 {
		p.Shared = b.shared(all)
	}
	for i, t := range all[first:end] {
		th, err := client.ReadTurn(ctx, j, t)
		if err != nil {
			return err
		}
		view := b.turn(first+i+1, th)
		if p.Live != nil && p.Live.Turn == t.ID && !view.settled(p.Live.Step) {
			view.Live = p.Live
		}
		p.Turns = append(p.Turns, view)
		if first+i == len(all)-1 || query.Get("turn") != "" {
			p.Plan, p.Models, p.Skills = th.Plan, modelNames(th.Models), skillNames(th.Skills)
			for _, s := range th.Plan.Steps {
				if s.State == plan.StateDone {
					p.Done++
				}
			}
		}
	}
	return nil
}

func modelNames(models []turn.Model) (names []string) {
	for _, m := range models {
		names = append(names, m.Provider+":"+m.Name)
	}
	return names
}

func skillNames(skills *turn.SkillsEvent) (names []string) {
	if skills != nil {
		for _, s := range skills.Skills {
			names = append(names, s.Name)
		}
	}
	return names
}

// liveText is the text of an inference that has not ended, up to an event.
type liveText struct {
	Turn            string
	Step            int
	Text, Reasoning strings.Builder
}

// add processes the next event of the turn.
func (l *liveText) add(e turn.Event) {
	text := e.Kind == turn.EventTextDelta || e.Kind == turn.EventReasoningDelta
	if text && e.Step != l.Step || e.Kind == turn.EventAttemptRestarted || e.Kind == turn.EventInferenceCompleted {
		l.Step = e.Step
		l.Text.Reset()
		l.Reasoning.Reset()
	}
	switch e.Kind {
	case turn.EventTextDelta:
		l.Text.WriteString(e.Text)
	case turn.EventReasoningDelta:
		l.Reasoning.WriteString(e.Text)
	}
}

// eventBatch is how many events are read at once.
const eventBatch = 1000

// liveText reads the events of the session's last turn. It returns the last one's ID, as the route of events takes it,
// and the text of the inference that runs.
func (v *visit) liveText(ctx context.Context, t client.TurnRecord) (after string, l *liveText, err error) {
	if t.ID == "" {
		return "", nil, nil
	}
	index := int64(-1)
	if t.State.Terminal() {
		last, err := v.Journal().LastEvent(ctx, t.ID)
		if err == nil {
			index = last.Index
		}
		if errors.Is(err, client.ErrNotFound) {
			err = nil
		}
		return fmt.Sprintf("%s/%d", t.ID, index), nil, err
	}
	l = &liveText{Turn: t.ID}
	for {
		events, err := v.Journal().Events(ctx, t.ID, index, eventBatch)
		if err != nil {
			return "", nil, err
		}
		for _, e := range events {
			l.add(e)
			index = e.Index
		}
		if len(events) < eventBatch {
			break
		}
	}
	if l.Text.Len() == 0 && l.Reasoning.Len() == 0 {
		l = nil
	}
	return fmt.Sprintf("%s/%d", t.ID, index), l, nil
}
