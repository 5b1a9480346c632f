package journaltest_test

import (
	"context"
	"errors"

	"github.com/everturn/everturn/journal"
	"github.com/everturn/everturn/journal/journaltest"
	"github.com/everturn/everturn/workflows/turn"
)

// sharesNames has one name space of sessions for all tenants.
type sharesNames struct{ journaltest.Store }

func (s sharesNames) OfTenant(string) journaltest.Store { return s }

func (s sharesNames) Begin(ctx context.Context, in turn.BeginInput) (journal.BeginResult, error) {
	in.Tenant = ""
	return s.Store.Begin(ctx, in)
}

// leaksTurns finds a turn of tenant acme for every tenant.
type leaksTurns struct{ journaltest.Store }

func (s leaksTurns) OfTenant(tenant string) journaltest.Store {
	return leaksTurns{s.Store.Tenant(tenant)}
}

func (s leaksTurns) Turn(ctx context.Context, turnID string) (journal.TurnRecord, error) {
	rec, err := s.Store.Turn(ctx, turnID)
	if errors.Is(err, journal.ErrNotFound) {
		return s.Store.Tenant("acme").Turn(ctx, turnID)
	}
	return rec, err
}
