//go:build mutants

package main

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/everturn/everturn/journal"
	"github.com/everturn/everturn/workflows/turn"
)

// claimDropped grants every claim, whatever the ledger says.
type claimDropped struct{ mutant }

func (m *claimDropped) ClaimCall(ctx context.Context, in journal.CallRecord, approved bool,
	sensitive ...string) (journal.CallRecord, error) {
	claim, err := m.Journal.ClaimCall(ctx, in, approved, sensitive...)
	claim.Claim = journal.ClaimGranted
	return claim, err
}

// claimChanged changes claims before the journal gets them.
type claimChanged struct {
	mutant
	change func(in *journal.CallRecord, approved *bool)
}

func (m *claimChanged) ClaimCall(ctx context.Context, in journal.CallRecord, approved bool,
	sensitive ...string) (journal.CallRecord, error) {
	m.change(&in, &approved)
	return m.Journal.ClaimCall(ctx, in, approved, sensitive...)
}

// settleBeforeEffect settles a call as ok before it is sent.
type settleBeforeEffect struct{ mutant }

func (m *settleBeforeEffect) ClaimCall(ctx context.Context, in journal.CallRecord, approved bool,
	sensitive ...string) (journal.CallRecord, error) {
	claim, err := m.Journal.ClaimCall(ctx, in, approved, sensitive...)
	if err != nil || claim.Claim != journal.ClaimGranted {
		return claim, err
	}
	var args struct{ Text string }
	_ = json.Unmarshal([]byte(in.Call.Arguments), &args) // other tools have no text
	_, err = m.Journal.SettleCall(ctx, in.Turn, in.Call.ID, in.Attempt,
		turn.ToolResult{Outcome: turn.OutcomeOK, Text: "appended " + args.Text}, in.ClaimedAt)
	return claim, err
}

// noClaim claims a call only when it has its result.
type noClaim struct {
	mutant
	mu   sync.Mutex
	open map[string]func(context.Context) (journal.CallRecord, error) // the claims that are still to be made
}

func (m *noClaim) ClaimCall(_ context.Context, in journal.CallRecord, approved bool,
	sensitive ...string) (journal.CallRecord, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.open == nil {
		m.open = map[string]func(context.Context) (journal.CallRecord, error){}
	}
	m.open[in.Turn+in.Call.ID] = func(ctx context.Context) (journal.CallRecord, error) {
		return m.Journal.ClaimCall(ctx, in, approved, sensitive...)
	}
	return journal.CallRecord{Claim: journal.ClaimGranted}, nil
}

func (m *noClaim) SettleCall(ctx context.Context, turnID, callID string, attempt int, r turn.ToolResult,
	at time.Time) (journal.CallRecord, error) {
	m.mu.Lock()
	claim := m.open[turnID+callID]
	m.mu.Unlock()
	if _, err := claim(ctx); err != nil {
		return journal.CallRecord{}, err
	}
	return m.Journal.SettleCall(ctx, turnID, callID, attempt, r, at)
}

// resultsByArrival gives the n-th result that arrives to the n-th call.
type resultsByArrival struct {
	mutant
	mu      sync.Mutex
	arrived map[string]int
}

func (m *resultsByArrival) SettleCall(ctx context.Context, turnID, callID string, attempt int, r turn.ToolResult,
	at time.Time) (journal.CallRecord, error) {
	record, err := m.Tenant("").Call(ctx, turnID, callID)
	if err != nil {
		return record, err
	}
	asked, err := m.Journal.StepMessage(ctx, journal.StepKey{Turn: turnID, Step: record.Step})
	if err != nil {
		return record, err
	}
	for _, c := range asked.ToolCalls {
		if c.Tool != "mcp/again/append" { // calls of another activity kind are claimed when these have ended
			return m.Journal.SettleCall(ctx, turnID, callID, attempt, r, at)
		}
	}
	if err := m.claimed(ctx, turnID, record.Step, len(asked.ToolCalls)); err != nil {
		return record, err
	}
	callID = fmt.Sprintf("%d.%d", record.Step, m.arrive(turnID, record.Step))
	return m.Journal.SettleCall(ctx, turnID, callID, attempt, r, at)
}

// arrive counts the results of a step.
func (m *resultsByArrival) arrive(turnID string, step int) int {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.arrived == nil {
		m.arrived = map[string]int{}
	}
	key := fmt.Sprintf("%s/%d", turnID, step)
	m.arrived[key]++
	return m.arrived[key] - 1
}

// claimed waits until all calls of a step are in the ledger.
func (m *resultsByArrival) claimed(ctx context.Context, turnID string, step, n int) error {
	for ctx.Err() == nil {
		calls, err := m.Tenant("").Calls(ctx, turnID)
		have := 0
		for _, c := range calls {
			if c.Step == step {
				have++
			}
		}
		if err != nil || have == n {
			return err
		}
		time.Sleep(10 * time.Millisecond) // the ledger offers no event for it
	}
	return ctx.Err()
}

// lateOverTranscript replaces the transcript's result with a late one.
type lateOverTranscript struct{ mutant }

func (m *lateOverTranscript) SettleCall(ctx context.Context, turnID, callID string, attempt int, r turn.ToolResult,
	at time.Time) (journal.CallRecord, error) {
	record, err := m.Journal.SettleCall(ctx, turnID, callID, attempt, r, at)
	if err != nil || !record.Late {
		return record, err
	}
	return record, m.write(ctx, []any{string(r.Outcome), r.Text, callID, turnID},
		`UPDATE calls SET outcome = $1, text = $2, text_blob = NULL
		WHERE call_id = $3 AND turn = (SELECT id FROM turns WHERE turn_id = $4)`,
		`UPDATE messages SET outcome = $1, text = $2, text_blob = NULL
		WHERE role = 'tool' AND call_id = $3 AND turn = (SELECT id FROM turns WHERE turn_id = $4)`)
}

// toolsLost does not offer the tools of a server that was away again.
type toolsLost struct {
	mutant
	mu   sync.Mutex
	away map[string]bool
}

func (m *toolsLost) PublishCatalogue(ctx context.Context, c turn.Catalogue) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.away == nil {
		m.away = map[string]bool{}
	}
	m.away[c.Server] = m.away[c.Server] || c.Problem != ""
	return m.Journal.PublishCatalogue(ctx, c)
}

func (m *toolsLost) OfferedBy(ctx context.Context, versions map[string]string) ([]turn.Catalogue, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	list, err := m.Journal.OfferedBy(ctx, versions)
	return slices.DeleteFunc(slices.Clone(list), func(c turn.Catalogue) bool { return m.away[c.Server] }), err
}
