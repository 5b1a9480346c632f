package cli

import (
	"context"
	"errors"
	"io"
	"strings"

	"github.com/everturn/everturn/client"
	"github.com/everturn/everturn/journal"
	"github.com/everturn/everturn/starter/internal/ui/form"
	"github.com/everturn/everturn/workflows/turn"
)

// people handles the requests of the followed turn: it asks the user at this terminal, or prints how to decide
// elsewhere.
type people struct {
	f       *follower
	here    bool            // the user at this terminal can be asked
	told    map[string]bool // requests that the turn's chunks have shown
	said    map[string]bool // requests decided here; the journal may not have the decisions yet
	current *journal.RequestRecord
	pages   *pages          // the pages of an approval that are still to be shown
	asking  *form.Interview // the interview of an elicitation
	reading bool            // a goroutine is reading a line
	typing  chan typed
	sent    chan error
	noticed bool // elsewhere has said how to decide, unless --quiet
}

// typed is a line that the user typed, or the error of reading it.
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

// heard handles a chunk that may concern a request.
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

// look finds the open requests of the turn. It asks the first one here, or prints where all can be decided.
func (p *people) look(ctx context.Context) (done bool, err error) {
	f := p.f
	if p.current != nil || f.s.ID == "" {
		return false, nil
	}
	requests, err := f.client.Pending(ctx, client.PendingInput{Turn: f.s.ID})
	if err != nil || len(requests) == 0 {
		return false, nil // the next chunk or change of the journal calls look again
	}
	var open []journal.RequestRecord
	for _, w := range requests {
		switch {
		case p.said[w.ID], f.s.Merged && w.Kind == turn.RequestQuestion: // decided here, or answered by the sent message
		case !p.told[w.ID] && f.o.after < 0 && !f.s.Merged:
			return false, nil // the chunk of this request is still to come
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

// elsewhere prints how to decide the requests, and ends the command unless it is to stay.
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

// ask shows one request to the user at the terminal and prompts for a decision.
func (p *people) ask(w journal.RequestRecord) {
	p.current, p.pages, p.asking = &w, nil, nil
	p.f.view.pause()
	a := p.f.app
	forgetTyped(a.in) // a key typed earlier must not approve what was not on the screen
	wide := layoutOf(a.err)
	wide.asked = true
	switch w.Kind {
	case turn.RequestApproval:
		p.pages = a.pagesOf(wide.describe(w))
		a.note("%s", p.pages.next())
	case turn.RequestElicitation:
		p.asking, _ = form.NewInterview(form.InquiryOf(w.Request)) // describe reports the error
		fallthrough
	default:
		a.note("%s", wide.describe(w))
	}
	p.prompt()
}

// prompt reads a line, with a prompt that says for what.
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
	go func() { // reading cannot be interrupted; the goroutine lives until the command ends
		line, err := readLine(p.f.app.in)
		p.typing <- typed{line, err}
	}()
}

// typed handles a line that the user typed.
func (p *people) typed(ctx context.Context, t typed) (bool, error) {
	p.reading = false
	w := p.current
	if w == nil { // the request was decided before the line came
		return p.look(ctx)
	}
	if t.err != nil { // the terminal is closed
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

// meant returns what a line means for a request. ok is false if the line is not understood or more lines are needed.
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
		p.f.app.note("%s", p.pages.next()) // the user must see all of the call before allowing it
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

// decisionPrompt offers the decisions that the request permits.
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

// decisionOf parses the decision about an approval.
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

// replied handles a line of an elicitation's interview.
func (p *people) replied(w journal.RequestRecord, line string) (send func(context.Context) error, ok bool) {
	if err := p.asking.Take(line); err != nil {
		p.f.app.note("%v", err)
	}
	r, over := p.asking.Reply()
	return func(ctx context.Context) error { return p.f.reply(ctx, w, r) }, over
}

// acknowledged handles the result of sending a decision, and asks for the next one.
func (p *people) acknowledged(ctx context.Context, err error) (bool, error) {
	p.current, p.pages, p.asking = nil, nil, nil
	var refused *turn.Error
	switch {
	case err == nil:
	case errors.As(err, &refused): // another user decided first, or the request expired
		p.f.app.note("%v", err)
	default:
		return true, err
	}
	return p.look(ctx)
}
