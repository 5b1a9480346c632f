package talk

import (
	"context"
	"errors"
	"io"

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
	reading bool // a goroutine is reading a line
	lines   chan app.TypedLine
	sent    chan error // results of sending decisions
	noticed bool       // elsewhere has said how to decide, unless --quiet
}

func newAsker(f *follower) asker {
	a := f.App
	return asker{f: f, here: !f.options.noWait && f.Online && a.OnTerminal(),
		shown: map[string]bool{}, decided: map[string]bool{}, lines: make(chan app.TypedLine, 1), sent: make(chan error, 1)}
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
		if decode(c, &about) && k.current != nil && k.current.Request.ID == about.ID && !k.decided[about.ID] {
			k.current = nil
			k.f.App.Note("\nit was decided elsewhere")
		}
	default:
		return false, nil
	}
	return k.look(ctx)
}

// look finds the pending requests of the turn. It asks the first one here, or prints how to decide all of them.
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
		case k.decided[r.ID], f.turn.Merged &&
			r.Kind == turn.RequestQuestion: // decided here, or answered by the sent message
		case !k.shown[r.ID] && f.options.after < 0 && !f.turn.Merged:
			return false, nil // the chunk of this request is still to come
		default:
			pending = append(pending, r)
		}
	}
	switch {
	case len(pending) == 0:
		return false, nil
	case k.here:
		k.f.view.pause()
		k.current = decide.NewDialog(f.TurnClient, pending[0])
		k.prompt()
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

// prompt reads a line, with a prompt that says for what.
func (k *asker) prompt() {
	io.WriteString(k.f.App.Err, k.current.Prompt())
	if k.reading {
		return
	}
	k.reading = true
	go func() { // reading cannot be interrupted; the goroutine lives until the command ends
		text, err := app.ReadLine(k.f.App.In)
		k.lines <- app.TypedLine{Text: text, Err: err}
	}()
}

// line handles a line that the user typed.
func (k *asker) line(ctx context.Context, l app.TypedLine) (bool, error) {
	k.reading = false
	if k.current == nil { // the request was decided before the line came
		return k.look(ctx)
	}
	if l.Err != nil { // the terminal is closed
		k.here, k.current = false, nil
		k.f.App.Note("")
		return k.look(ctx)
	}
	send := k.current.Take(l.Text)
	if send == nil {
		k.prompt()
		return false, nil
	}
	k.decided[k.current.Request.ID] = true
	go func() { k.sent <- send(ctx) }()
	return false, nil
}

// acknowledged handles the result of sending a decision, and asks for the next one.
func (k *asker) acknowledged(ctx context.Context, err error) (bool, error) {
	k.current = nil
	var refused *turn.Error
	switch {
	case err == nil:
	case errors.As(err, &refused): // another user decided first, or the request expired
		k.f.App.Note("%v", err)
	default:
		return true, err
	}
	return k.look(ctx)
}
