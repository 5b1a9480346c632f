package engine

import (
	"cmp"
	"path/filepath"
	"slices"

	"github.com/everturn/everturn/activities"
	"github.com/everturn/everturn/activities/mcp"
	"github.com/everturn/everturn/activities/tools/tool"
	"github.com/everturn/everturn/config"
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

// agents returns the agents that turns may have: first the default one, of [runtime], then those of [[agents]]. These
// take what they do not set from the default one, except the agents that they may call.
func (e *Engine) agents() []activities.Agent {
	base := e.agent()
	all := []activities.Agent{base}
	for _, c := range e.cfg.Agents {
		a := base
		a.Description, a.Agents, a.Plan = c.Description, c.Agents, c.Plan
		a.Name, a.Tools, a.Temperature = c.ID, c.Tools, cmp.Or(c.Temperature, base.Temperature)
		if c.SystemPrompt != "" {
			a.SystemPrompt = c.SystemPrompt
		}
		if c.Model != "" {
			a.Models = func(requested string) ([]turn.Model, error) { return e.chain(requested, c.Model) }
		}
		if len(c.Skills) > 0 {
			a.Skills = func() skills.Set {
				set := base.Skills()
				set.All = slices.DeleteFunc(slices.Clone(set.All),
					func(s skills.Skill) bool { return !slices.Contains(c.Skills, s.Name) })
				return set
			}
		}
		a.Policy.Deny = slices.Concat(base.Policy.Deny, c.Deny)
		a.Policy.Ask = slices.Concat(base.Policy.Ask, c.Ask)
		a.Limits.MaxSteps = cmp.Or(c.MaxSteps, base.Limits.MaxSteps)
		a.Limits.MaxToolCalls = cmp.Or(c.MaxToolCalls, base.Limits.MaxToolCalls)
		a.Limits.TurnTimeout = cmp.Or(c.TurnTimeout, base.Limits.TurnTimeout)
		a.Limits.MaxTokens = cmp.Or(c.MaxTokens, base.Limits.MaxTokens)
		a.Limits.MaxCostUSD = cmp.Or(c.MaxCostUSD, base.Limits.MaxCostUSD)
		if c.RetryFor != nil {
			a.Limits.RetryFor = *c.RetryFor
		}
		all = append(all, a)
	}
	return all
}

// agent returns the default agent: the settings that a turn copies into its turn config when it begins.
func (e *Engine) agent() activities.Agent {
	cfg := e.cfg
	servers, required := []string{"local"}, []string(nil)
	for _, s := range cfg.MCP.Servers {
		servers = append(servers, s.ID)
		if s.Required {
			required = append(required, s.ID)
		}
	}
	folder, err := workspace(cfg)
	if err != nil { // the working directory is gone, and the file tools have no folder
		folder = ""
	}
	return activities.Agent{
		Name: cfg.Runtime.Agent, SystemPrompt: cfg.Runtime.SystemPrompt, Workspace: folder,
		Project: func() string { return e.guidance.Load().project },
		Models:  func(requested string) ([]turn.Model, error) { return e.chain(requested, "") },
		Skills:  func() skills.Set { return e.guidance.Load().skills },
		Agents:  cfg.Runtime.Agents, MaxDepth: cfg.Runtime.MaxAgentDepth,
		Limits: limits(cfg), MaxArgumentBytes: cfg.Runtime.MaxArgumentBytes, Policy: policy(cfg.Policy),
		Approvals: turn.Approvals(cfg.Approvals),
		RetryMax:  cfg.LLM.RetryMax, FallbackAfter: cfg.LLM.FallbackAfter,
		Temperature: cfg.LLM.Temperature, MaxTokens: cfg.LLM.MaxOutputTokens,
		Servers: servers, Required: required, Compaction: compactionSettings(cfg),
	}
}

// compactionSettings returns the settings of the compaction of prompts, or nil if it is off.
func compactionSettings(cfg config.Config) *turn.CompactionSettings {
	if cfg.Prompt.Compaction == config.CompactionOff {
		return nil
	}
	return &turn.CompactionSettings{
		ContextTokens: cfg.LLM.ContextTokens, TriggerRatio: cfg.Prompt.TriggerRatio, TargetRatio: cfg.Prompt.TargetRatio,
		Model: turn.Model{Name: summaryModel(cfg)}, UserTokens: cfg.Prompt.VerbatimUserTokens,
	}
}

// limits returns the limits of a turn.
func limits(cfg config.Config) turn.Limits {
	r := cfg.Runtime
	return turn.Limits{
		MaxSteps: r.MaxSteps, MaxToolCalls: r.MaxToolCalls, MaxConsecutiveErrors: r.MaxConsecutiveErrors,
		TurnTimeout: r.TurnTimeout, ToolTimeout: r.ToolTimeout, MaxReprompts: r.MaxReprompts,
		MaxHistoryMessages: r.MaxHistoryMessages, KeepHistoryMessages: r.KeepHistoryMessages,
		MaxParallelCalls: r.MaxParallelCalls, MaxTokens: r.MaxTokens, MaxCostUSD: r.MaxCostUSD,
		RetryFor: cfg.LLM.RetryFor,
	}
}

// policy converts [policy] to the policy of turns.
func policy(p config.Policy) turn.Policy {
	if p.AskRisk == config.AskNever { // turn.Policy has no value for never: without a risk, risk decides nothing
		p.AskRisk = ""
	}
	rules := make([]turn.Rule, len(p.Rules))
	for i, r := range p.Rules {
		rules[i] = turn.Rule(r)
	}
	return turn.Policy{
		Allow: p.Allow, Deny: p.Deny, Ask: p.Ask, Rules: rules, AskRisk: p.AskRisk, Taint: p.Taint,
		OnModelError: p.OnModelError, OnToolError: p.OnToolError, OnInvalidAction: p.OnInvalidAction,
		Uncounted: p.UncountedErrors,
	}
}

// servers converts the configured MCP servers to the MCP host's type.
func servers(cfg config.Config) []mcp.Server {
	out := make([]mcp.Server, 0, len(cfg.MCP.Servers))
	for _, s := range cfg.MCP.Servers {
		tools := make(map[string]tool.Settings, len(s.Tools))
		for name, t := range s.Tools {
			tools[name] = tool.Settings{
				Repeatable: t.Repeatable, LocalActivity: t.LocalActivity, Risk: t.Risk, ReadOnly: t.ReadOnly,
				Timeout: t.Timeout, TotalTimeout: t.TotalTimeout, BackgroundTimeout: t.BackgroundTimeout,
			}
		}
		out = append(out, mcp.Server{
			ID: s.ID, Transport: mcp.Transport(s.Transport), Command: s.Command, Args: s.Args, Dir: s.Dir, User: s.User,
			Env: reveal(s.Env), EnvAllow: s.EnvAllow, URL: s.URL, Headers: reveal(s.Headers), Networks: s.Networks,
			OAuth: mcp.OAuth{
				TokenURL: s.OAuth.TokenURL, ClientID: s.OAuth.ClientID, ClientSecret: s.OAuth.ClientSecret.Reveal(),
				Scopes: s.OAuth.Scopes,
			},
			Required: s.Required, Allow: s.Allow, Deny: s.Deny, Tools: tools, Resources: s.Resources, Prompts: s.Prompts,
			ConnectTimeout: s.Timeouts.Connect, CallTimeout: s.Timeouts.Call, TotalTimeout: s.Timeouts.Total,
			IdleTimeout: s.Timeouts.Idle, CatalogueGrace: s.Timeouts.Catalogue, MaxConcurrent: s.MaxConcurrentCalls,
			Trust: s.Trust, TrustChanges: s.AllowToolChanges, TaintsAll: cfg.Policy.Taint == turn.TaintStrict,
			SessionAffinity: s.SessionAffinity == config.AffinityTurn, ElicitationTimeout: s.Timeouts.Elicitation,
			Queue: cfg.ServerQueue(s.Queue),
		})
	}
	return out
}

// reveal returns secrets as strings, for the adapter that sends them.
func reveal(secrets map[string]config.Secret) map[string]string {
	out := make(map[string]string, len(secrets))
	for k, s := range secrets {
		out[k] = s.Reveal()
	}
	return out
}

// workspace returns the folder that the file tools are confined to.
func workspace(cfg config.Config) (string, error) { return filepath.Abs(cfg.Runtime.Workspace) }

// summaryModel returns the model that writes summaries. It is empty if that is the turn's own model, as with the demo,
// which has only one.
func summaryModel(cfg config.Config) string {
	if cfg.EffectiveLLM().Provider == config.ProviderDemo {
		return ""
	}
	return cfg.Prompt.SummaryModel
}
