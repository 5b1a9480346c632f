package activities

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/everturn/everturn/activities/attempt"
	"github.com/everturn/everturn/activities/frozen"
	"github.com/everturn/everturn/journal"
	"github.com/everturn/everturn/workflows"
	"github.com/everturn/everturn/workflows/plan"
	"github.com/everturn/everturn/workflows/turn"
)

// noteProgress appends p to the stream of a turn, as the progress of one of its calls. It does nothing if the call is
// settled, because the turn then does not wait for it.
func noteProgress(ctx context.Context, j *journal.DB, turnID, callID string, p turn.ToolProgress) error {
	call, err := j.Call(ctx, turnID, callID)
	if err == nil && call.Outcome == "" {
		err = j.NoteCall(ctx, turnID, callID, call.Attempt, p, time.Now())
	}
	return err
}

// notifyCallers writes message to the streams of all turns above a subagent's turn, because users follow those and not
// the subagent's. It does nothing if session is not a subagent's. An error is only logged.
func (a *Activities) notifyCallers(ctx context.Context, session, turnID, message string) {
	if !turn.ReservedSession(session) {
		return
	}
	t, err := a.frozen.Turn(ctx, turnID)
	for p := (turn.ToolProgress{Message: message, Session: session}); err == nil && !t.Caller.IsZero(); {
		up := t.Caller // the turn one level up
		if err = noteProgress(ctx, a.journal.Tenant(t.Tenant), up.Turn, up.Call, p); err == nil {
			t, err = a.frozen.Turn(ctx, up.Turn)
		}
	}
	attempt.LogFailure(ctx, attempt.AsTurnError(err))
}

// caller is the turn whose call started a subagent's session.
type caller struct {
	agents  []string       // the agents of the caller and of the turns above it, up to the user's turn
	config  turn.Config    // of the caller
	granted turn.Allowance // what the caller granted to the subagent
	bounds  []plan.Scope   // what the steps of plans for which the subagent works may change
}

// callerOf returns the caller of a subagent's session, or nil if the session is not a subagent's. The caller is in the
// input of the session's first turn, which a client can write, and afterwards in the journal. So the journal must have
// the call, and the call must be of this agent's tool.
func (a *Activities) callerOf(ctx context.Context, in workflows.BeginInput) (*caller, error) {
	if !turn.ReservedSession(in.Session) && in.Caller.IsZero() {
		return nil, nil
	}
	tenantJournal := a.journal.Tenant(in.Tenant)
	forged := func(agent string, err error) error {
		return turn.NewError(turn.CodeInputInvalid, err, fmt.Sprintf(
			"session %q belongs to an agent that a call of another turn starts, and there is no such call of agent %q; "+
				"choose another session", turn.Truncate(in.Session, 80), turn.Truncate(agent, 60)))
	}
	up := in.Caller
	if up.IsZero() {
		rec, err := tenantJournal.Session(ctx, in.Session)
		if err != nil && !errors.Is(err, journal.ErrNotFound) {
			return nil, fmt.Errorf("reading the session's caller: %w", err)
		}
		up = rec.Caller
	}
	if turn.SubagentSession(up.Turn, up.Call) != in.Session { // without a caller, too
		return nil, forged(in.Agent, nil)
	}
	var c *caller
	// Each round goes up one level, from a subagent's session to the session of its caller.
	for agent := in.Agent; !up.IsZero(); {
		call, err := tenantJournal.Call(ctx, up.Turn, up.Call)
		if errors.Is(err, journal.ErrNotFound) || err == nil && call.Call.Tool != turn.AgentTools+agent {
			return nil, forged(agent, err)
		}
		if err != nil {
			return nil, fmt.Errorf("reading the call that started the session: %w", err)
		}
		rec, err := tenantJournal.TurnConfig(ctx, up.Turn)
		if err != nil {
			return nil, fmt.Errorf("reading the turn that started the session: %w", err)
		}
		cfg, err := frozen.DecodeConfig(rec.Config)
		if err != nil {
			return nil, err
		}
		if c == nil { // in the first round, cfg is that of the caller itself
			subagent, err := tenantJournal.Subagent(ctx, up.Turn, up.Call)
			if err != nil {
				return nil, fmt.Errorf("reading what the call has granted: %w", err)
			}
			c = &caller{config: cfg, granted: subagent.Granted}
			if c.bounds, err = a.scopesOf(ctx, cfg, call.Call); err != nil {
				return nil, err
			}
		}
		c.agents = append(c.agents, cfg.Agent)
		agent, up = cfg.Agent, rec.Caller
	}
	return c, nil
}

