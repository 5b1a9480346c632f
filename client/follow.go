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
	"github.com/everturn/everturn/workflows"
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
// Follow waits for a turn that has not begun. An error is yielded once and is the last: that of ctx, or of reading the
// journal. While Temporal does not answer, or rejects the client, Follow continues with the journal.
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
func (c *Client) Wait(ctx context.Context, t Turn) (workflows.Result, error) {
	f := follower{c: c, t: t, reader: follow.TurnReader{Journal: c.journal, After: math.MaxInt64}, onlyResult: true}
	err := f.run(ctx, func(turn.Event) bool { return true })
	switch {
	case err != nil && f.outcome == nil:
		return workflows.Result{}, err
	case f.t.Merged:
		return workflows.Result{}, cmp.Or(err, f.outcome.err)
	}
	r, err := c.journalResult(ctx, f.t.ID)
	if (err != nil || !r.State.Terminal()) && f.outcome != nil {
		return f.outcome.result, f.outcome.err
	}
	return r, err
}

// follower reads one turn from the journal while it waits for Temporal to report the turn's end.
type follower struct {
	c          *Client
	t          Turn
	reader     follow.TurnReader
	onlyResult bool         // the caller wants only the end, from the journal or from Temporal
	message    string       // events before this message are skipped; empty once it has been reached
	outcomes   chan outcome // receives the end from Temporal; nil once it has been received
	outcome    *outcome     // the end as Temporal reported it
	cancel     func()       // cancels the request to Temporal
}

func (f *follower) run(ctx context.Context, emit func(turn.Event) bool) error {
	if f.c.journal == nil {
		return errNoJournal
	}
	ctx, cancel := context.WithCancel(ctx) // the journal forgets the follower, and Temporal the request
	defer cancel()
	f.awaitOutcome(ctx)
	for {
		changed := f.changed(ctx) // before the read, so that no change is missed
		done, err := f.advance(ctx, emit)
		if err != nil && f.onlyResult && !f.t.Merged && f.outcome == nil && f.outcomes != nil {
			changed, err = nil, nil // the journal cannot be read; Temporal reports the end
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

// changed returns a channel that is closed when the journal may have more of the turn, or may have the turn that takes
// the message.
func (f *follower) changed(ctx context.Context) <-chan struct{} {
	topics := []journal.Topic{{Turn: f.t.ID}}
	if f.t.Merged {
		topics = append(topics, journal.Topic{Session: f.t.Session})
	}
	return f.c.journal.Changed(ctx, topics...)
}

// awaitOutcome starts asking Temporal for the end of the turn, or of the session's workflow if no turn has taken the
// message.
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

// advance reads what the journal has and reports whether the turn is over.
func (f *follower) advance(ctx context.Context, emit func(turn.Event) bool) (done bool, err error) {
	if f.t.Merged {
		if taken, err := f.findMergedTurn(ctx); !taken || err != nil {
			return f.outcome != nil, err
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

// findMergedTurn finds the turn that has taken a merged message.
func (f *follower) findMergedTurn(ctx context.Context) (bool, error) {
	row, err := f.c.journal.Delivered(ctx, f.t.Session, f.t.MessageID)
	switch {
	case errors.Is(err, ErrNotFound):
		return false, nil
	case err != nil:
		return false, err
	}
	if row.MessageID != f.t.MessageID {
		f.message = f.t.MessageID
	}
	f.t.ID, f.t.Merged = row.ID, false
	f.awaitOutcome(ctx)
	return true, nil
}

// decideEnd decides whether the follower is done when Temporal has reported an end that the journal does not have.
// known means that the journal has the turn. again means that the follower has switched to the turn that has the
// message.
func (f *follower) decideEnd(ctx context.Context, known bool) (again, done bool) {
	switch {
	case f.outcome == nil:
		return false, false
	case !known && f.switchTurn(ctx):
		f.awaitOutcome(ctx)
		return true, false
	}
	return false, true
}

// switchTurn finds the turn that has the message if the one that was started for it does not.
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

// awaitClose waits until Temporal has closed the run too. Otherwise the request for its end is cancelled while the
// server closes the run; a development server's database was seen to refuse everything after that ("interrupted (9)").
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

// passesMessage reports whether Follow yields an event: the message's or a later one.
func (f *follower) passesMessage(e turn.Event) bool {
	if f.message == "" {
		return true
	}
	switch e.Kind {
	case turn.EventMessageAdded:
		var joined turn.MessageEvent
		if json.Unmarshal(e.Data, &joined) == nil && joined.MessageID != f.message {
			return false
		}
	case turn.EventTurnCompleted:
	default:
		return false
	}
	f.message = ""
	return true
}
