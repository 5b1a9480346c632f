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

// followOptions are the flags of the commands that follow a turn.
type followOptions struct {
	output     string // the value of --output
	quiet      bool
	outputLast string // the file that also gets the answer; "": none
	after      int64  // show only the events after this index; -1: all events
	// stay keeps following if the turn waits for a decision and the user cannot be asked on this terminal. Otherwise the
	// command ends with ExitWaiting.
	stay bool
	// noWait means that the user is never asked, not even on a terminal.
	noWait bool
	// stopOnLeave stops the turn if the command ends before it, because no other worker can continue the turn.
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
	events  <-chan received // closed when the turn has ended; nil if the journal cannot be read
	result  <-chan outcome  // gets the turn's result; nil until wait is called
	pending <-chan struct{} // closed when the journal changes; nil once the turn has merged the sent message
	seen    int64           // the index of the last event
	ended   bool            // the follower has seen turn_completed
	// The timers: silence fires if the turn has no event within startWithin, and is nil after the first event. waitNote
	// fires every waitNoteEvery while the journal cannot be read, and is nil before that. versionCheck fires once, to
	// check whether a worker of the turn's version runs.
	silence, waitNote, versionCheck <-chan time.Time
	readers                         sync.WaitGroup
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

// follow shows the events of turn s until the turn ends, asks the user for the decisions that the turn waits for, and
// prints the answer. The error is nil if the turn was answered, and otherwise has the exit code for the turn's end. A
// signal detaches from the turn; a second Ctrl-C stops it.
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
	defer f.readers.Wait() // before the caller closes the journal
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
	f.versionCheck = time.After(versionCheckAfter)
	done, err := f.asker.askPending(ctx)
	for !done {
		done, err = f.next(ctx, timeout)
	}
	if f.ended && f.events != nil {
		f.awaitReader()
	}
	return err
}

// read starts to read the turn's events into f.events, in the background, until the turn or ctx ends.
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

