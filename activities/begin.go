package activities

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"github.com/everturn/everturn/activities/attempt"
	"github.com/everturn/everturn/activities/frozen"
	"github.com/everturn/everturn/internal/skills"
	"github.com/everturn/everturn/journal"
	"github.com/everturn/everturn/workflows"
	"github.com/everturn/everturn/workflows/turn"
)

// Begin appends the message to its session and freezes the turn config. A resumed run gets the config that its first
// run froze. Begin only reads and writes the journal: the tools come from the catalogues that workers have published
// there.
func (a *Activities) Begin(ctx context.Context, in workflows.BeginInput) (workflows.BeginResult, error) {
	ctx = attempt.WithWork(ctx, in.Turn, 0, "")
	res, err := a.begin(ctx, in)
	return res, a.attempts.Failure(ctx, err)
}

// begin builds the turn config and begins the turn in the journal. The journal decides what becomes of the message: a
// new turn, the result of the turn that already has it (Duplicate), or no turn because the message is kept for a later
// inference or because other messages come first (Kept, Earlier). A message with the ID of an earlier one and another
// text is an error.
func (a *Activities) begin(ctx context.Context, in workflows.BeginInput) (workflows.BeginResult, error) {
	from, err := a.originOf(ctx, in)
	if err != nil {
		return workflows.BeginResult{}, err
	}
	// An answer of a subagent for which nothing is left begins no turn, so it needs no config.
	in.At, in.NothingLeft = time.Now(), from != nil && !from.left.Enough()
	var promptConfig turn.PromptConfig
	if !in.NothingLeft {
		var cfg turn.Config
		cfg, promptConfig, err = a.newConfig(ctx, in, from)
		if err == nil {
			cfg.PromptConfig, in.PromptConfig, err = a.frozen.EncodePromptConfig(promptConfig)
		}
		if err != nil {
			return workflows.BeginResult{}, err
		}
		raw, err := json.Marshal(cfg)
		if err != nil {
			return workflows.BeginResult{}, fmt.Errorf("encoding the turn config: %w", err)
		}
		in.Agent, in.Config, in.Skills, in.Settings = cfg.Agent, raw, cfg.Skills, cfg.Models[0].Fitted
	}
	begun, err := a.journal.Begin(ctx, in.BeginInput)
	if err != nil {
		return workflows.BeginResult{}, err
	}
	res := workflows.BeginResult{Head: begun.Head, Kept: begun.Kept, Earlier: begun.Earlier, Later: begun.Later}
	if begun.Kept || len(begun.Earlier) > 0 {
		return res, nil
	}
	if d := begun.DuplicateOf; d != nil && begun.TextDiffers {
		return workflows.BeginResult{}, turn.NewError(turn.CodeInputInvalid, nil, fmt.Sprintf(
			"the session already has a message with the ID %q and another text, which turn %s took. Nothing was done; send "+
				"this text under another ID", turn.Truncate(in.Message.ID, 200), d.ID))
	} else if d != nil {
		earlier := recordResult(*d)
		if !d.State.Terminal() && d.Session == in.Session {
			// The earlier run has ended, because this run has the session's workflow ID now. As its turn is not settled, the
			// run was terminated. A turn of another session, from which this one was forked, may still run.
			earlier.State, earlier.FinishReason = turn.StateClosed, turn.FinishTerminated
		}
		res.Duplicate = &earlier
		return res, nil
	}
	res.Config, err = frozen.DecodeConfig(begun.Config)
	if err == nil && !begun.Resumed {
		a.frozen.AddPromptConfig(res.Config.PromptConfig, promptConfig)
		a.frozen.AddWindow(begun.Head, begun.Head.Seq, []turn.Message{begun.Message})
	}
	if isCallerKnown := !turn.ReservedSession(in.Session) || !in.Caller.IsZero(); err == nil && isCallerKnown {
		a.frozen.AddTurn(in.Turn, frozen.TurnOf(in.Session, in.Tenant, in.Caller, res.Config))
	}
	return res, err
}

