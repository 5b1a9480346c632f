package journal

import (
	"context"
	"fmt"
)

// CommonSeq returns the seq of the last message that two sessions share, 0 if they share none. Because hashes chain,
// equal hashes mean an equal past, so CommonSeq reads only a logarithmic number of messages. ErrNotFound.
func CommonSeq(ctx context.Context, store Store, a, b string) (int64, error) {
	one, err := store.Session(ctx, a)
	if err != nil {
		return 0, err
	}
	other, err := store.Session(ctx, b)
	if err != nil {
		return 0, err
	}
	low, high := int64(0), min(one.Head.Seq, other.Head.Seq)
	for low < high {
		middle := high - (high-low)/2
		same, err := sameAt(ctx, store, a, b, middle)
		switch {
		case err != nil:
			return 0, fmt.Errorf("comparing %q and %q: %w", a, b, err)
		case same:
			low = middle
		default:
			high = middle - 1
		}
	}
	return low, nil
}

func sameAt(ctx context.Context, store Store, a, b string, seq int64) (bool, error) {
	one, err := store.HeadAt(ctx, a, seq)
	if err != nil {
		return false, err
	}
	other, err := store.HeadAt(ctx, b, seq)
	return one == other, err
}
