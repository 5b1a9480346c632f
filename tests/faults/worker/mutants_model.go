//go:build mutants

package main

import (
	"context"
	"strings"

	"github.com/everturn/everturn/journal"
	"github.com/everturn/everturn/workflows/turn"
)

// summaryForgotten does not record condensations, so that each inference pays for a summary again.
type summaryForgotten struct{ mutant }

func (m *summaryForgotten) SettleCondensation(_ context.Context,
	in journal.SettleCondensation) (turn.Condensation, error) {
	out := in.Condensation
	out.Turn, out.Step = in.Key.Turn, in.Key.Step
	return out, nil
}

// modelMisnamed records the configured model for each inference, whichever model answers.
type modelMisnamed struct{ mutant }

func (m *modelMisnamed) StartInference(ctx context.Context, in journal.StartInference) (journal.Inference, error) {
	in.Model = "scripted"
	return m.Journal.StartInference(ctx, in)
}

// agentMisquoted changes the answers of the agents that a turn calls.
type agentMisquoted struct{ mutant }

func (m *agentMisquoted) SettleCall(ctx context.Context, in journal.SettleInput) (journal.CallRecord, error) {
	c, err := m.Tenant("").Call(ctx, in.Turn, in.CallID)
	if err == nil && strings.HasPrefix(c.Call.Tool, turn.AgentTools) {
		in.Result.Text += " Indeed."
	}
	return m.Journal.SettleCall(ctx, in)
}
