//go:build mutants

package main

import (
	"context"
	"strings"
	"sync/atomic"

	"github.com/everturn/everturn/journal"
)

// planForgetful forgets, once, the last call that a plan has made, so that the plan makes it again.
type planForgetful struct {
	mutant
	done atomic.Bool
}

func (m *planForgetful) CallContext(ctx context.Context, in journal.CallContextInput) (journal.CallContext, error) {
	found, err := m.Journal.CallContext(ctx, in)
	n := len(found.Calls)
	if !in.Planned || n == 0 || err != nil {
		return found, err
	}
	last := found.Calls[n-1]
	if last.Outcome != "" && strings.HasPrefix(last.Call.WireID, "plan_") && !m.done.Swap(true) {
		found.Calls = found.Calls[:n-1]
	}
	return found, err
}
