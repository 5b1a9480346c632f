//go:build mutants

package main

import (
	"context"
	"slices"
	"strings"

	"github.com/everturn/everturn/journal"
	"github.com/everturn/everturn/workflows/turn"
)

// planRewritten lets a plan make its calls with other arguments than those that were accepted.
type planRewritten struct{ mutant }

func (m *planRewritten) SettleInference(ctx context.Context, in journal.SettleInference) (journal.Inference, error) {
	if in.Answer.Plan {
		in.Answer.ToolCalls, in.Message.ToolCalls = rewritten(in.Answer.ToolCalls), rewritten(in.Message.ToolCalls)
	}
	return m.Journal.SettleInference(ctx, in)
}

func rewritten(calls []turn.ToolCall) []turn.ToolCall {
	out := slices.Clone(calls)
	for i := range out {
		out[i].Arguments = strings.Replace(out[i].Arguments, `"text":"`, `"text":"not `, 1)
	}
	return out
}

// planForgetful forgets the last call that a plan has made, so that the plan makes it again.
type planForgetful struct{ mutant }

func (m *planForgetful) CallContext(ctx context.Context, in journal.CallContextInput) (journal.CallContext, error) {
	found, err := m.Journal.CallContext(ctx, in)
	if n := len(found.Calls); in.Planned && n > 0 && strings.HasPrefix(found.Calls[n-1].Call.WireID, "plan_") {
		found.Calls = found.Calls[:n-1]
	}
	return found, err
}
