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
	shown   map[string]bool // requests that the turn's chunks have shown
	decided map[string]bool // requests decided here; the journal may not have the decisions yet
	current *decide.Dialog
	asked   chan asked         // how current ended; nil while nothing is asked
	cancel  context.CancelFunc // ends current
	held    []turn.Chunk       // chunks that came while current had the terminal
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

// chunk handles a chunk that may concern a request.
func (k *asker) chunk(ctx context.Context, c turn.Chunk) (bool, error) {
	var about turn.RequestChunk
	switch c.Kind {
	case turn.ChunkApprovalRequested, turn.ChunkQuestionAsked:
		if decode(c, &about) {
			k.shown[about.ID] = true
		}
	case turn.ChunkApprovalDecided, turn.ChunkQuestionAnswered:
		if decode(c, &about) && k.current != nil && k.current.Request.Turn == c.Turn &&
			k.current.Request.ID == about.ID && !k.decided[requestKey(k.current.Request)] {
			k.decidedElsewhere()
		}
	case turn.ChunkToolProgress:
		var p turn.ProgressChunk
		if !decode(c, &p) || p.Session == "" {
			return false, nil
		}
		if err := k.lookBelow(ctx); err != nil {
			return true, err
		}
	default:
		return false, nil
	}
	return k.look(ctx)
}

// lookBelow ends the dialog about a subagent's request that was decided elsewhere.
func (k *asker) lookBelow(ctx context.Context) error {
	if k.current == nil || k.current.Request.Turn == k.f.turn.ID || k.decided[requestKey(k.current.Request)] {
		return nil
	}
	requests, err := k.f.Client.Pending(ctx, client.PendingInput{Turn: k.f.turn.ID})
	same := func(r journal.RequestRecord) bool { return requestKey(r) == requestKey(k.current.Request) }
	if err == nil && !slices.ContainsFunc(requests, same) {
		k.decidedElsewhere()
	}
	return err
}

func (k *asker) decidedElsewhere() {
	k.close()
	k.current = nil
	k.f.App.Note("\nit was decided elsewhere")
}

// requestKey names a request of the followed turn, or of a subagent.
func requestKey(r journal.RequestRecord) string { return r.Turn + " " + r.ID }

// look finds the pending requests of the turn and of the subagents that it waits for. It asks the first one here, or
// prints how to decide all of them.
func (k *asker) look(ctx context.Context) (done bool, err error) {
	f := k.f
	if k.current != nil || f.turn.ID == "" {
		return false, nil
	}
	requests, err := f.Client.Pending(ctx, client.PendingInput{Turn: f.turn.ID})
	if err != nil || len(requests) == 0 {
		return false, nil // the next chunk or change of the journal calls look again
	}
	var pending []journal.RequestRecord
	for _, r := range requests {
		switch {
		case k.decided[requestKey(r)]:
		case r.Turn != f.turn.ID: // a subagent's, which no chunk shows
			pending = append(pending, r)
		case f.turn.Merged && r.Kind == turn.RequestQuestion: // the sent message answers it
		case !k.shown[r.ID] && f.options.after < 0 && !f.turn.Merged:
			return false, nil // the chunk of this request is still to come
		default:
			pending = append(pending, r)
		}
	}
	switch {
	case len(pending) == 0:
		return false, nil
	case k.here && (pending[0].Kind != turn.RequestElicitation || f.App.Draws()):
		k.f.view.pause()
		k.current = decide.NewDialog(f.TurnClient, pending[0])
		k.start(ctx)
		return false, nil
	}
	return k.elsewhere(ctx, pending)
}

// elsewhere prints how to decide the requests, and ends the command unless it is to stay.
func (k *asker) elsewhere(ctx context.Context, pending []journal.RequestRecord) (bool, error) {
	f := k.f
	f.view.pause()
	if f.options.stay && !f.options.noWait {
		if !k.noticed && !f.options.quiet {
			f.App.Note("%s", decide.LayoutOf(f.App.Err).WithCommands(pending))
		}
		k.noticed = true
		return false, nil
	}
	for c, err := range f.rest(ctx) {
		if err != nil {
			return true, err
		}
		f.view.chunk(c)
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
		first = "\nrun `starter dev` in another terminal first: this command's server and worker stop when it exits"
	}
	f.App.Note("%s%s\nthe turn keeps waiting; follow it with `%s`", decide.LayoutOf(f.App.Err).WithCommands(pending),
		first,
		attachHint(f.TurnClient, f.turn))
	return true, &app.ExitError{Code: app.ExitWaiting}
}

// start asks the current request in the background.
func (k *asker) start(ctx context.Context) {
	ctx, k.cancel = context.WithCancel(ctx)
	current, out := k.current, make(chan asked, 1)
	k.asked = out
	go func() {
		send, err := current.Ask(ctx)
		out <- asked{send, err}
	}()
}

// close takes the terminal back from the current dialog, and shows what happened meanwhile.
func (k *asker) close() {
	if k.asked != nil {
		k.cancel()
		<-k.asked
		k.release()
	}
}

// release shows what happened while a dialog had the terminal.
func (k *asker) release() {
	k.cancel()
	k.asked = nil
	for _, c := range k.held {
		k.f.view.chunk(c)
	}
	k.held = nil
}

// show shows a chunk, as soon as no dialog has the terminal.
func (k *asker) show(c turn.Chunk) {
	if k.asked != nil {
		k.held = append(k.held, c)
		return
	}
	k.f.view.chunk(c)
}

// answered handles the end of the current dialog.
func (k *asker) answered(ctx context.Context, d asked) (bool, error) {
	k.release()
	switch {
	case errors.Is(d.err, app.ErrInterrupted):
		return true, k.f.leave(ctx, os.Interrupt)
	case d.err != nil: // the terminal is closed
		k.here, k.current = false, nil
		k.f.App.Note("")
		return k.look(ctx)
	}
	k.decided[requestKey(k.current.Request)] = true
	turnID := k.current.Request.Turn
	go func() {
		_, covered, err := d.send(ctx)
		k.sent <- sent{turnID, covered, err}
	}()
	return false, nil
}

// acknowledged handles the result of sending a decision, and asks for the next one.
func (k *asker) acknowledged(ctx context.Context, s sent) (bool, error) {
	k.current = nil
	for _, id := range s.covered {
		k.decided[s.turn+" "+id] = true
	}
	var refused *turn.Error
	switch {
	case s.err == nil:
	case errors.As(s.err, &refused): // another user decided first, or the request expired
		k.f.App.Note("%v", s.err)
	default:
		return true, s.err
	}
	return k.look(ctx)
}
