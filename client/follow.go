package client

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"iter"
	"math"
	"time"

	"github.com/everturn/everturn/journal"
	"github.com/everturn/everturn/journal/follow"
	"github.com/everturn/everturn/workflows/turn"
)

// closeWithin bounds how long Follow waits for Temporal to close the run of a turn that has ended.
const closeWithin = time.Second

// Follow yields the events of a turn with index > after (-1 for all) in order, as they appear. If t names a message,
// Follow yields the events of the turn that takes the message; if that turn was running before, they begin with the
// message. Event.Turn names the turn, and another Follow can resume after Event.Index.
//
// The iteration ends after turn_completed, when Temporal has closed the run too or after a second at the latest: the
// session is at rest then. It also ends if the turn is over and has no turn_completed in the journal, for instance
// because its message is a duplicate or because it was terminated. Wait returns how it ended.
//
// Follow waits for a turn that has not begun. Between two events the caller may take its time, for instance to ask a
// user: the journal keeps the events. An error is yielded once and is the last: that of ctx, or of reading the journal.
// While Temporal does not answer, or rejects the client, Follow continues with the journal.
func (c *Client) Follow(ctx context.Context, t Turn, after int64) iter.Seq2[turn.Event, error] {
	return func(yield func(turn.Event, error) bool) {
		f := follower{c: c, t: t, reader: follow.TurnReader{Journal: c.journal, After: after}}
		stopped := false
		err := f.run(ctx, func(event turn.Event) bool {
			stopped = !yield(event, nil)
			return !stopped
		})
		if err != nil && !stopped {
			yield(turn.Event{}, err)
		}
	}
}

// Wait waits until a turn has ended and returns its result. If t names a message, the turn is the one that takes the
// message. A turn that waits for a decision has not ended; see Pending.
//
// Errors: that of ctx, ErrNotFound, ErrUndelivered, or Temporal's error if it rejects the client (permission denied,
// for instance): the turn may be running then.
func (c *Client) Wait(ctx context.Context, t Turn) (Result, error) {
	f := follower{c: c, t: t, reader: follow.TurnReader{Journal: c.journal, After: math.MaxInt64}, onlyResult: true}
	err := f.run(ctx, func(turn.Event) bool { return true })
	switch {
	case err != nil && f.outcome == nil:
		return Result{}, err
	case f.t.Merged: // no turn has taken the message
		return Result{}, cmp.Or(err, f.outcome.err)
	}
	r, err := c.journalResult(ctx, f.t.ID)
	if (err != nil || !r.State.Terminal()) && f.outcome != nil { // only Temporal has the turn's end
		r, err = f.outcome.result, f.outcome.err
	}
	if err != nil {
		return Result{Result: r}, err
	}
	return c.withCalls(ctx, r)
}

// follower reads one turn from the journal while it waits for Temporal to report the turn's end.
type follower struct {
	c          *Client
	t          Turn
	reader     follow.TurnReader
	onlyResult bool         // the caller is Wait, which needs no events
	begun      bool         // the journal has told which message began the turn f.t
	message    string       // events before this message are skipped; empty if none are, or if it has been reached
	outcomes   chan outcome // receives the turn's outcome from Temporal; nil once it has been received
	outcome    *outcome     // the turn's outcome as Temporal reported it; nil until then
	cancel     func()       // cancels the request to Temporal
}

