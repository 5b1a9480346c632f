package journaltest_test

import (
	"context"
	"errors"

	"github.com/everturn/everturn/journal"
)

// sharesNames has one name space of sessions for all tenants.
type sharesNames struct{ journal.Store }

func (s sharesNames) Tenant(string) journal.Store { return s }

func (s sharesNames) Begin(ctx context.Context, in journal.BeginInput) (journal.BeginResult, error) {
	in.Tenant = ""
	return s.Store.Begin(ctx, in)
}

// leaksTurns finds a turn of tenant acme for every tenant.
type leaksTurns struct{ journal.Store }

func (s leaksTurns) Tenant(tenant string) journal.Store { return leaksTurns{s.Store.Tenant(tenant)} }

func (s leaksTurns) Turn(ctx context.Context, turnID string) (journal.TurnRecord, error) {
	rec, err := s.Store.Turn(ctx, turnID)
	if errors.Is(err, journal.ErrNotFound) {
		return s.Store.Tenant("acme").Turn(ctx, turnID)
	}
	return rec, err
}