// recordResult converts the journal's record of a turn to a result. The record has only the beginning of a long
// answer. It does not say whether it was cut, so Truncated is set for each answer of the length of a cut one.
func recordResult(t journal.TurnRecord) workflows.Result {
	return workflows.Result{
		Version: workflows.WireVersion, Session: t.Session, Turn: t.ID, State: t.State, FinishReason: t.Reason,
		Answer: t.Answer, Truncated: len(t.Answer) > turn.AnswerKept-len("…"), Code: t.Code, Message: t.Message,
		Usage: t.Usage,
		Steps: t.Steps, ToolCalls: t.Calls,
	}
}

// newConfig builds the config and the prompt config of a new turn from the agent's settings, the requested limits and
// the tools that the workers have published, and selects the turn's skills. The caller sets cfg.PromptConfig. If the
// message is the answer of a subagent, from describes the turn that called the subagent, whose limits and permissions
// bind the new turn; otherwise from is nil.
func (a *Activities) newConfig(ctx context.Context, in workflows.BeginInput,
	from *origin) (cfg turn.Config, p turn.PromptConfig, err error) {
	from.apply(&in) // like the other methods of from and callerTurn, it does nothing for nil
	agent, err := a.agentOf(in.Agent)
	if err != nil {
		return cfg, p, err
	}
	limits, policy := agent.Narrow(a.settings.Limits, a.settings.Policy)
	limits, err = in.Limits.Apply(limits)
	if err != nil {
		return cfg, p, turn.NewError(turn.CodeInputInvalid, nil, err.Error())
	}
	told := limits // and not the part of them that is left for this turn
	if from != nil {
		told = from.limits
	}
	callerTurn, err := a.callerOf(ctx, in)
	if err != nil {
		return cfg, p, err
	}
	if callerTurn != nil { // this is the turn of a subagent
		limits, in.Message.Tools = limits.Within(callerTurn.granted), callerTurn.config.MessageTools
		in.Context = callerTurn.config.Context
		limits.RetryFor = min(limits.RetryFor, callerTurn.config.Limits.RetryFor)
	}
	chain, err := a.settings.Models(in.Message.Model, agent.Model)
	if err != nil {
		return cfg, p, turn.NewError(turn.CodeConfigInvalid, nil, err.Error())
	}
	asked := in.Message.ModelSettings.Over(agent.ModelSettings)
	for i := range chain {
		if err := chain[i].Fit(asked, policy.MaxEffort, i > 0 || from != nil); err != nil {
			return cfg, p, err
		}
	}
	cfg = turn.Config{
		Version: turn.BehaviorVersion, Tenant: in.Tenant, Agent: agent.ID,
		Provider: chain[0].Provider, Model: chain[0].Name, Mode: chain[0].Mode, Models: chain,
		Limits: limits, Policy: withMessageTools(policy, in.Message), Approvals: a.settings.Approvals,
		RetryMax: a.settings.RetryMax, FallbackAfter: a.settings.FallbackAfter, JournalRetryFor: a.journalRetryFor,
		ModelSettings: asked, MaxTokens: a.settings.MaxTokens, Queues: a.queues, TraceParent: in.Message.TraceParent,
		Background: in.Message.Background, MessageTools: in.Message.Tools, Context: in.Context,
	}
	from.applyLimits(&cfg)
	compactPrompt, err := a.settings.compactionSettings(cfg)
	if err != nil {
		return cfg, p, err
	}
	if err := a.checkPrices(cfg, compactPrompt); err != nil {
		return cfg, p, err
	}
	if cfg.Limits.MaxHistoryMessages == 0 && (compactPrompt == nil || compactPrompt.ContextTokens == 0) {
		// Compaction does not bound the prompt, so the number of messages must.
		cfg.Limits.MaxHistoryMessages = turn.DefaultLimits().MaxHistoryMessages
	}
	descriptors, err := a.selectTools(ctx, &cfg)
	if err != nil {
		return cfg, p, err
	}
	planConfirm := agent.Plan.Stricter(in.Message.Plan)
	if callerTurn.isOwn(agent) {
		planConfirm = ""
	}
	descriptors = a.addAgents(agent, callerTurn, &cfg, descriptors, planConfirm)
	if descriptors, err = a.addClientTools(&cfg, descriptors, in.Message.ClientTools); err != nil {
		return cfg, p, err
	}
	// A caller's choice of tools may name tools that this agent lacks; only a user's own choice is checked.
	if err := checkMessageTools(cfg); err != nil && callerTurn == nil && from == nil {
		return cfg, p, err
	}
	keepToolsOf(agent, &cfg)
	callerTurn.narrow(&cfg)
	from.narrow(&cfg)
	chosen, err := a.chooseSkills(ctx, agent, in.Message, &cfg)
	if err != nil {
		return cfg, p, err
	}
	if err := checkClientTools(cfg, in.Message.ClientTools); err != nil {
		return cfg, p, err
	}
	descriptors = slices.DeleteFunc(descriptors, func(d turn.Descriptor) bool { return !cfg.Policy.Offered(d.Pinned()) })
	system := a.settings.system(agent, cfg.Unavailable) + limitsPrompt(told, cfg.Policy, descriptors) + chosen.Prompt()
	if planConfirm != "" { // the turn works by a plan, or keeps a list
		var about string
		descriptors, about = a.addPlanTools(&cfg, descriptors, planConfirm)
		system += about
	}
	output, err := outputSchema(in.OutputSchema)
	if err != nil {
		return cfg, p, err
	}
	cfg.Skills = chosen.Report()
	return cfg, turn.PromptConfig{System: system, Environment: a.settings.environment(in.At, cfg.Tools),
		Descriptors: descriptors, Policy: cfg.Policy, OutputSchema: output, Plan: planConfirm, Compaction: compactPrompt,
		Scopes: callerTurn.scopes()}, nil
}

