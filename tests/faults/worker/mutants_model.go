//go:build mutants

package main

import (
	"context"
	"encoding/json"
	"strings"
	"sync/atomic"
	"time"

	"github.com/everturn/everturn/journal"
	"github.com/everturn/everturn/workflows/turn"
)

// summaryForgotten does not record compactions, so that each inference pays for a summary again.
type summaryForgotten struct{ mutant }

func (m *summaryForgotten) SettleCompaction(_ context.Context,
	in journal.SettleCompaction) (turn.Compaction, error) {
	out := in.Compaction
	out.Turn, out.Step = in.Key.Turn, in.Key.Step
	return out, nil
}

// modeForgotten forgets, at the first read of each step, that the model takes no tools.
type modeForgotten struct {
	mutant
	last atomic.Int64
}

func (m *modeForgotten) ModelChange(ctx context.Context, key journal.StepKey) (turn.ModelEvent, error) {
	change, err := m.Journal.ModelChange(ctx, key)
	if change.Mode != "" && change.Step < key.Step && m.last.Swap(int64(key.Step)) != int64(key.Step) {
		change.Mode = ""
	}
	return change, err
}

// modelMisnamed records the configured model for each inference, whichever model answers.
type modelMisnamed struct{ mutant }

func (m *modelMisnamed) StartInference(ctx context.Context, in journal.StartInference) (journal.Inference, error) {
	in.Model = "scripted"
	return m.Journal.StartInference(ctx, in)
}

// agentMisquoted changes the answers of the agents that a turn calls.
type agentMisquoted struct{ mutant }

func (m *agentMisquoted) SettleCall(ctx context.Context, turnID, callID string, attempt int, r turn.ToolResult,
	at time.Time) (journal.CallRecord, error) {
	c, err := m.Tenant("").Call(ctx, turnID, callID)
	if err == nil && strings.HasPrefix(c.Call.Tool, turn.AgentTools) {
		r.Text += " Indeed."
	}
	return m.Journal.SettleCall(ctx, turnID, callID, attempt, r, at)
}

// allowanceForgotten begins the turn of a subagent's answer with the limits of a new message.
type allowanceForgotten struct{ mutant }

func (m *allowanceForgotten) Begin(ctx context.Context, in turn.BeginInput) (journal.BeginResult, error) {
	if _, ok := turn.AnsweringSubagent(in.Message.ID); ok {
		var cfg turn.Config
		if err := json.Unmarshal(in.Config, &cfg); err != nil {
			return journal.BeginResult{}, err
		}
		cfg.Limits.MaxSteps, cfg.Limits.MaxToolCalls = m.cfg.Runtime.MaxSteps, m.cfg.Runtime.MaxToolCalls
		raw, err := json.Marshal(cfg)
		if err != nil {
			return journal.BeginResult{}, err
		}
		in.Config = raw
	}
	return m.Journal.Begin(ctx, in)
}
