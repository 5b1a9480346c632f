//go:build mutants

package main

import (
	"context"
	"strings"
	"sync"

	"github.com/everturn/everturn/journal"
	"github.com/everturn/everturn/workflows/turn"
)

// claimKept does not release the claim of a call that was not sent, so that the next attempt reports an unknown
// outcome.
type claimKept struct{ mutant }

func (m *claimKept) ReleaseCall(context.Context, string, string, int) error { return nil }

// grantsImported lets an imported session keep the grants that it brought.
type grantsImported struct{ mutant }

// CallContext also drops the taint of the import; with the taint there would be no grant to keep.
func (m *grantsImported) CallContext(ctx context.Context, in journal.CallContextInput) (journal.CallContext, error) {
	c, err := m.Journal.CallContext(ctx, in)
	if m.imported(ctx, in.Turn) {
		c.Grants, c.Taint = append(c.Grants, turn.Grant{Tool: "mcp/danger/append"}), nil
	}
	return c, err
}

func (m *grantsImported) imported(ctx context.Context, turnID string) bool {
	t, err := m.TurnConfig(ctx, turnID)
	return err == nil && strings.HasSuffix(t.Session, "-imported")
}

// memoryKept keeps 8 MB for every inference, like a worker that does not bound its input.
type memoryKept struct {
	mutant
	mu   sync.Mutex
	kept [][]byte
}

func (m *memoryKept) StartInference(ctx context.Context, in journal.StartInference) (journal.Inference, error) {
	b := make([]byte, 8<<20)
	for i := range b {
		b[i] = byte(i) // unwritten pages take no memory
	}
	m.mu.Lock()
	if len(m.kept) < 100 {
		m.kept = append(m.kept, b)
	}
	m.mu.Unlock()
	return m.Journal.StartInference(ctx, in)
}