// scopesOf returns what bounds the turn of the agent that a call of the turn with this config starts: what bounds the
// turn itself and, if users confirm its plan, the step to which the call belongs.
func (a *Activities) scopesOf(ctx context.Context, cfg turn.Config, call turn.ToolCall) ([]plan.Scope, error) {
	promptConfig, err := a.frozen.PromptConfig(ctx, cfg.PromptConfig)
	if err != nil {
		return nil, err
	}
	s, err := plan.ScopeOf(call.Arguments)
	if err != nil {
		return nil, turn.NewError(turn.CodeInvalidAction, err, "the call's arguments cannot be read")
	}
	if promptConfig.Plan.Binds() && (call.Tool == cfg.PlanAgent() || !s.Empty()) {
		return append(slices.Clone(promptConfig.Scopes), s), nil
	}
	return promptConfig.Scopes, nil
}

// isOwn reports whether the subagent is its caller's agent, which does a step of the caller's plan.
func (c *caller) isOwn(agent turn.Agent) bool { return c != nil && c.config.Agent == agent.ID }

// scopes returns what the steps of plans for which the subagent works may change.
func (c *caller) scopes() []plan.Scope {
	if c == nil {
		return nil
	}
	return c.bounds
}

// narrow removes the subagent's tools that its caller does not have, except for the agents that the subagent may call,
// and adds what the caller's policy denies or asks for. For a nil caller it does nothing.
func (c *caller) narrow(cfg *turn.Config) {
	if c == nil {
		return
	}
	inheritDenyAndAsk(cfg, c.config.Policy)
	keepTools(cfg, func(t turn.Tool) bool {
		_, has := c.config.Find(t.ID)
		return (has || t.Activity == turn.ActivityAgent) && cfg.Policy.Offered(t)
	})
}

// inheritDenyAndAsk adds the deny and ask lists of another turn's policy to the turn's own.
func inheritDenyAndAsk(cfg *turn.Config, other turn.Policy) {
	cfg.Policy.Deny = slices.Concat(cfg.Policy.Deny, other.Deny)
	cfg.Policy.Ask = slices.Concat(cfg.Policy.Ask, other.Ask)
}

// addAgents adds to cfg a tool for each agent that the agent may call, and returns the descriptors with theirs. It
// leaves out the agent itself and the agents of the turns above, so that calls cannot go in circles, agents that policy
// denies or that this worker does not have, and at the maximum depth all. c is the caller of the turn, or nil. In a
// turn with a plan whose session has a tree, it also adds the tool for turn.Config.PlanAgent.
func (a *Activities) addAgents(agent turn.Agent, c *caller, cfg *turn.Config, descriptors []turn.Descriptor,
	confirm plan.Confirm) []turn.Descriptor {
	above := []string{agent.ID}
	if c != nil {
		above = append(above, c.agents...)
	}
	if len(above) > a.settings.MaxDepth {
		return descriptors
	}
	// The answer of a call in the background is a message, which a subagent's session does not take. It begins another
	// turn, which may make such a call, too: MaxDepth bounds their number.
	background := c == nil && cfg.Answers < a.settings.MaxDepth
	planned := confirm != "" && confirm != plan.Todo
	var tools []turn.Descriptor
	if _, tree := cfg.Find(plan.TakeTool); tree && planned && c == nil {
		tools = append(tools, agentTool(turn.Agent{ID: agent.ID, Description: "a copy of you that does an independent step " +
			"of the plan on a copy of the files"}, false, true))
	}
	for _, name := range agent.Agents {
		i := slices.IndexFunc(a.agents, func(o turn.Agent) bool { return o.ID == name })
		if i < 0 || slices.Contains(above, name) {
			continue
		}
		tools = append(tools, agentTool(a.agents[i], background, planned))
	}
	for _, d := range tools {
		// An agent that is configured as callable is allowed, unless the policy denies it or allows only other agents.
		policy := cfg.Policy
		if !namesAgents(a.settings.Policy.Allow) {
			policy.Allow = append(slices.Clone(policy.Allow), d.ID)
		}
		if !policy.Offered(d.Pinned()) {
			continue
		}
		cfg.Policy.Allow = policy.Allow
		cfg.Tools = append(cfg.Tools, d.Pinned())
		descriptors = append(descriptors, d)
	}
	return descriptors
}

