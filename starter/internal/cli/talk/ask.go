package talk

import (
	"cmp"
	"context"
	"errors"
	"io"
	"os"
	"slices"

	"github.com/everturn/everturn/client"
	"github.com/everturn/everturn/starter/internal/cli/app"
	"github.com/everturn/everturn/starter/internal/cli/decide"
	"github.com/everturn/everturn/workflows/turn"
)

// asker handles the pending requests of the followed turn: it asks the user on this terminal, one request at a time, or
// prints the commands that decide them. Its methods run in the follower's goroutine; only the dialog and the sending of
// decisions run in others.
type asker struct {
	f          *follower
	canAsk     bool               // the user can be asked on this terminal
	shown      map[string]bool    // the IDs of requests that the turn's events have shown
	decided    map[string]bool    // the keys of requests decided here; the journal may not have the decisions yet
	current    *decide.Dialog     // the dialog, until its decision is sent; nil: none
	asked      chan asked         // gets the end of current; nil while no dialog has the terminal
	cancel     context.CancelFunc // ends current
	heldEvents []turn.Event       // events that arrived while current had the terminal
	sent       chan sent          // gets the result of sending a decision
	printed    bool               // printRequests has been called, and the command stays
}

// asked is the end of a dialog: the function that sends the user's decision, or an error.
type asked struct {
	send func(context.Context) (string, []string, error)
	err  error
}

// sent is the result of sending a decision.
type sent struct {
	turn    string   // the ID of the decided request's turn
	decided []string // the IDs of the call and of others that the decision's grant has allowed
	err     error
}

// newAsker returns the asker of a follower. It asks on the terminal unless there is none, with --no-wait, or without a
// connection to Temporal.
func newAsker(f *follower) asker {
	a := f.App
	return asker{f: f, canAsk: !f.options.noWait && f.Online && a.OnTerminal(),
		shown: map[string]bool{}, decided: map[string]bool{}, sent: make(chan sent, 1)}
}

// event handles an event that may concern a request. done reports whether the command ends.
func (a *asker) event(ctx context.Context, e turn.Event) (done bool, err error) {
	var about turn.Request
	switch e.Kind {
	case turn.EventApprovalRequested, turn.EventQuestionAsked:
		if decode(e, &about) {
			a.shown[about.ID] = true
		}
	case turn.EventApprovalDecided, turn.EventQuestionAnswered:
		// Another client has decided the request about which the dialog asks.
		if decode(e, &about) && a.current != nil && a.current.Request.Turn == e.Turn &&
			a.current.Request.ID == about.ID && !a.decided[requestKey(a.current.Request)] {
			a.decidedElsewhere()
		}
	case turn.EventToolProgress:
		var p turn.ProgressEvent
		if !decode(e, &p) || p.Session == "" {
			return false, nil
		}
		if err := a.checkSubagentRequest(ctx); err != nil {
			return true, err
		}
	default:
		return false, nil
	}
	return a.askPending(ctx)
}

// checkSubagentRequest ends the dialog if it is about the request of a subagent that is no longer pending. The events
// of the followed turn do not show that.
func (a *asker) checkSubagentRequest(ctx context.Context) error {
	if a.current == nil || a.current.Request.Turn == a.f.turn.ID || a.decided[requestKey(a.current.Request)] {
		return nil
	}
	requests, err := a.f.Client.Pending(ctx, client.PendingInput{Turn: a.f.turn.ID})
	same := func(r client.Request) bool { return requestKey(r) == requestKey(a.current.Request) }
	if err == nil && !slices.ContainsFunc(requests, same) {
		a.decidedElsewhere()
	}
	return err
}

// decidedElsewhere ends the dialog because another client has decided its request.
func (a *asker) decidedElsewhere() {
	a.close()
	a.current = nil
	a.f.App.Note("\nit was decided elsewhere")
}

// requestKey returns a key of a request that is unique among the followed turn and its subagents.
func requestKey(r client.Request) string { return r.Turn + " " + r.ID }