// keepTools removes the turn's tools that keep does not accept, and restricts the policy to the remaining tools.
func keepTools(cfg *turn.Config, keep func(turn.Tool) bool) {
	cfg.Tools = slices.DeleteFunc(cfg.Tools, func(t turn.Tool) bool { return !keep(t) })
	cfg.Policy.Only = []string{NoTools} // because an empty list would permit every tool
	for _, t := range cfg.Tools {
		cfg.Policy.Only = append(cfg.Policy.Only, t.ID)
	}
}

// chooseSkills selects the turn's skills by the text of its message, and removes the tools that the skills do not
// allow. The result is nil if the agent has no skills.
func (a *Activities) chooseSkills(ctx context.Context, agent turn.Agent, m turn.UserMessage,
	cfg *turn.Config) (skills.Choice, error) {
	var set skills.Set
	if a.settings.Skills != nil {
		set = a.settings.Skills()
	}
	if len(agent.Skills) > 0 {
		set.All = slices.DeleteFunc(slices.Clone(set.All),
			func(s skills.Skill) bool { return !slices.Contains(agent.Skills, s.Name) })
	}
	if len(set.All) == 0 {
		return nil, nil
	}
	if m.Blob != "" {
		b, err := a.journal.GetBlob(ctx, m.Blob)
		if err != nil {
			return nil, fmt.Errorf("reading the message: %w", err)
		}
		m.Text = string(b)
	}
	chosen := set.Choose(m.Text, cfg.Models[0].ContextTokens, cfg.Tools)
	// Both are narrowed: the policy decides about calls, and the tools are offered to the model.
	cfg.Policy.Only = chosen.Narrow(cfg.Policy.Only, cfg.Tools)
	cfg.Tools = slices.DeleteFunc(cfg.Tools, func(t turn.Tool) bool { return !cfg.Policy.Offered(t) })
	return chosen, nil
}

// The space that compaction reserves for a completion if max_tokens is not configured: reservedOutput tokens, but at
// most the context window divided by reservedPart.
const (
	reservedOutput = 4096
	reservedPart   = 8
)

// withMessageTools returns the policy, restricted to the tools that the message chose and its own client tools. If it
// chose none, all tools of the policy remain.
func withMessageTools(policy turn.Policy, m turn.UserMessage) turn.Policy {
	policy.Only = slices.Clone(m.Tools)
	if len(m.Tools) > 0 {
		for _, t := range m.ClientTools {
			policy.Only = append(policy.Only, turn.ClientTools+t.Name)
		}
	}
	return policy
}

// NoTools is the tool pattern with which a message excludes all tools.
const NoTools = "none"

// checkMessageTools returns an error if the message chose a tool that the turn does not have, which is most likely
// misspelled. If a server is unavailable, there is no error, because that server may have the tool.
func checkMessageTools(cfg turn.Config) error {
	for _, pattern := range cfg.Policy.Only {
		patternOnly := turn.Policy{Allow: []string{pattern}}
		if pattern == NoTools || len(cfg.Unavailable) > 0 || slices.ContainsFunc(cfg.Tools, patternOnly.Offered) {
			continue
		}
		return turn.NewError(turn.CodeInputInvalid, nil, fmt.Sprintf("the message's tools: no tool that the agent offers "+
			"matches %q; `everturn tools status` lists the tools. Nothing was done", turn.Truncate(pattern, 80)))
	}
	return nil
}

