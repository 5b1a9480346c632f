package follow

import (
	"context"
	"errors"
	"fmt"
	"iter"

	"github.com/everturn/everturn/journal"
	"github.com/everturn/everturn/workflows/turn"
)

// followBatch is how many events a TurnReader reads at once.
const followBatch = 256

// Stream is what Turn reads. Its methods are documented at journal.DB.
type Stream interface {
	Events(ctx context.Context, turnID string, after int64, limit int) ([]turn.Event, error)
	Turn(ctx context.Context, turnID string) (journal.TurnRecord, error)
	Changed(ctx context.Context, topics ...journal.Topic) <-chan struct{}
}

// Turn yields the events of a turn with index > after (-1 for all), in order, as they appear, and ends after
// turn_completed. If the turn has not begun, Turn waits for it. An error, including ctx's, is yielded once and is the
// last value; to resume, the caller passes the index of the last event that it has seen.
func Turn(ctx context.Context, j Stream, turnID string, after int64) iter.Seq2[turn.Event, error] {
	return func(yield func(turn.Event, error) bool) {
		ctx, cancel := context.WithCancel(ctx) // the journal forgets the follower
		defer cancel()
		r := TurnReader{Journal: j, Turn: turnID, After: after}
		for !r.Done {
			changed := j.Changed(ctx, journal.Topic{Turn: turnID}) // before the read, so that no event is missed
			events, err := r.Next(ctx)
			for _, e := range events {
				if !yield(e, nil) {
					return
				}
			}
			if err == nil && len(events) == 0 && !r.Done {
				err = wait(ctx, changed)
			}
			if err != nil {
				yield(turn.Event{}, err)
				return
			}
		}
	}
}

func wait(ctx context.Context, changed <-chan struct{}) error {
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-changed:
		return nil
	}
}

// TurnReader reads the events of a turn in order, without waiting for more.
type TurnReader struct {
	Journal Stream
	Turn    string
	After   int64 // the index of the last event that was read, -1 before the first
	Begun   bool  // the journal has the turn
	Done    bool  // the turn has ended, and its last event was read
}

// Next reads the next events. If there are none, it checks whether the turn has ended, so that a reader who is past the
// end does not wait; a second read gets the events that were written together with the turn's end.
func (r *TurnReader) Next(ctx context.Context) ([]turn.Event, error) {
	events, err := r.read(ctx)
	if err != nil || len(events) > 0 {
		return events, err
	}
	t, err := r.Journal.Turn(ctx, r.Turn)
	if r.Begun = err == nil; isNotFound(err) || err == nil && !t.State.Terminal() {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	events, err = r.read(ctx)
	r.Done = r.Done || err == nil && len(events) == 0
	return events, err
}

func (r *TurnReader) read(ctx context.Context) ([]turn.Event, error) {
	events, err := r.Journal.Events(ctx, r.Turn, r.After, followBatch)
	if n := len(events); n > 0 {
		r.After = events[n-1].Index
		r.Done = events[n-1].Kind == turn.EventTurnCompleted
	}
	return events, err
}

func isNotFound(err error) bool { return errors.Is(err, journal.ErrNotFound) }

// Cursor is the position of a session's reader.
type Cursor struct {
	// Turn is the turn that was read last. If it is empty, the reader starts at the beginning of the session's last
	// turn.
	Turn string
	// Index is the index of the last event of Turn that was read, -1 if none was. It is ignored if Turn is empty.
	Index int64
}

// After returns the cursor of a reader that has read everything up to c.
func After(e turn.Event) Cursor { return Cursor{Turn: e.Turn, Index: e.Index} }

// SessionStream is what Session reads. Its methods are documented at journal.DB.
type SessionStream interface {
	Stream
	Session(ctx context.Context, id string) (journal.SessionRecord, error)
	TurnsAfter(ctx context.Context, session, after string, limit int) ([]journal.TurnRecord, error)
}

// Session yields the events of a session from a cursor on, turn after turn, as they appear, until ctx ends. If
// the session or the cursor's turn has not begun, Session waits for it; if another turn begins meanwhile, the
// reader gets that one: no turn is left out. An error, including ctx's, is yielded once and is the last value. Each
// wake-up costs one or two reads, however long the session is.
func Session(ctx context.Context, j SessionStream, session string, from Cursor) iter.Seq2[turn.Event,
	error] {
	return func(yield func(turn.Event, error) bool) {
		f := sessionFollower{journal: j, session: session, start: from}
		for {
			id, after, err := f.next(ctx)
			if err != nil {
				yield(turn.Event{}, err)
				return
			}
			for e, err := range Turn(ctx, j, id, after) {
				if !yield(e, err) || err != nil {
					return
				}
			}
		}
	}
}

// sessionFollower finds the session's turns, one after the other.
type sessionFollower struct {
	journal SessionStream
	session string
	start   Cursor // the position to start at
	started bool   // last is set
	last    string // the turn before the next one; empty at the beginning
}

// next waits for the next turn and returns it, with the index after which to read it.
func (f *sessionFollower) next(ctx context.Context) (id string, after int64, err error) {
	ctx, cancel := context.WithCancel(ctx) // the journal forgets the follower
	defer cancel()
	for {
		changed := f.journal.Changed(ctx, journal.Topic{Session: f.session}) // before the read, so that no turn is missed
		id, after, err = f.nextTurn(ctx)
		if err != nil || id != "" {
			return id, after, err
		}
		if err := wait(ctx, changed); err != nil {
			return "", 0, err
		}
	}
}

// nextTurn returns the next turn, or nothing if it has not begun.
func (f *sessionFollower) nextTurn(ctx context.Context) (id string, after int64, err error) {
	if !f.started {
		if id, after, err = f.first(ctx); err != nil || id != "" {
			return id, after, err
		}
	}
	list, err := f.journal.TurnsAfter(ctx, f.session, f.last, 1)
	if isNotFound(err) && f.last == "" {
		return "", 0, nil
	}
	if err != nil || len(list) == 0 {
		return "", 0, err
	}
	f.last = list[0].ID
	return f.last, -1, nil
}

// first finds the cursor's turn. If that has not begun, first returns the next turn to begin, whichever it is.
func (f *sessionFollower) first(ctx context.Context) (id string, after int64, err error) {
	s, err := f.journal.Session(ctx, f.session)
	if err != nil && !isNotFound(err) {
		return "", 0, err
	}
	f.started, f.last = true, s.LastTurn.ID
	if f.start.Turn == "" {
		return f.last, -1, nil
	}
	_, err = f.journal.TurnsAfter(ctx, f.session, f.start.Turn, 0)
	if err == nil {
		f.last = f.start.Turn
		return f.last, f.start.Index, nil
	}
	if !isNotFound(err) {
		return "", 0, err
	}
	return "", 0, f.checkSession(ctx)
}

// checkSession refuses a cursor whose turn belongs to another session. The turn may have begun since the session
// was read.
func (f *sessionFollower) checkSession(ctx context.Context) error {
	t, err := f.journal.Turn(ctx, f.start.Turn)
	if isNotFound(err) || err == nil && t.Session == f.session {
		return nil
	}
	if err == nil {
		err = fmt.Errorf("turn %s belongs to another session, not to %q: %w", f.start.Turn, f.session, journal.ErrNotFound)
	}
	return err
}