// agentTool returns the descriptor of the tool with which a model calls the agent a. background adds the argument with
// which the call does not wait for the answer, and planned those with the scope of a plan's step. The tool is
// read-only, because the agent's own calls need permissions and approvals of their own.
func agentTool(a turn.Agent, background, planned bool) turn.Descriptor {
	id := turn.AgentTools + a.ID
	description := "Gives a task to the agent " + a.ID + " and returns its answer"
	if a.Description != "" {
		description += ": " + a.Description
	}
	description += ". The agent sees nothing but the task, so write down all that it needs to know."
	before, after := "", ""
	if background {
		before = `"background":{"description":"go on at once: the answer will be a message of this conversation","type":` +
			`"boolean"},`
	}
	if planned {
		before += `"paths":{"description":"the files and folders that it may change","items":{"type":"string"},` +
			`"type":"array"},`
		after = `,"tools":{"description":"the tools that it may call to change something","items":{"type":"string"},` +
			`"type":"array"}`
	}
	schema := json.RawMessage(`{"additionalProperties":false,"properties":{` + before +
		`"task":{"description":"what the agent is to do, with all that it needs to know","minLength":1,"type":"string"}` +
		after + `},"required":["task"],"type":"object"}`)
	return turn.Descriptor{
		ID: id, Wire: turn.WireName(id), Description: description, Schema: schema, Activity: turn.ActivityAgent,
		Risk: turn.RiskLow, Repeatable: true, Effects: turn.Effects{ReadOnly: true},
		Hash: journal.HashOf([]byte(id + "\n" + description + "\n" + string(schema))),
	}
}

// origin describes where the answer of a background subagent comes from. The turn that begins with the answer has at
// most the permissions of the turn that called the subagent, and what is left of the limits of the user's message.
type origin struct {
	caller turn.Config    // of the turn that called the subagent
	plan   plan.Confirm   // what users confirm of the caller's plan
	limits turn.Limits    // of the turn that began with the user's message
	left   turn.Allowance // of limits; zero if the journal does not know what was spent
}

// originOf returns the origin of a new turn's message if it is the answer of a subagent, and nil for other messages.
// The ID only marks the message as an answer; the journal must have that answer, because a client can send any ID.
func (a *Activities) originOf(ctx context.Context, in workflows.BeginInput) (*origin, error) {
	if _, ok := turn.AnsweringSubagent(in.Message.ID); !ok {
		return nil, nil
	}
	from, err := a.journal.Tenant(in.Tenant).Origin(ctx, in.Session, in.Message.ID, in.Turn)
	if errors.Is(err, journal.ErrNotFound) {
		return nil, turn.NewError(turn.CodeConfigInvalid, err,
			fmt.Sprintf("the message ID %q is for the answer of a subagent, "+
				"and the session has no such answer; use another ID", turn.Truncate(in.Message.ID, 200)))
	}
	if err != nil {
		return nil, fmt.Errorf("reading what the answer comes of: %w", err)
	}
	caller, err := a.frozen.Config(ctx, from.Turn) // the turn that called the subagent
	if err != nil {
		return nil, err
	}
	root, err := a.frozen.Config(ctx, from.Root) // the turn that began with the user's message
	if err != nil {
		return nil, err
	}
	promptConfig, err := a.frozen.PromptConfig(ctx, caller.PromptConfig)
	if err != nil {
		return nil, err
	}
	o := &origin{caller: caller, plan: promptConfig.Plan, limits: root.Limits}
	if from.Known {
		o.left = root.Limits.Left(from.Spent)
	}
	return o, nil
}

// apply replaces the choices of the input (agent, limits, model, tools, model settings, plan, output schema, context)
// by those of the caller's turn. For a nil origin it does nothing.
func (o *origin) apply(in *workflows.BeginInput) {
	if o == nil {
		return
	}
	in.Agent, in.Limits, in.OutputSchema, in.Context = o.caller.Agent, nil, nil, o.caller.Context
	in.Message.Model, in.Message.Tools, in.Message.ClientTools = "", o.caller.MessageTools, nil
	in.Message.ModelSettings, in.Message.Plan = o.caller.ModelSettings, o.plan
}

// applyLimits sets the turn's limits to what is left for it, its models to those of the caller, and cfg.Answers to one
// more than the caller's. For a nil origin it does nothing.
func (o *origin) applyLimits(cfg *turn.Config) {
	if o == nil {
		return
	}
	cfg.Limits, cfg.Answers = o.limits.Within(o.left), o.caller.Answers+1
	if len(o.caller.Models) > 0 {
		cfg.Models = o.caller.Models
		first := cfg.Models[0]
		cfg.Provider, cfg.Model, cfg.Mode = first.Provider, first.Name, first.Mode
	}
}

// narrow removes the turn's tools that the caller does not have, and adds what the caller's policy denies or asks for.
// For a nil origin it does nothing.
func (o *origin) narrow(cfg *turn.Config) {
	if o == nil {
		return
	}
	inheritDenyAndAsk(cfg, o.caller.Policy)
	keepTools(cfg, func(t turn.Tool) bool {
		_, has := o.caller.Find(t.ID)
		return has && cfg.Policy.Offered(t)
	})
}
