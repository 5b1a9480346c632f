//go:build mutants

package main

import (
	"cmp"
	"context"
	"encoding/json"
	"slices"
	"sync"
	"time"

	"github.com/everturn/everturn/journal"
	"github.com/everturn/everturn/workflows/turn"
)

// taintDropped drops a session's taint.
type taintDropped struct{ mutant }

func (m *taintDropped) CallContext(ctx context.Context, in journal.CallContextInput) (journal.CallContext, error) {
	c, err := m.Journal.CallContext(ctx, in)
	c.Taint = nil
	return c, err
}

// driftNotHeld offers changed tools, whether or not the operator has accepted them.
type driftNotHeld struct{ mutant }

func (m *driftNotHeld) OfferedBy(ctx context.Context, own map[string]string) ([]turn.Catalogue, error) {
	list, err := m.Journal.OfferedBy(ctx, own)
	return acceptAll(list), err
}

func (m *driftNotHeld) CallContext(ctx context.Context, in journal.CallContextInput) (journal.CallContext, error) {
	c, err := m.Journal.CallContext(ctx, in)
	c.Catalogues = acceptAll(c.Catalogues)
	return c, err
}

func acceptAll(list []turn.Catalogue) []turn.Catalogue {
	for i := range list {
		for _, d := range list[i].Quarantined {
			list[i].Tools = append(list[i].Tools, d.Now)
		}
		slices.SortFunc(list[i].Tools, func(a, b turn.Descriptor) int { return cmp.Compare(a.ID, b.ID) })
		list[i].Quarantined = nil
	}
	return list
}

// begunAfresh loses, the first time, the state with which a suspended call continues.
type begunAfresh struct {
	mutant
	mu   sync.Mutex
	lost map[string]bool
}

func (m *begunAfresh) ClaimCall(ctx context.Context, in journal.CallRecord, approved bool,
	sensitive ...string) (journal.CallRecord, error) {
	claim, err := m.Journal.ClaimCall(ctx, in, approved, sensitive...)
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.lost == nil {
		m.lost = map[string]bool{}
	}
	if key := in.Turn + in.Call.ID; claim.Continuation != nil && !m.lost[key] {
		m.lost[key] = true
		claim.Continuation = nil
	}
	return claim, err
}

// replyInvented records another response than the client sent.
type replyInvented struct{ mutant }

func (m *replyInvented) Decide(ctx context.Context, session, turnID string, decisions []turn.Decision,
	at time.Time) error {
	for i, r := range decisions {
		if r.Response != nil {
			other := *r.Response
			other.Content = json.RawMessage(`{"sure":true,"note":"invented"}`)
			decisions[i].Response = &other
		}
	}
	return m.Journal.Decide(ctx, session, turnID, decisions, at)
}
