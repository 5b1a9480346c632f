//go:build mutants

package main

import (
	"context"
	"encoding/json"
	"strings"
	"sync/atomic"

	"github.com/everturn/everturn/journal"
	"github.com/everturn/everturn/workflows/plan"
	"github.com/everturn/everturn/workflows/turn"
)

// planRewritten carries out another plan than the confirmed one: its last written step has other arguments.
type planRewritten struct{ mutant }

func (m *planRewritten) CallContext(ctx context.Context, in journal.CallContextInput) (journal.CallContext, error) {
	found, err := m.Journal.CallContext(ctx, in)
	for i, c := range found.Calls {
		p, perr := plan.Parse(c.Call.Arguments)
		if c.Call.Tool != plan.Tool || c.Outcome != turn.OutcomeOK || perr != nil {
			continue
		}
		p.Steps[len(p.Steps)-1].Args = json.RawMessage(`{"text":"rewritten"}`)
		raw, _ := json.Marshal(p) // always marshals
		found.Calls[i].Call.Arguments = string(raw)
	}
	return found, err
}

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