// run passes the turn's events to emit as they appear, and returns when the turn is over or emit returns false.
func (f *follower) run(ctx context.Context, emit func(turn.Event) bool) error {
	if f.c.journal == nil {
		return ErrNoJournal
	}
	ctx, cancel := context.WithCancel(ctx) // ends the subscription to the journal and the request to Temporal
	defer cancel()
	f.awaitOutcome(ctx)
	for {
		changed := f.changed(ctx) // before the read, so that no change is missed
		done, err := f.advance(ctx, emit)
		// Wait does not need a journal that cannot be read if Temporal will report the result. Which turn takes a merged
		// message, only the journal tells.
		temporalTells := f.outcomes != nil && f.outcome == nil && !f.t.Merged
		if err != nil && f.onlyResult && temporalTells {
			changed, err = nil, nil
		}
		if done || err != nil {
			return err
		}
		select {
		case <-changed:
		case end := <-f.outcomes:
			f.outcomes, f.outcome = nil, &end
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// changed returns a channel that is closed when the journal may have new events of the turn. While it is not known
// which turn takes the message, any change of the session closes the channel too.
func (f *follower) changed(ctx context.Context) <-chan struct{} {
	topics := []journal.Topic{{Turn: f.t.ID}}
	if f.t.Merged || !f.begun {
		topics = append(topics, journal.Topic{Session: f.t.Session})
	}
	return f.c.journal.Changed(ctx, topics...)
}

// awaitOutcome starts a request to Temporal that waits for the end of the turn f.t, in place of an earlier request for
// another turn. Its answer arrives on f.outcomes.
func (f *follower) awaitOutcome(ctx context.Context) {
	if f.cancel != nil {
		f.cancel()
	}
	ctx, f.cancel = context.WithCancel(ctx)
	f.outcome = nil
	if f.c.temporal != nil {
		f.outcomes = f.c.awaitOutcome(ctx, f.t, !f.onlyResult)
	}
}

// advance passes the events that the journal has by now to emit. It returns true if the turn is over or emit returned
// false.
func (f *follower) advance(ctx context.Context, emit func(turn.Event) bool) (done bool, err error) {
	if err := f.checkFirst(ctx); err != nil {
		return false, err
	}
	if f.t.Merged {
		if taken, err := f.findMergedTurn(ctx); !taken || err != nil {
			return f.outcome != nil, err // with an outcome, no turn will take the message
		}
	}
	for {
		f.reader.Turn = f.t.ID
		events, err := f.reader.Next(ctx)
		if err != nil {
			return false, err
		}
		for _, event := range events {
			if f.passesMessage(event) && !emit(event) {
				return true, nil
			}
			if event.Kind == turn.EventTurnCompleted {
				f.awaitClose(ctx)
			}
		}
		if f.reader.Done {
			return true, nil
		}
		if len(events) > 0 {
			continue
		}
		if again, done := f.decideEnd(ctx, f.reader.Begun); !again {
			return done, nil
		}
	}
}

// checkFirst makes f.t a merged message if another message has begun its turn: one that an earlier turn had left came
// first.
func (f *follower) checkFirst(ctx context.Context) error {
	if f.begun = f.begun || f.t.Merged || f.t.MessageID == ""; f.begun {
		return nil
	}
	row, err := f.c.journal.Turn(ctx, f.t.ID)
	if errors.Is(err, ErrNotFound) {
		return nil
	}
	if f.begun = err == nil; f.begun && row.MessageID != journal.CleanText(f.t.MessageID) {
		f.t.Merged = true
		f.awaitOutcome(ctx)
	}
	return err
}

// findMergedTurn makes f follow the turn that has taken a merged message. It returns false if no turn has taken it yet.
func (f *follower) findMergedTurn(ctx context.Context) (bool, error) {
	row, err := f.c.journal.Delivered(ctx, f.t.Session, f.t.MessageID)
	switch {
	case errors.Is(err, ErrNotFound):
		return false, nil
	case err != nil:
		return false, err
	}
	if row.MessageID != f.t.MessageID { // another message began the turn: its earlier events are not for this caller
		f.message = f.t.MessageID
	}
	f.t.ID, f.t.Merged = row.ID, false
	f.awaitOutcome(ctx)
	return true, nil
}

// decideEnd decides how the follower goes on after it has read all events of a turn whose end the journal does not
// have. inJournal means that the journal has the turn. The follower is done if Temporal has reported the turn's end,
// unless the journal lacks the turn and another one has its message: then the follower switches to that turn, and again
// is true.
func (f *follower) decideEnd(ctx context.Context, inJournal bool) (again, done bool) {
	switch {
	case f.outcome == nil:
		return false, false
	case !inJournal && f.switchTurn(ctx):
		f.awaitOutcome(ctx)
		return true, false
	}
	return false, true
}

// switchTurn makes f follow another turn that has its message, and reports whether there is one. There is one, for
// example, if the message is a duplicate: the turn that was started for it ends at once, and an earlier one has it.
func (f *follower) switchTurn(ctx context.Context) bool {
	id := f.outcome.result.Turn
	if f.t.MessageID != "" {
		row, err := f.c.journal.Delivered(ctx, f.t.Session, f.t.MessageID)
		if err != nil {
			return false
		}
		id = row.ID
	}
	if id == "" || id == f.t.ID {
		return false
	}
	if _, err := f.c.journal.Turn(ctx, id); err != nil {
		return false
	}
	f.t.ID, f.message = id, ""
	return true
}

// awaitClose waits until Temporal has closed the turn's run too, for at most closeWithin. Otherwise run would cancel
// the request to Temporal while the server closes the run: a development server's database then sometimes refused all
// further requests ("interrupted (9)").
func (f *follower) awaitClose(ctx context.Context) {
	if f.outcomes == nil {
		return
	}
	select {
	case <-f.outcomes:
	case <-time.After(closeWithin):
	case <-ctx.Done():
	}
}

// passesMessage reports whether Follow yields an event. It is false for the events before the one that adds f.message
// to the turn. The turn's last event is always yielded.
func (f *follower) passesMessage(e turn.Event) bool {
	if f.message == "" {
		return true
	}
	switch e.Kind {
	case turn.EventMessageAdded:
		var added turn.MessageEvent
		if json.Unmarshal(e.Data, &added) == nil && added.MessageID != f.message {
			return false
		}
	case turn.EventTurnCompleted:
	default:
		return false
	}
	f.message = ""
	return true
}
