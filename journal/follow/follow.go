package follow

import (
	"context"
	"errors"
	"fmt"
	"iter"

	"github.com/everturn/everturn/journal"
	"github.com/everturn/everturn/workflows/turn"
)

// followBatch is the maximum number of events that a TurnReader reads at once.
const followBatch = 256

// Stream is what Turn reads. Its methods are documented at journal.DB.
type Stream interface {
	Events(ctx context.Context, turnID string, after int64, limit int) ([]turn.Event, error)
	Turn(ctx context.Context, turnID string) (journal.TurnRecord, error)
	Changed(ctx context.Context, topics ...journal.Topic) <-chan struct{}
}

// Turn yields the events of a turn with index > after (-1: from the first), in order, as they appear, and ends after
// turn_completed. If the turn has not begun, Turn waits for it. An error, including ctx's, is yielded once and is the
// last value; to resume, the caller passes the index of the last event that it has seen.
func Turn(ctx context.Context, j Stream, turnID string, after int64) iter.Seq2[turn.Event, error] {
	return func(yield func(turn.Event, error) bool) {
		ctx, cancel := context.WithCancel(ctx) // cancel makes the journal remove the follower of the last Changed
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

// wait waits until changed is closed, or returns the error of ctx.
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

// Next reads the next events, if there are any, and sets r.Done if the turn has ended and all its events were read. If
// there are no events, it looks up the turn: r.After may be its last event already. If the turn has ended, Next reads
// once more, because the turn's last events may have been written after the first read.
func (r *TurnReader) Next(ctx context.Context) ([]turn.Event, error) {
	events, err := r.read(ctx)
	if err != nil || len(events) > 0 {
		return events, err
	}
	t, err := r.Journal.Turn(ctx, r.Turn)
	r.Begun = err == nil
	if isNotFound(err) || r.Begun && !t.State.Terminal() {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	events, err = r.read(ctx)
	r.Done = r.Done || err == nil && len(events) == 0
	return events, err
}

// read reads the events after r.After and moves r.After. It sets r.Done if the last one is turn_completed.
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
	// Turn is the ID of the turn that was read last. If it is empty, the reader starts at the beginning of the
	// session's last turn.
	Turn string
	// Index is the index of the last event of Turn that was read; -1 if none was. It is ignored if Turn is empty.
	Index int64
}

// After returns the cursor of a reader that has read everything up to e.
func After(e turn.Event) Cursor { return Cursor{Turn: e.Turn, Index: e.Index} }

// SessionStream is what Session reads. Its methods are documented at journal.DB.
type SessionStream interface {
	Stream
	Session(ctx context.Context, id string) (journal.SessionRecord, error)
	TurnsAfter(ctx context.Context, session, after string, limit int) ([]journal.TurnRecord, error)
}

// Session yields the events of a session from a cursor on, turn after turn, as they appear, until ctx ends. If the
// session or the cursor's turn has not begun, Session waits for the next turn that begins, whether it is the cursor's
// or another: no turn is left out. An error, including ctx's, is yielded once and is the last value. Each wake-up
// costs one or two reads, however long the session is.
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
	session string // the session's ID
	start   Cursor // the position to start at
	started bool   // last is set
	last    string // the ID of the turn before the next one; empty if the next one is the session's first
}

// next waits for the next turn. It returns the turn's ID, and the index of the event after which to read it; -1 is from
// the first.
func (f *sessionFollower) next(ctx context.Context) (id string, after int64, err error) {
	ctx, cancel := context.WithCancel(ctx) // cancel makes the journal remove the follower of the last Changed
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

// nextTurn is next without waiting: the ID is empty if the next turn has not begun.
func (f *sessionFollower) nextTurn(ctx context.Context) (id string, after int64, err error) {
	if !f.started {
		if id, after, err = f.first(ctx); err != nil || id != "" {
			return id, after, err
		}
	}
	list, err := f.journal.TurnsAfter(ctx, f.session, f.last, 1)
	if isNotFound(err) && f.last == "" { // the session does not exist yet
		return "", 0, nil
	}
	if err != nil || len(list) == 0 {
		return "", 0, err
	}
	f.last = list[0].ID
	return f.last, -1, nil
}

// first finds the turn to start with, and sets f.last and f.started. Without a turn in the cursor this is the session's
// last turn. Otherwise it is the cursor's turn; if that has not begun, first returns an empty ID, and the turn to start
// with is the one after the session's last turn.
func (f *sessionFollower) first(ctx context.Context) (id string, after int64, err error) {
	s, err := f.journal.Session(ctx, f.session)
	if err != nil && !isNotFound(err) {
		return "", 0, err
	}
	f.started, f.last = true, s.LastTurn.ID
	if f.start.Turn == "" {
		return f.last, -1, nil
	}
	_, err = f.journal.TurnsAfter(ctx, f.session, f.start.Turn, 0) // ErrNotFound unless the session has the turn
	if err == nil {
		f.last = f.start.Turn
		return f.last, f.start.Index, nil
	}
	if !isNotFound(err) {
		return "", 0, err
	}
	return "", 0, f.checkSession(ctx)
}

// checkSession returns an error if the cursor's turn belongs to another session. It returns nil if the turn does not
// exist, or belongs to this session because it has begun a moment ago.
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
