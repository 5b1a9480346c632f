package sqlite

import (
	"context"
	"errors"
	"time"

	"github.com/everturn/everturn/journal"
)

var errNotYet = errors.New("not built yet")

// Fork implements journal.Store.
func (s *Store) Fork(ctx context.Context, in journal.ForkInput) (journal.SessionRecord, error) {
	return journal.SessionRecord{}, errNotYet
}

// PruneChunks implements journal.Store.
func (s *Store) PruneChunks(ctx context.Context, before time.Time, limit int) (int, error) {
	return 0, errNotYet
}
