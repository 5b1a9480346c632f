package talk

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"os"
	"sync"
	"time"

	"github.com/everturn/everturn/client"
	"github.com/everturn/everturn/starter/internal/cli/app"
	"github.com/everturn/everturn/starter/internal/ui/chat"
	"github.com/everturn/everturn/workflows"
	"github.com/everturn/everturn/workflows/turn"
)

type followOptions struct {
	output     string
	quiet      bool
	outputLast string
	after      int64 // the index of the last event seen before; -1 for none
	// stay keeps following when the turn waits for a user who cannot be asked here; otherwise the command ends with
	// ExitWaiting.
	stay bool
	// noWait never asks the user, not even on a terminal.
	noWait bool
	// stopOnLeave stops the turn when the command ends early, because no other worker continues the turn.
	stopOnLeave bool
	// timeout bounds how long the command follows the turn; 0 means no bound.
	timeout time.Duration
}

// follower follows one turn.
type follower struct {
	*app.TurnClient
	turn    app.Started
	options followOptions
	view    *view
	asker   asker
	signals <-chan os.Signal
	events  <-chan received  // closed when the turn is over; nil if the journal cannot be read
	over    <-chan outcome   // the result; nil until wait is called
	pending <-chan struct{}  // the journal has changed, while the turn has not merged the sent message yet
	seen    int64            // the index of the last event
	ended   bool             // the follower has seen turn_completed
	silence <-chan time.Time // fires if the turn has no event within startWithin; nil after the first event
	blind   <-chan time.Time // fires now and then while the journal cannot be read; nil before that
	unheard <-chan time.Time // fires once, to look whether any worker can continue the turn
	readers sync.WaitGroup
}

// received is an event of the turn, or the error of reading it.
type received struct {
	event turn.Event
	err   error
}

// outcome is the result of a turn, or the error of waiting for it.
type outcome struct {
	result workflows.Result
	err    error
}

// follow shows a turn's events until the turn ends, and returns how it ended. A signal detaches, and a second Ctrl-C
// stops the turn.
func follow(ctx context.Context, t *app.TurnClient, s app.Started, o followOptions) error {
	f := &follower{TurnClient: t, turn: s, options: o, view: newView(t.App, o), seen: o.after,
		signals: t.App.Interrupts.Take()}
	f.asker = newAsker(f)
	f.view.media = func(e turn.Event) []turn.Media { return chat.MediaOf(ctx, t.Journal, e) }
	if o.output == app.OutputText && !o.quiet {
		t.App.Aside("%s", s.Link)
		if s.Merged {
			t.App.Aside("the message is merged into the session's running turn")
		}
	}
	defer f.readers.Wait() // the caller closes the journal after that
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer func() { f.asker.close() }()
	f.read(ctx)
	timeout := f.deadline()
	if s.Merged { // the running turn may need a decision before it takes the message
		f.pending = t.Journal.Changed(ctx)
	} else {
		f.silence = time.After(startWithin)
	}
	f.unheard = time.After(versionLostAfter)
	done, err := f.asker.look(ctx)
	for !done {
		done, err = f.next(ctx, timeout)
	}
	if f.ended && f.events != nil {
		f.awaitEnd()
	}
	return err
}

// read starts reading the turn's events in the background, until ctx ends.
func (f *follower) read(ctx context.Context) {
	s, after, events := f.turn, f.options.after, make(chan received)
	f.events = events
	emit := func(h received) bool {
		select {
		case events <- h:
			return true
		case <-ctx.Done():
			return false
		}
	}
	f.readers.Go(func() {
		defer close(events)
		for e, err := range f.Client.Follow(ctx, s.Turn, after) {
			if !emit(received{e, err}) {
				return
			}
		}
	})
}

// awaitEnd waits until the reader ends, which is when Temporal has also closed the run. The answer is printed before
// that.
func (f *follower) awaitEnd() {
	for {
		select {
		case _, more := <-f.events:
			if !more {
				return
			}
		case <-f.signals:
			return
		}
	}
}

