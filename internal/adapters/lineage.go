package adapters

import (
	"context"
	"fmt"
	"slices"

	"github.com/everturn/everturn/activities/tools/canvas"
	"github.com/everturn/everturn/journal"
	"github.com/everturn/everturn/workflows/turn"
)

// Sessions reads sessions from a journal: see journal.DB.
type Sessions interface {
	Tenant(tenant string) *journal.DB
}

// lineage returns the function that finds the sessions of which a session is a fork, in the journal that source
// returns. The result is nil if source is.
func lineage(source func() Sessions) canvas.Lineage {
	if source == nil {
		return nil
	}
	return func(ctx context.Context, tenant, session string) (parents, calls []string, err error) {
		j := source().Tenant(tenant)
		rec, err := j.Session(ctx, session)
		if err != nil || rec.Parent == "" {
			return nil, nil, err
		}
		shared, err := j.Messages(ctx, session, 1, rec.ForkSeq)
		if err != nil {
			return nil, nil, fmt.Errorf("reading what the session shares with %s: %w", rec.Parent, err)
		}
		for _, m := range shared {
			if m.Role == turn.RoleTool {
				calls = append(calls, m.TurnID+"/"+m.CallID)
			}
		}
		slices.Reverse(calls)
		for rec.Parent != "" {
			parents = append(parents, rec.Parent)
			if rec, err = j.Session(ctx, rec.Parent); err != nil {
				return nil, nil, err
			}
		}
		return parents, calls, nil
	}
}
