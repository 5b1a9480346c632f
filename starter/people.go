package main

import (
	"context"
	"errors"
	"io"
	"strings"

	"github.com/everturn/everturn/client"
	"github.com/everturn/everturn/journal"
	"github.com/everturn/everturn/starter/form"
	"github.com/everturn/everturn/workflows/turn"
)

// people are those whom the followed turn waits for: the person at this terminal, or somebody elsewhere.
type people struct {
	f       *follower
	here    bool            // somebody at this terminal can be asked
	told    map[string]bool // waits that the turn's chunks have shown
	said    map[string]bool // waits that were decided here; the journal may not know yet
	current *journal.RequestRecord
	pages   *pages          // what of an approval is still to be shown
	asking  *form.Interview // of an elicitation
	reading bool            // a line is being read
	typing  chan typed
	sent    chan error
	noticed bool // that nobody can be asked here
}

// typed is a line of the person at the terminal.
type typed struct {
	line string
	err  error
}

func newPeople(f *follower) people {
	a := f.app
	return people{f: f, here: !f.o.noWait && f.online && isTerminal(a.in) && isTerminal(a.err),
		told: map[string]bool{}, said: map[string]bool{}, typing: make(chan typed, 1), sent: make(chan error, 1)}
}

func (p *people) lines() <-chan typed    { return p.typing }
func (p *people) answered() <-chan error { return p.sent }

// heard takes a chunk that may be about people.
func (p *people) heard(ctx context.Context, c turn.Chunk) (bool, error) {
	var about turn.RequestChunk
	switch c.Kind {
	case turn.ChunkApprovalRequested, turn.ChunkQuestionAsked:
		if decode(c, &about) {
			p.told[about.ID] = true
		}
	case turn.ChunkApprovalDecided, turn.ChunkQuestionAnswered:
		if decode(c, &about) && p.current != nil && p.current.ID == about.ID && !p.said[about.ID] {
			p.current, p.pages, p.asking = nil, nil, nil
			p.f.app.note("\nit was decided elsewhere")
		}
	default:
		return false, nil
	}
	return p.look(ctx)
}

// look finds what is waited for now: it is asked here, or told where it can be answered.
func (p *people) look(ctx context.Context) (done bool, err error) {
	f := p.f
	if p.current != nil || f.s.ID == "" {
		return false, nil
	}
	requests, err := f.client.Pending(ctx, client.PendingInput{Turn: f.s.ID})
	if err != nil || len(requests) == 0 {
		return false, nil // the journal tells of it again when it can
	}
	var open []journal.RequestRecord
	for _, w := range requests {
		switch {
		case p.said[w.ID], f.s.Merged && w.Kind == turn.RequestQuestion: // the message that was sent is its answer
		case !p.told[w.ID] && f.o.after < 0 && !f.s.Merged:
			return false, nil // the chunk that tells of it is still to come
		default:
			open = append(open, w)
		}
	}
	switch {
	case len(open) == 0:
		return false, nil
	case p.here:
		p.ask(open[0])
		return false, nil
	}
	return p.elsewhere(ctx, open)
}

// elsewhere says how others can decide, and ends the command unless it is to stay.
func (p *people) elsewhere(ctx context.Context, open []journal.RequestRecord) (bool, error) {
	f := p.f
	f.view.pause()
	if f.o.stay && !f.o.noWait {
		if !p.noticed && !f.o.quiet {
			f.app.note("%s", layoutOf(f.app.err).instructions(open))
		}
		p.noticed = true
		return false, nil
	}
	for c, err := range f.rest(ctx) {
		if err != nil {
			return true, err
		}
		f.view.chunk(c)
	}
	if f.o.output == "json" {
		r, err := f.client.Result(ctx, client.Turn{ID: f.s.ID})
		if err == nil {
			err = writeJSON(f.app.out, r)
		}
		if err != nil {
			return true, err
		}
	}
	first := ""
	if f.failed != nil {
		first = "\nbefore that, run `starter dev` in another terminal: Temporal and the worker of this command end with it"
	}
	f.app.note("%s%s\nthe turn goes on waiting; follow it with `%s`", layoutOf(f.app.err).instructions(open), first, f.attachHint(f.s))
	return true, &exitError{code: exitWaiting}
}

// ask puts one wait before the person at the terminal.
func (p *people) ask(w journal.RequestRecord) {
	p.current, p.pages, p.asking = &w, nil, nil
	p.f.view.pause()
	a := p.f.app
	forgetTyped(a.in) // nobody has agreed to what was not on the screen
	wide := layoutOf(a.err)
	wide.asked = true
	switch w.Kind {
	case turn.RequestApproval:
		p.pages = a.pagesOf(wide.describe(w))
		a.note("%s", p.pages.next())
	case turn.RequestElicitation:
		p.asking, _ = form.NewInterview(form.InquiryOf(w.Request)) // the description says what is wrong with it
		fallthrough
	default:
		a.note("%s", wide.describe(w))
	}
	p.prompt()
}

