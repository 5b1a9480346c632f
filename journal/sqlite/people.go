package sqlite

import (
	"context"
	"errors"
	"time"

	"github.com/everturn/everturn/journal"
	"github.com/everturn/everturn/workflows/turn"
)

var errNotYet = errors.New("not built yet")

// Ask implements journal.Journal.
func (s *Store) Ask(ctx context.Context, in journal.AskInput) error { return errNotYet }

// Decide implements journal.Journal.
func (s *Store) Decide(ctx context.Context, in journal.DecideInput) error { return errNotYet }

// Rules implements journal.Journal.
func (s *Store) Rules(ctx context.Context, session string) ([]turn.SessionRule, error) {
	return nil, nil
}

// Waits implements journal.Store.
func (s *Store) Waits(ctx context.Context, turnID string) ([]journal.WaitRecord, error) {
	return nil, errNotYet
}

// Waiting implements journal.Store.
func (s *Store) Waiting(ctx context.Context, session string, limit int) ([]journal.WaitRecord, error) {
	return nil, errNotYet
}

// Delivered implements journal.Store.
func (s *Store) Delivered(ctx context.Context, session, messageID string) (journal.TurnRecord, error) {
	return journal.TurnRecord{}, errNotYet
}

// Fork implements journal.Store.
func (s *Store) Fork(ctx context.Context, in journal.ForkInput) (journal.SessionRecord, error) {
	return journal.SessionRecord{}, errNotYet
}

// PruneChunks implements journal.Store.
func (s *Store) PruneChunks(ctx context.Context, before time.Time, limit int) (int, error) {
	return 0, errNotYet
}
