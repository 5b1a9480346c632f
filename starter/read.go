package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"go.temporal.io/api/serviceerror"

	"github.com/everturn/everturn/journal"
	"github.com/everturn/everturn/workflows/turn"
)

// read begins to hear the turn's chunks. It ends with ctx.
func (f *follower) read(ctx context.Context) {
	s, chunks := f.s, make(chan heard)
	after := f.o.after
	f.chunks = chunks
	tell := func(h heard) bool {
		select {
		case chunks <- h:
			return true
		case <-ctx.Done():
			return false
		}
	}
	f.readers.Go(func() {
		defer close(chunks)
		var from begins
		if s.Joined {
			row, err := f.taken(ctx, s, tell)
			if err != nil {
				tell(heard{err: err})
				<-ctx.Done() // closing the channel would say that the turn has ended
				return
			}
			s.Turn = row.ID
			if row.MessageID != s.MessageID {
				from.message = s.MessageID
			}
			tell(heard{turn: row.ID})
		}
		for c, err := range journal.Follow(ctx, f.store, s.Turn, after) {
			switch {
			case err != nil:
				tell(heard{err: err})
				<-ctx.Done()
			case from.reached(c) && !tell(heard{chunk: c}):
				return
			}
		}
	})
}

// taken waits for a message that has joined a running turn to be taken: by that turn, or by the session's next one.
func (f *follower) taken(ctx context.Context, s started, tell func(heard) bool) (journal.TurnRecord, error) {
	for {
		tell(heard{still: true})
		changed := f.store.Changed(ctx) // before the read, so that nothing falls between the two
		row, err := f.store.Delivered(ctx, s.Session, s.MessageID)
		if !errors.Is(err, journal.ErrNotFound) {
			return row, err
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return row, ctx.Err()
		}
	}
}

// begins is where a reader's part of a turn begins: with the message that joined it, or at the turn's start where the
// message is the turn's own.
type begins struct {
	message string // empty once it was reached
}

func (b *begins) reached(c turn.Chunk) bool {
	if b.message == "" {
		return true
	}
	var joined turn.MessageChunk
	switch c.Kind {
	case turn.ChunkMessageJoined:
		if decode(c, &joined) && joined.MessageID != b.message {
			return false
		}
	case turn.ChunkTurnCompleted:
	default:
		return false
	}
	b.message = ""
	return true
}

// askAgain is how long Temporal is left alone that was away when it was asked.
const askAgain = time.Second

// await asks Temporal for the turn's end. Where Temporal is away it is asked again: the journal does without it.
func (t *turnClient) await(ctx context.Context, s started) <-chan outcome {
	over := make(chan outcome, 1)
	go func() {
		for {
			var end outcome
			if s.Joined {
				end.err = t.lost(ctx, s)
			} else {
				end.result, end.err = t.verdict(ctx, s)
			}
			if !away(end.err) || ctx.Err() != nil {
				over <- end
				return
			}
			select {
			case <-ctx.Done():
			case <-time.After(askAgain):
			}
		}
	}()
	return over
}

// away reports whether an error says that Temporal could not be asked.
func away(err error) bool {
	var unavailable *serviceerror.Unavailable
	var slow *serviceerror.DeadlineExceeded
	return errors.As(err, &unavailable) || errors.As(err, &slow)
}

// lost waits until the session's workflow has ended for good. A message that joined it and is in no turn by then is in
// none for ever.
func (t *turnClient) lost(ctx context.Context, s started) error {
	if err := t.client.GetWorkflow(ctx, t.workflowID(s.Session), "").Get(ctx, nil); ctx.Err() != nil || away(err) {
		return err
	}
	return &exitError{code: exitFailed, cause: fmt.Errorf("the turn was ended from outside before it took message %s: send it again with `--message-id %s`, and it is answered once", s.MessageID, s.MessageID)}
}