// prompt asks for a line, and says for what.
func (p *people) prompt() {
	prompt := "your answer: "
	switch {
	case p.asking != nil:
		if more := p.asking.Lines(); len(more) > 0 {
			p.f.app.note("%s", layoutOf(p.f.app.err).barred(strings.Join(more, "\n")))
		}
		prompt = p.asking.Prompt() + ": "
	case p.pages != nil && p.pages.left() > 0:
		prompt = p.pages.prompt()
	case p.current.Kind == turn.RequestApproval:
		prompt = decisionPrompt(*p.current)
	}
	io.WriteString(p.f.app.err, prompt)
	if p.reading {
		return
	}
	p.reading = true
	go func() { // reading cannot be interrupted: it is left behind when the command ends
		line, err := readLine(p.f.app.in)
		p.typing <- typed{line, err}
	}()
}

// typed takes a line.
func (p *people) typed(ctx context.Context, t typed) (bool, error) {
	p.reading = false
	w := p.current
	if w == nil { // it came too late
		return p.look(ctx)
	}
	if t.err != nil { // the terminal has no more to say
		p.here, p.current, p.pages, p.asking = false, nil, nil, nil
		p.f.app.note("")
		return p.look(ctx)
	}
	send, ok := p.meant(*w, t.line)
	if !ok {
		p.prompt()
		return false, nil
	}
	p.said[w.ID] = true
	go func() { p.sent <- send(ctx) }()
	return false, nil
}

// meant is what a line asks to be done about a wait; nothing where it is not understood, or more has to be said.
func (p *people) meant(w journal.RequestRecord, line string) (send func(context.Context) error, ok bool) {
	bare := strings.TrimSpace(line)
	switch {
	case p.asking != nil:
		return p.replied(w, line)
	case w.Kind == turn.RequestQuestion:
		return func(ctx context.Context) error { return p.f.answer(ctx, w, bare) }, bare != ""
	}
	d, ok := decisionOf(bare)
	if more := p.pages != nil && p.pages.left() > 0; more && (!ok || d.allow) {
		p.f.app.note("%s", p.pages.next()) // nothing is allowed before all of it was on the screen
		return nil, false
	}
	if err := shownWhole(w); err != nil && d.allow {
		p.f.app.note("%v", err)
		return nil, false
	}
	if d.always != "" && !w.Grants(d.always) {
		p.f.app.note("%s", w.WhyNoGrant())
		return nil, false
	}
	return func(ctx context.Context) error { _, err := p.f.decide(ctx, w, d); return err }, ok
}

// decisionPrompt offers what would have an effect.
func decisionPrompt(w journal.RequestRecord) string {
	if shownWhole(w) != nil {
		return "[n]o (and why): "
	}
	prompt := "[y]es, [n]o (and why)"
	if w.Grants(turn.GrantCall) {
		prompt += ", [a]lways this call"
	}
	if w.Grants(turn.GrantTool) {
		prompt += ", always this [t]ool"
	}
	return prompt + ": "
}

// decisionOf reads what is said to an approval.
func decisionOf(line string) (d decision, ok bool) {
	key, why, _ := strings.Cut(line, " ")
	d.reason = strings.TrimSpace(why)
	switch strings.ToLower(key) {
	case "y", "yes":
		d.allow = true
	case "n", "no":
	case "a", "always":
		d.allow, d.always = true, turn.GrantCall
	case "t", "tool":
		d.allow, d.always = true, turn.GrantTool
	default:
		return d, false
	}
	return d, true
}

// replied takes a line of what a tool's server wants to know.
func (p *people) replied(w journal.RequestRecord, line string) (send func(context.Context) error, ok bool) {
	if err := p.asking.Take(line); err != nil {
		p.f.app.note("%v", err)
	}
	r, over := p.asking.Reply()
	return func(ctx context.Context) error { return p.f.reply(ctx, w, r) }, over
}

// acknowledged takes what became of a decision, and asks for the next one.
func (p *people) acknowledged(ctx context.Context, err error) (bool, error) {
	p.current, p.pages, p.asking = nil, nil, nil
	var refused *turn.Error
	switch {
	case err == nil:
	case errors.As(err, &refused): // somebody else was faster, or time was
		p.f.app.note("%v", err)
	default:
		return true, err
	}
	return p.look(ctx)
}