// selectTools adds the tools of the published catalogues to cfg, except those that its policy denies whatever their
// arguments, and returns their descriptors. Servers that are unavailable are added to cfg.Unavailable; if one of them
// is required, selectTools returns an error.
func (a *Activities) selectTools(ctx context.Context, cfg *turn.Config) ([]turn.Descriptor, error) {
	catalogues, err := a.offered(ctx)
	if err != nil {
		return nil, err
	}
	catalogues = a.withUnpublished(catalogues)
	var descriptors []turn.Descriptor
	for _, c := range catalogues {
		unavailable := !c.Usable(time.Now())
		if unavailable && c.Required {
			return nil, turn.NewError(turn.CodeToolNotSent, nil, fmt.Sprintf(
				"the required MCP server %q is not available: %s. Nothing was done; fix the server and ask again", c.Server,
				turn.Truncate(c.Problem, 2000)))
		}
		if unavailable {
			cfg.Unavailable = append(cfg.Unavailable, c.Server)
			continue
		}
		offered := c.Offered(cfg.Policy)
		descriptors = append(descriptors, offered...)
		cfg.Tools = append(cfg.Tools, a.toolsOf(offered)...)
	}
	return descriptors, nil
}

// offered returns one catalogue for each server that turns of this worker may call. If this worker offers a version of
// the catalogue itself, it is that version.
func (a *Activities) offered(ctx context.Context) ([]turn.Catalogue, error) {
	all, err := a.authorizer.Catalogues(ctx)
	return slices.CompactFunc(all, func(a, b turn.Catalogue) bool { return a.Server == b.Server }), err
}

// withUnpublished adds a catalogue without tools for each server whose tools no worker has published yet. A worker
// that hosts a server publishes its tools before it polls, but a worker that only runs turns may start first.
func (a *Activities) withUnpublished(catalogues []turn.Catalogue) []turn.Catalogue {
	for _, server := range a.settings.Servers {
		if !slices.ContainsFunc(catalogues, func(c turn.Catalogue) bool { return c.Server == server }) {
			catalogues = append(catalogues, turn.Catalogue{Server: server,
				Required: slices.Contains(a.settings.Required, server), Problem: "no worker that hosts it has started"})
		}
	}
	return catalogues
}

// toolsOf converts descriptors to the tools of a turn config. If this worker runs no calls, no tool is a local
// activity, because a local activity runs on the worker of its workflow task.
func (a *Activities) toolsOf(offered []turn.Descriptor) []turn.Tool {
	tools := turn.PromptConfig{Descriptors: offered}.Tools()
	for i := range tools {
		if a.elsewhere.Tools != "" {
			tools[i].Activity = turn.ActivityRegular
		}
	}
	return tools
}

// checkPrices returns an error if the turn has a ceiling in dollars, of its own or of its session or tenant, and the
// price of one of its models is unknown. compactPrompt has the model of summaries; nil means that there are none.
func (a *Activities) checkPrices(cfg turn.Config, compactPrompt *turn.CompactionSettings) error {
	ceiling := "max_cost_usd"
	switch b := a.budget; {
	case cfg.Limits.MaxCostUSD > 0:
	case b.Session != nil || b.TenantDay != nil || b.TenantMonth != nil:
		ceiling = "a limit in dollars under [budget]"
	default:
		return nil
	}
	unpriced := cfg.Model // in case the config has no list of models
	if models := cfg.Models; len(models) > 0 {
		if compactPrompt != nil {
			models = append(slices.Clone(models), compactPrompt.Model)
		}
		i := slices.IndexFunc(models, func(m turn.Model) bool { return m.Price == nil })
		if i < 0 {
			return nil
		}
		unpriced = models[i].Name
	}
	return turn.NewError(turn.CodeConfigInvalid, nil,
		fmt.Sprintf("there is %s, but the price of model %q is not known, so "+
			"its cost cannot be limited: set its price under [[models]], or limit tokens instead", ceiling,
			turn.Truncate(unpriced, 60)))
}
