package journal

import (
	"context"
	"errors"
	"iter"

	"github.com/everturn/everturn/workflows/turn"
)

// followBatch is how many chunks Follow reads at once.
const followBatch = 256

// Follow yields the chunks of a turn with index > after (-1 for all), in order, as they appear, and ends after
// turn_completed. If the turn has not begun, Follow waits for it. An error, including ctx's, is yielded once and is the
// last value; to resume, the caller passes the index of the last chunk that it has seen.
func Follow(ctx context.Context, store Store, turnID string, after int64) iter.Seq2[turn.Chunk, error] {
	return func(yield func(turn.Chunk, error) bool) {
		f := follower{store: store, turn: turnID, after: after}
		for !f.done {
			changed := store.Changed(ctx, Topic{Turn: turnID}) // before the read, so that no chunk is missed
			chunks, err := f.next(ctx)
			for _, c := range chunks {
				if !yield(c, nil) {
					return
				}
			}
			if err == nil && len(chunks) == 0 && !f.done {
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

type follower struct {
	store Store
	turn  string
	after int64
	done  bool
}

// next reads a batch. If there are no chunks, it checks whether the turn has ended, so that a reader who is past the
// end does not wait; a second read gets the chunks that were written together with the turn's end.
func (f *follower) next(ctx context.Context) ([]turn.Chunk, error) {
	chunks, err := f.read(ctx)
	if err != nil || len(chunks) > 0 || f.done {
		return chunks, err
	}
	t, err := f.store.Turn(ctx, f.turn)
	if isNotFound(err) || (err == nil && !t.State.Terminal()) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	chunks, err = f.read(ctx)
	f.done = f.done || len(chunks) == 0
	return chunks, err
}

func (f *follower) read(ctx context.Context) ([]turn.Chunk, error) {
	chunks, err := f.store.Chunks(ctx, f.turn, f.after, followBatch)
	if n := len(chunks); n > 0 {
		f.after = chunks[n-1].Index
		f.done = chunks[n-1].Kind == turn.ChunkTurnCompleted
	}
	return chunks, err
}

func isNotFound(err error) bool { return errors.Is(err, ErrNotFound) }
