package talk

import (
	"context"
	"errors"
	"os"
	"slices"

	"github.com/everturn/everturn/client"
	"github.com/everturn/everturn/journal"
	"github.com/everturn/everturn/starter/internal/cli/app"
	"github.com/everturn/everturn/starter/internal/cli/decide"
	"github.com/everturn/everturn/workflows/turn"
)

// asker handles the requests of the followed turn: it asks the user at this terminal, or prints how to decide
// elsewhere.
type asker struct {
	f       *follower
	here    bool            // the user at this terminal can be asked
	shown   map[string]bool // requests that the turn's events have shown
	decided map[string]bool // requests decided here; the journal may not have the decisions yet
	current *decide.Dialog
	asked   chan asked         // how current ended; nil while nothing is asked
	cancel  context.CancelFunc // ends current
	held    []turn.Event       // events that came while current had the terminal
	sent    chan sent          // results of sending decisions
	noticed bool               // elsewhere has said how to decide, unless --quiet
}

// asked is how a dialog ended: with the function that sends the decision, or with an error.
type asked struct {
	send func(context.Context) (string, []string, error)
	err  error
}

// sent is the result of sending a decision, with the calls that its grant has allowed.
type sent struct {
	turn    string
	covered []string
	err     error
}

func newAsker(f *follower) asker {
	a := f.App
	return asker{f: f, here: !f.options.noWait && f.Online && a.OnTerminal(),
		shown: map[string]bool{}, decided: map[string]bool{}, sent: make(chan sent, 1)}
}

// event handles an event that may concern a request.
func (a *asker) event(ctx context.Context, e turn.Event) (bool, error) {
	var about turn.RequestEvent
	switch e.Kind {
	case turn.EventApprovalRequested, turn.EventQuestionAsked:
		if decode(e, &about) {
			a.shown[about.ID] = true
		}
	case turn.EventApprovalDecided, turn.EventQuestionAnswered:
		if decode(e, &about) && a.current != nil && a.current.Request.Turn == e.Turn &&
			a.current.Request.ID == about.ID && !a.decided[requestKey(a.current.Request)] {
			a.decidedElsewhere()
		}
	case turn.EventToolProgress:
		var p turn.ProgressEvent
		if !decode(e, &p) || p.Session == "" {
			return false, nil
		}
		if err := a.lookBelow(ctx); err != nil {
			return true, err
		}
	default:
		return false, nil
	}
	return a.look(ctx)
}

// lookBelow ends the dialog about a subagent's request that was decided elsewhere.
func (a *asker) lookBelow(ctx context.Context) error {
	if a.current == nil || a.current.Request.Turn == a.f.turn.ID || a.decided[requestKey(a.current.Request)] {
		return nil
	}
	requests, err := a.f.Client.Pending(ctx, client.PendingInput{Turn: a.f.turn.ID})
	same := func(r journal.RequestRecord) bool { return requestKey(r) == requestKey(a.current.Request) }
	if err == nil && !slices.ContainsFunc(requests, same) {
		a.decidedElsewhere()
	}
	return err
}

func (a *asker) decidedElsewhere() {
	a.close()
	a.current = nil
	a.f.App.Note("\nit was decided elsewhere")
}

// requestKey names a request of the followed turn, or of a subagent.
func requestKey(r journal.RequestRecord) string { return r.Turn + " " + r.ID }

// look finds the pending requests of the turn and of the subagents that it waits for. It asks the first one here, or
// prints how to decide all of them.
func (a *asker) look(ctx context.Context) (done bool, err error) {
	f := a.f
	if a.current != nil || f.turn.ID == "" {
		return false, nil
	}
	requests, err := f.Client.Pending(ctx, client.PendingInput{Turn: f.turn.ID})
	if err != nil || len(requests) == 0 {
		return false, nil // the next event or change of the journal calls look again
	}
	var pending []journal.RequestRecord
	for _, r := range requests {
		switch {
		case a.decided[requestKey(r)]:
		case r.Turn != f.turn.ID: // a subagent's, which no event shows
			pending = append(pending, r)
		case f.turn.Merged && r.Kind == turn.RequestQuestion: // the sent message answers it
		case !a.shown[r.ID] && f.options.after < 0 && !f.turn.Merged:
			return false, nil // the event of this request is still to come
		default:
			pending = append(pending, r)
		}
	}
	switch {
	case len(pending) == 0:
		return false, nil
	case a.here && (pending[0].Kind != turn.RequestElicitation || f.App.Draws()):
		a.f.view.pause()
		a.current = decide.NewDialog(f.TurnClient, pending[0])
		a.start(ctx)
		return false, nil
	}
	return a.elsewhere(ctx, pending)
}

