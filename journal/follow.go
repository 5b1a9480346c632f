package journal

import (
	"context"
	"errors"
	"iter"

	"github.com/everturn/everturn/workflows/turn"
)

// followBatch is how many chunks a TurnReader reads at once.
const followBatch = 256

// Stream is what Follow reads. Its methods are documented at DB.
type Stream interface {
	Chunks(ctx context.Context, turnID string, after int64, limit int) ([]turn.Chunk, error)
	Turn(ctx context.Context, turnID string) (TurnRecord, error)
	Changed(ctx context.Context, topics ...Topic) <-chan struct{}
}

// Follow yields the chunks of a turn with index > after (-1 for all), in order, as they appear, and ends after
// turn_completed. If the turn has not begun, Follow waits for it. An error, including ctx's, is yielded once and is the
// last value; to resume, the caller passes the index of the last chunk that it has seen.
func Follow(ctx context.Context, store Stream, turnID string, after int64) iter.Seq2[turn.Chunk, error] {
	return func(yield func(turn.Chunk, error) bool) {
		ctx, cancel := context.WithCancel(ctx) // the store forgets the follower
		defer cancel()
		r := TurnReader{Store: store, Turn: turnID, After: after}
		for !r.Done {
			changed := store.Changed(ctx, Topic{Turn: turnID}) // before the read, so that no chunk is missed
			chunks, err := r.Next(ctx)
			for _, c := range chunks {
				if !yield(c, nil) {
					return
				}
			}
			if err == nil && len(chunks) == 0 && !r.Done {
				err = wait(ctx, changed)
			}
			if err != nil {
				yield(turn.Chunk{}, err)
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

// TurnReader reads the chunks of a turn in order, without waiting for more.
type TurnReader struct {
	Store Stream
	Turn  string
	After int64 // the index of the last chunk that was read, -1 before the first
	Begun bool  // the journal has the turn
	Done  bool  // the turn has ended, and its last chunk was read
}

// Next reads the next chunks. If there are none, it checks whether the turn has ended, so that a reader who is past the
// end does not wait; a second read gets the chunks that were written together with the turn's end.
func (r *TurnReader) Next(ctx context.Context) ([]turn.Chunk, error) {
	chunks, err := r.read(ctx)
	if err != nil || len(chunks) > 0 {
		return chunks, err
	}
	t, err := r.Store.Turn(ctx, r.Turn)
	if r.Begun = err == nil; isNotFound(err) || err == nil && !t.State.Terminal() {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	chunks, err = r.read(ctx)
	r.Done = r.Done || err == nil && len(chunks) == 0
	return chunks, err
}

func (r *TurnReader) read(ctx context.Context) ([]turn.Chunk, error) {
	chunks, err := r.Store.Chunks(ctx, r.Turn, r.After, followBatch)
	if n := len(chunks); n > 0 {
		r.After = chunks[n-1].Index
		r.Done = chunks[n-1].Kind == turn.ChunkTurnCompleted
	}
	return chunks, err
}

func isNotFound(err error) bool { return errors.Is(err, ErrNotFound) }