// awaitReader waits until the reader of events has ended, or for a signal. After turn_completed the reader ends as soon
// as Temporal has closed the workflow. The answer is printed before that.
func (f *follower) awaitReader() {
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

// wait starts to wait for the turn's result in the background. The result arrives on f.result.
func (f *follower) wait(ctx context.Context) {
	s, result := f.turn, make(chan outcome, 1)
	f.result = result
	f.readers.Go(func() {
		r, err := f.Client.Wait(ctx, s.Turn)
		result <- outcome{r.Result, err}
	})
}

// next waits for the next thing that happens and handles it: an event of the turn, its result, the end of a dialog, a
// timer or a signal. timeout fires after --timeout, and may be nil. done reports whether the command ends.
func (f *follower) next(ctx context.Context, timeout <-chan time.Time) (done bool, err error) {
	select {
	case h, more := <-f.events:
		return f.receive(ctx, h, more)
	case end := <-f.result:
		f.asker.close()
		return true, f.conclude(ctx, end)
	case <-f.pending:
		f.pending = f.Journal.Changed(ctx)
		return f.asker.askPending(ctx)
	case <-f.silence:
		f.silence = nil
		if f.Online && !f.options.quiet && !f.NoteWait(ctx, f.turn.Session) {
			f.NoteSilence(ctx, "no worker has started the turn yet; it starts when a worker runs, for example `everturn dev`")
		}
		return false, nil
	case <-f.waitNote:
		f.NoteWait(ctx, f.turn.Session)
		return false, nil
	case <-f.versionCheck:
		f.NoteVersionLost(ctx, f.turn.Session)
		return false, nil
	case d := <-f.asker.asked:
		return f.asker.answered(ctx, d)
	case s := <-f.asker.sent:
		return f.asker.acknowledged(ctx, s)
	case err := <-f.Failed:
		if f.options.stopOnLeave { // callTool then ends the turn
			return true, fmt.Errorf("the worker of this command has ended, so its turn is stopped: %w", err)
		}
		return true, fmt.Errorf("the worker of this command has ended; the turn waits for another worker, follow it with "+
			"`%s`: %w", attachHint(f.TurnClient, f.turn), err)
	case first := <-f.signals:
		f.asker.close()
		f.view.pause()
		return true, f.detach(ctx, first)
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

// bound returns a context that ends after --timeout, if that is set.
func (o followOptions) bound(ctx context.Context) (context.Context, context.CancelFunc) {
	if o.timeout <= 0 {
		return context.WithCancel(ctx)
	}
	return context.WithTimeout(ctx, o.timeout)
}

// deadline returns a channel that fires after --timeout, or nil if that is not set.
func (f *follower) deadline() <-chan time.Time {
	if f.options.timeout <= 0 {
		return nil
	}
	return time.After(f.options.timeout)
}

// startWithin is how long the turn may have no event before the command tells the user why. Normally a worker starts a
// turn in much less time.
const startWithin = 2 * time.Second

// waitNoteEvery is how often the command prints what the turn waits for while the journal cannot be read.
const waitNoteEvery = 30 * time.Second

// versionCheckAfter is how long after its start the command checks whether a worker of the turn's version runs.
const versionCheckAfter = time.Second

// receive handles an event or error of the reader. more is false if the reader has ended. done reports whether the
// command ends.
func (f *follower) receive(ctx context.Context, h received, more bool) (done bool, err error) {
	f.silence = nil
	switch {
	case !more: // the turn ended without turn_completed, or the reader began after it
		f.events = nil
		f.wait(ctx)
		return false, nil
	case h.err != nil:
		return f.withoutJournal(ctx, h.err)
	}
	// Client.Follow yields the events of the turn that takes the sent message. That may not be the turn that was running.
	f.turn.ID, f.turn.Merged, f.pending = h.event.Turn, false, nil
	f.seen = h.event.Index
	f.ended = h.event.Kind == turn.EventTurnCompleted
	f.asker.show(h.event)
	if f.ended {
		f.asker.close()
		r, err := f.Client.Result(ctx, f.turn.Turn)
		return true, f.conclude(ctx, outcome{r.Result, err})
	}
	return f.asker.event(ctx, h.event)
}

// withoutJournal continues without the journal, which failed with err: it waits for the turn's result from Temporal. If
// the client is not connected to Temporal, the command ends. done reports whether it does.
func (f *follower) withoutJournal(ctx context.Context, err error) (done bool, _ error) {
	if !f.Online {
		return true, fmt.Errorf("reading the journal: %w", err)
	}
	f.App.Note("reading the journal: %v (the turn continues)", err)
	f.events = nil
	f.NoteWait(ctx, f.turn.Session)
	f.waitNote = time.Tick(waitNoteEvery)
	f.wait(ctx)
	return false, nil
}

// checkAfter returns an error if --after-event names an event after the end of the turn. It sets f.ended if the journal
// has turn_completed.
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
		last, f.ended = end.Index, end.Kind == turn.EventTurnCompleted
	}
	if f.ended && f.options.after > last {
		return app.Usage("turn %s ended with event %d, so there is no event after %d: use --after-event %d or less, or "+
			"omit it",
			f.turn.ID, last, f.options.after, last)
	}
	return nil
}

// conclude prints the turn's result, or returns the error of waiting for it with what the user can do.
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
	if !f.ended && f.options.after >= 0 { // the event may be before --after-event
		if err := f.checkAfter(ctx); err != nil {
			return err
		}
	}
	if f.options.output == app.OutputJSONL && !f.ended { // the journal has no last event
		if err := f.view.closing(end.result, f.seen+1); err != nil {
			return err
		}
	}
	err := finish(f.TurnClient, end.result, f.view, f.options)
	if f.view.changed && !f.options.quiet && f.options.output == app.OutputText {
		noteChanges(ctx, f.TurnClient, f.turn.Session)
	}
	return err
}

// finish prints the turn's result, writes the answer to the file of --output-last, and returns an error with the exit
// code for the result.
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

// unseenEvents returns the turn's events that are in the journal and that the follower has not seen yet, at most 1000.
// It advances f.seen.
func (f *follower) unseenEvents(ctx context.Context) iter.Seq2[turn.Event, error] {
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