// elsewhere prints how to decide the requests, and ends the command unless it is to stay.
func (a *asker) elsewhere(ctx context.Context, pending []journal.RequestRecord) (bool, error) {
	f := a.f
	f.view.pause()
	if f.options.stay && !f.options.noWait {
		if !a.noticed && !f.options.quiet {
			f.App.Note("%s", decide.LayoutOf(f.App.Err).WithCommands(pending))
		}
		a.noticed = true
		return false, nil
	}
	for e, err := range f.rest(ctx) {
		if err != nil {
			return true, err
		}
		f.view.event(e)
	}
	if f.options.output == app.OutputJSON {
		r, err := f.Client.Result(ctx, client.Turn{ID: f.turn.ID})
		if err == nil {
			err = app.WriteJSON(f.App.Out, r)
		}
		if err != nil {
			return true, err
		}
	}
	if f.options.stopOnLeave {
		f.App.Note("the turn needs a decision, so it is stopped: omit --no-wait to decide")
		return true, errors.Join(&app.ExitError{Code: app.ExitWaiting}, f.stopTurn(ctx))
	}
	first := ""
	if f.Failed != nil {
		first = "\nrun `everturn dev` in another terminal first: this command's server and worker stop when it exits"
	}
	f.App.Note("%s%s\nthe turn keeps waiting; follow it with `%s`", decide.LayoutOf(f.App.Err).WithCommands(pending),
		first,
		attachHint(f.TurnClient, f.turn))
	return true, &app.ExitError{Code: app.ExitWaiting}
}

// start asks the current request in the background.
func (a *asker) start(ctx context.Context) {
	ctx, a.cancel = context.WithCancel(ctx)
	current, out := a.current, make(chan asked, 1)
	a.asked = out
	go func() {
		send, err := current.Ask(ctx)
		out <- asked{send, err}
	}()
}

// close takes the terminal back from the current dialog, and shows what happened meanwhile.
func (a *asker) close() {
	if a.asked != nil {
		a.cancel()
		<-a.asked
		a.release()
	}
}

// release shows what happened while a dialog had the terminal.
func (a *asker) release() {
	a.cancel()
	a.asked = nil
	for _, e := range a.held {
		a.f.view.event(e)
	}
	a.held = nil
}

// show shows an event, as soon as no dialog has the terminal.
func (a *asker) show(e turn.Event) {
	if a.asked != nil {
		a.held = append(a.held, e)
		return
	}
	a.f.view.event(e)
}

// answered handles the end of the current dialog.
func (a *asker) answered(ctx context.Context, d asked) (bool, error) {
	a.release()
	switch {
	case errors.Is(d.err, app.ErrInterrupted):
		return true, a.f.leave(ctx, os.Interrupt)
	case d.err != nil: // the terminal is closed
		a.here, a.current = false, nil
		a.f.App.Note("")
		return a.look(ctx)
	}
	a.decided[requestKey(a.current.Request)] = true
	turnID := a.current.Request.Turn
	go func() {
		_, covered, err := d.send(ctx)
		a.sent <- sent{turnID, covered, err}
	}()
	return false, nil
}

// acknowledged handles the result of sending a decision, and asks for the next one.
func (a *asker) acknowledged(ctx context.Context, s sent) (bool, error) {
	a.current = nil
	for _, id := range s.covered {
		a.decided[s.turn+" "+id] = true
	}
	var refused *turn.Error
	switch {
	case s.err == nil:
	case errors.As(s.err, &refused): // another user decided first, or the request expired
		a.f.App.Note("%v", s.err)
	default:
		return true, s.err
	}
	return a.look(ctx)
}
