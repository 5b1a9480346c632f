package journaltest_test

import (
	"context"

	"github.com/everturn/everturn/journal"
)

// letsIn takes a turn for a session of whichever tenant it is.
type letsIn struct{ journal.Store }

func (s letsIn) Begin(ctx context.Context, in journal.BeginInput) (journal.BeginResult, error) {
	if rec, err := s.Session(ctx, in.Session); err == nil {
		in.Tenant = rec.Tenant
	}
	return s.Store.Begin(ctx, in)
}

type listsAll struct{ journal.Store }

func (s listsAll) SessionsOf(ctx context.Context, _ string, limit int) ([]journal.SessionRecord, error) {
	return s.Sessions(ctx, limit)
}

func (s listsAll) PendingRequestsOf(ctx context.Context, _ string, limit int) ([]journal.RequestRecord, error) {
	return s.PendingRequests(ctx, "", limit)
}
