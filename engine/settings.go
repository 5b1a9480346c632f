package engine

import (
	"path/filepath"

	"github.com/everturn/everturn/activities"
	"github.com/everturn/everturn/config"
	"github.com/everturn/everturn/internal/adapters"
	"github.com/everturn/everturn/internal/skills"
	"github.com/everturn/everturn/workflows/turn"
)

// elsewhere returns the task queues of the roles that this worker lacks. The queue of a role that it has is empty.
func elsewhere(cfg config.Config) (q turn.Queues) {
	if !cfg.Worker.Has(config.RoleInference) {
		q.Inference = cfg.Queue(config.RoleInference)
	}
	if !cfg.Worker.Has(config.RoleTools) {
		q.Tools = cfg.Queue(config.RoleTools)
	}
	return q
}

// queuesOf returns the task queues for the inferences and calls of turns that begin on this worker. An empty one means
// the task queue of the turn itself.
func queuesOf(cfg config.Config) turn.Queues {
	if cfg.Worker.SeparateQueues {
		return turn.Queues{Inference: cfg.Queue(config.RoleInference), Tools: cfg.Queue(config.RoleTools)}
	}
	return elsewhere(cfg)
}

// settings returns what a turn copies into its turn config when it begins, whatever its agent.
func (e *Engine) settings() activities.Settings {
	cfg := e.cfg
	servers, required := []string{"local"}, []string(nil)
	for _, s := range cfg.MCP.Servers {
		servers = append(servers, s.ID)
		if s.Required {
			required = append(required, s.ID)
		}
	}
	folder, err := filepath.Abs(cfg.Runtime.Workspace)
	if err != nil { // the working directory is gone, and the file tools have no folder
		folder = ""
	}
	return activities.Settings{
		Workspace: folder, Models: e.model.Chain,
		Project:  func() string { return e.instructions.Load().Project },
		Skills:   func() skills.Set { return e.instructions.Load().Skills },
		MaxDepth: cfg.Tuning.AgentDepth, Limits: limits(cfg), MaxArgumentBytes: cfg.Tuning.ArgumentBytes, Policy: cfg.Policy,
		Approvals: cfg.Approvals, RetryMax: cfg.Tuning.RetryMax, FallbackAfter: cfg.LLM.FallbackAfter,
		MaxTokens:   cfg.LLM.MaxOutputTokens,
		ClientTools: cfg.AllClientTools(),
		Servers:     servers, Required: required, Compaction: compactionSettings(cfg),
	}
}

// compactionSettings returns the settings of the compaction of prompts, or nil if it is off.
func compactionSettings(cfg config.Config) *turn.CompactionSettings {
	if cfg.Prompt.Compaction == config.CompactionOff {
		return nil
	}
	return &turn.CompactionSettings{
		TriggerRatio: cfg.Prompt.TriggerRatio, TargetRatio: cfg.Prompt.TargetRatio,
		Model: turn.Model{Name: adapters.SummaryModel(cfg)},
	}
}

// limits returns the limits of a turn.
func limits(cfg config.Config) turn.Limits {
	r := cfg.Runtime
	return turn.Limits{
		MaxSteps: r.MaxSteps, MaxToolCalls: r.MaxToolCalls, MaxConsecutiveErrors: r.MaxConsecutiveErrors,
		TurnTimeout: r.TurnTimeout, ToolTimeout: r.ToolTimeout, MaxReprompts: r.MaxReprompts,
		MaxHistoryMessages: r.MaxHistoryMessages, MaxParallelCalls: cfg.Tuning.ParallelCalls, MaxTokens: r.MaxTokens,
		MaxCostUSD: r.MaxCostUSD,
		RetryFor:   cfg.LLM.RetryFor,
	}
}