// askPending finds the pending requests of the turn and of the subagents that it waits for. It starts a dialog about
// the first one, or prints how to decide them. It does nothing while a dialog is open. done reports whether the command
// ends.
func (a *asker) askPending(ctx context.Context) (done bool, err error) {
	f := a.f
	if a.current != nil || f.turn.ID == "" {
		return false, nil
	}
	requests, err := f.Client.Pending(ctx, client.PendingInput{Turn: f.turn.ID})
	if err != nil || len(requests) == 0 {
		return false, nil // after an error, the next event or change of the journal calls askPending again
	}
	var pending []client.Request
	for _, r := range requests {
		switch {
		case a.decided[requestKey(r)]:
		case r.Turn != f.turn.ID: // a subagent's request, which no event of this turn shows
			pending = append(pending, r)
		case f.turn.Merged && r.Kind == turn.RequestQuestion: // the sent message answers it
		case !a.shown[r.ID] && f.options.after < 0 && !f.turn.Merged:
			// Show the request's event first; it calls askPending. With --after-event or for a merged message, that event
			// may not be read.
			return false, nil
		default:
			pending = append(pending, r)
		}
	}
	// The terminal asks first about what its user can decide, and not about calls that a client runs.
	slices.SortStableFunc(pending, func(a, b client.Request) int { return cmp.Compare(ofClient(a), ofClient(b)) })
	switch {
	case len(pending) == 0:
		return false, nil
	case a.canAsk && ofClient(pending[0]) == 0 && (pending[0].Kind != turn.RequestElicitation || f.App.Draws()):
		a.f.view.pause()
		io.WriteString(f.App.Err, "\a") // the terminal's bell
		a.current = decide.NewDialog(f.TurnClient, pending[0])
		a.start(ctx)
		return false, nil
	}
	return a.printRequests(ctx, pending)
}

// ofClient returns 1 if a client runs the call of a request, and otherwise 0.
func ofClient(r client.Request) int {
	if r.Kind == turn.RequestResult {
		return 1
	}
	return 0
}

// printRequests prints the requests with the commands that decide them. It then ends the command with ExitWaiting,
// unless the command stays: then it prints them only at the first call. done reports whether the command ends.
func (a *asker) printRequests(ctx context.Context, pending []client.Request) (done bool, err error) {
	f := a.f
	f.view.pause()
	if f.options.stay && !f.options.noWait {
		if !a.printed && !f.options.quiet {
			f.App.Note("%s", decide.LayoutOf(ctx, f.App, f.Cfg, f.App.Err).WithCommands(pending))
		}
		a.printed = true
		return false, nil
	}
	// The events before the requests, for the user and for -o jsonl.
	for e, err := range f.unseenEvents(ctx) {
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
	f.App.Note("%s%s\nthe turn keeps waiting; follow it with `%s`",
		decide.LayoutOf(ctx, f.App, f.Cfg, f.App.Err).WithCommands(pending),
		first, attachHint(f.TurnClient, f.turn))
	return true, &app.ExitError{Code: app.ExitWaiting}
}

// start runs the current dialog in the background. Its end arrives on a.asked.
func (a *asker) start(ctx context.Context) {
	ctx, a.cancel = context.WithCancel(ctx)
	current, out := a.current, make(chan asked, 1)
	a.asked = out
	go func() {
		send, err := current.Ask(ctx)
		out <- asked{send, err}
	}()
}

// close ends the dialog if one has the terminal, and shows the events that arrived meanwhile.
func (a *asker) close() {
	if a.asked != nil {
		a.cancel()
		<-a.asked
		a.releaseTerminal()
	}
}

// releaseTerminal shows the events that arrived while a dialog had the terminal. The dialog has ended.
func (a *asker) releaseTerminal() {
	a.cancel()
	a.asked = nil
	for _, e := range a.heldEvents {
		a.f.view.event(e)
	}
	a.heldEvents = nil
}

// show shows an event, or holds it back while a dialog has the terminal.
func (a *asker) show(e turn.Event) {
	if a.asked != nil {
		a.heldEvents = append(a.heldEvents, e)
		return
	}
	a.f.view.event(e)
}

// answered handles the end of the current dialog: it sends the user's decision in the background. done reports whether
// the command ends.
func (a *asker) answered(ctx context.Context, d asked) (done bool, err error) {
	a.releaseTerminal()
	switch {
	case errors.Is(d.err, app.ErrInterrupted):
		return true, a.f.detach(ctx, os.Interrupt)
	case d.err != nil: // the terminal is closed: print how to decide instead
		a.canAsk, a.current = false, nil
		a.f.App.Note("")
		return a.askPending(ctx)
	}
	a.decided[requestKey(a.current.Request)] = true
	turnID := a.current.Request.Turn
	go func() {
		_, decided, err := d.send(ctx)
		a.sent <- sent{turnID, decided, err}
	}()
	return false, nil
}

// acknowledged handles the result of sending a decision, and asks about the next request. done reports whether the
// command ends.
func (a *asker) acknowledged(ctx context.Context, s sent) (done bool, err error) {
	a.current = nil
	for _, id := range s.decided {
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
	return a.askPending(ctx)
}