// wait waits for the result in the background.
func (f *follower) wait(ctx context.Context) {
	s, over := f.turn, make(chan outcome, 1)
	f.over = over
	f.readers.Go(func() {
		r, err := f.Client.Wait(ctx, s.Turn)
		over <- outcome{r, err}
	})
}

// next waits for one event and reports whether the command is done with the turn.
func (f *follower) next(ctx context.Context, timeout <-chan time.Time) (done bool, err error) {
	select {
	case h, more := <-f.events:
		return f.receive(ctx, h, more)
	case end := <-f.over:
		f.asker.close()
		return true, f.conclude(ctx, end)
	case <-f.pending:
		f.pending = f.Journal.Changed(ctx)
		return f.asker.look(ctx)
	case <-f.silence:
		f.silence = nil
		if f.Online && !f.options.quiet && !f.NoteWait(ctx, f.turn.Session) {
			f.NoteSilence(ctx, "no worker has started the turn yet; it starts when a worker runs, for example `everturn dev`")
		}
		return false, nil
	case <-f.blind:
		f.NoteWait(ctx, f.turn.Session)
		return false, nil
	case <-f.unheard:
		f.NoteVersionLost(ctx, f.turn.Session)
		return false, nil
	case d := <-f.asker.asked:
		return f.asker.answered(ctx, d)
	case s := <-f.asker.sent:
		return f.asker.acknowledged(ctx, s)
	case err := <-f.Failed:
		if f.options.stopOnLeave {
			return true, fmt.Errorf("the worker of this command has ended, so its turn is stopped: %w", err)
		}
		return true, fmt.Errorf("the worker of this command has ended; the turn waits for another worker, follow it with "+
			"`%s`: %w", attachHint(f.TurnClient, f.turn), err)
	case first := <-f.signals:
		f.asker.close()
		f.view.pause()
		return true, f.leave(ctx, first)
	case <-timeout:
		f.asker.close()
		f.view.pause()
		if f.options.stopOnLeave {
			return true, errors.Join(&app.ExitError{Code: app.ExitTimeout}, f.stopTurn(ctx))
		}
		f.App.Note("no answer within %s; the turn continues. Follow it with `%s`", f.options.timeout,
			attachHint(f.TurnClient, f.turn))
		return true, &app.ExitError{Code: app.ExitTimeout}
	case <-ctx.Done():
		return true, context.Cause(ctx)
	}
}

// bound returns a context that ends after --timeout.
func (o followOptions) bound(ctx context.Context) (context.Context, context.CancelFunc) {
	if o.timeout <= 0 {
		return context.WithCancel(ctx)
	}
	return context.WithTimeout(ctx, o.timeout)
}

// deadline returns a channel that fires after --timeout, or nil if there is none.
func (f *follower) deadline() <-chan time.Time {
	if f.options.timeout <= 0 {
		return nil
	}
	return time.After(f.options.timeout)
}

// startWithin is how long a turn may go without an event before the command tells the user why. A worker starts a turn
// within moments.
const startWithin = 2 * time.Second

// blindEvery is how often the command tells what the turn waits for while the journal cannot be read.
const blindEvery = 30 * time.Second

// versionLostAfter is how long after its start the command looks whether any worker can continue the turn.
const versionLostAfter = time.Second

// receive handles an event that the journal returns, or the end of the events.
func (f *follower) receive(ctx context.Context, h received, more bool) (bool, error) {
	f.silence = nil
	switch {
	case !more: // the turn ended without turn_completed, or the reader began after it
		f.events = nil
		f.wait(ctx)
		return false, nil
	case h.err != nil:
		return f.withoutJournal(ctx, h.err)
	}
	f.turn.ID, f.turn.Merged, f.pending = h.event.Turn, false, nil
	f.seen = h.event.Index
	f.ended = h.event.Kind == turn.EventTurnCompleted
	f.asker.show(h.event)
	if f.ended {
		f.asker.close()
		r, err := f.Client.Result(ctx, f.turn.Turn)
		return true, f.conclude(ctx, outcome{r, err})
	}
	return f.asker.event(ctx, h.event)
}

// withoutJournal continues without the journal if Temporal can tell how the turn ends.
func (f *follower) withoutJournal(ctx context.Context, err error) (bool, error) {
	if !f.Online {
		return true, fmt.Errorf("reading the journal: %w", err)
	}
	f.App.Note("reading the journal: %v (the turn continues)", err)
	f.events = nil
	f.NoteWait(ctx, f.turn.Session)
	f.blind = time.Tick(blindEvery)
	f.wait(ctx)
	return false, nil
}

// checkAfter returns an error if --after-event names an event beyond the end of the turn.
func (f *follower) checkAfter(ctx context.Context) error {
	last := int64(-1)
	for {
		events, err := f.Journal.Events(ctx, f.turn.ID, last, 1000)
		if err != nil {
			return err
		}
		if len(events) == 0 {
			break
		}
		end := events[len(events)-1]
		last, f.ended = end.Index, end.Kind == turn.EventTurnCompleted // turn_completed is before o.after
	}
	if f.ended && f.options.after > last {
		return app.Usage("turn %s ended with event %d, so there is no event after %d: use --after-event %d or less, or "+
			"omit it",
			f.turn.ID, last, f.options.after, last)
	}
	return nil
}

// conclude ends the command with the turn's result, or with the error of waiting for it.
func (f *follower) conclude(ctx context.Context, end outcome) error {
	switch {
	case errors.Is(end.err, client.ErrUndelivered):
		id := f.turn.MessageID
		return &app.ExitError{Code: app.ExitFailed,
			Cause: fmt.Errorf("the turn was ended from outside before it took message %s: "+
				"send the message again with --message-id %s, and it is answered once", id, id)}
	case errors.Is(end.err, client.ErrNotFound):
		return app.Usage("turn %s does not exist: %w; `everturn show %s` shows the turns in the journal", f.turn.ID, end.err,
			app.Quoted(f.turn.Session))
	case end.err != nil:
		return end.err
	}
	if !f.ended && f.options.after >= 0 {
		if err := f.checkAfter(ctx); err != nil {
			return err
		}
	}
	if f.options.output == app.OutputJSONL && !f.ended {
		if err := f.view.closing(end.result, f.seen+1); err != nil {
			return err
		}
	}
	return finish(f.TurnClient, end.result, f.view, f.options)
}

// finish prints the turn's result.
func finish(t *app.TurnClient, r workflows.Result, view *view, o followOptions) error {
	switch o.output {
	case app.OutputJSON:
		if err := app.WriteJSON(t.App.Out, r); err != nil {
			return err
		}
	case app.OutputText:
		view.end(r.Answer, r)
	}
	if o.outputLast != "" { // after printing: an error of the file must not lose an answer that was paid for
		if err := os.WriteFile(o.outputLast, []byte(r.Answer), 0o600); err != nil {
			return app.Usage("writing the answer: %w", err)
		}
	}
	if code := app.TurnExit(r); code != app.ExitAnswered {
		return &app.ExitError{Code: code}
	}
	return nil
}

// rest returns the turn's events that are in the journal and that the follower has not seen.
func (f *follower) rest(ctx context.Context) iter.Seq2[turn.Event, error] {
	return func(yield func(turn.Event, error) bool) {
		events, err := f.Journal.Events(ctx, f.turn.ID, f.seen, 1000)
		for _, e := range events {
			f.seen = e.Index
			if !yield(e, nil) {
				return
			}
		}
		if err != nil {
			yield(turn.Event{}, err)
		}
	}
}
