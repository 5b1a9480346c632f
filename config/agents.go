package config

import (
	"cmp"
	"fmt"
	"math"
	"slices"

	"github.com/everturn/everturn/workflows/turn"
)

// DefaultAgent is the name of the agent of [runtime], in lists and in the Web UI.
const DefaultAgent = "default"

// AllAgents returns the agents that turns may run as, the default one of [runtime] first. What those of [[agents]] do
// not set, they have from it; an empty Model is that of [llm].
func (c Config) AllAgents() []turn.Agent {
	r := c.Runtime
	base := turn.Agent{ID: DefaultAgent, SystemPrompt: r.SystemPrompt, Agents: r.Agents, Deny: c.Policy.Deny, Ask: c.Policy.Ask,
		MaxSteps: r.MaxSteps, TurnTimeout: r.TurnTimeout, MaxTokens: r.MaxTokens, MaxCostUSD: r.MaxCostUSD}
	all := []turn.Agent{base}
	for _, a := range c.Agents {
		all = append(all, a.Under(base))
	}
	return all
}

// HasAgent reports whether there is an agent with this name. "" names the default agent.
func (c Config) HasAgent(id string) bool {
	return id == "" || id == DefaultAgent || slices.ContainsFunc(c.Agents, func(a turn.Agent) bool { return a.ID == id })
}

// maxAgents bounds [[agents]].
const maxAgents = 100

// callees checks that the agents that an agent may call exist. key is the key of the list ids.
func (v *validator) callees(key string, ids []string, c Config) {
	for i, id := range ids {
		if slices.IndexFunc(c.Agents, func(a turn.Agent) bool { return a.ID == id }) < 0 {
			v.add(fmt.Sprintf("%s[%d]", key, i), "is %s, which is no agent of [[agents]]", quote(id))
		}
	}
}

// agents checks [[agents]]: the number of agents, their IDs, the tools and agents that they name, and that their limits
// do not exceed those of [runtime]. If there are too many agents, it checks nothing else.
func (v *validator) agents(c Config) {
	if len(c.Agents) > maxAgents {
		v.add("agents", "has %d agents; the maximum is %d", len(c.Agents), maxAgents)
		return
	}
	v.callees("runtime.agents", c.Runtime.Agents, c)
	for i, a := range c.Agents {
		v.callees(fmt.Sprintf("agents[%d].agents", i), a.Agents, c)
		key := fmt.Sprintf("agents[%d]", i)
		v.stops(key+".stop", a.ModelSettings)
		switch {
		case !serverID.MatchString(a.ID):
			v.add(key+".id", "is %s; it must be at most 32 of a-z, 0-9, _ and -", quote(a.ID))
		case a.ID == DefaultAgent:
			v.add(key+".id", "is %q, like the agent of [runtime]; give every agent its own ID", a.ID)
		case slices.IndexFunc(c.Agents, func(o turn.Agent) bool { return o.ID == a.ID }) < i:
			v.add(key+".id", "is %q, like that of another agent; give every agent its own ID", a.ID)
		}
		for _, list := range []struct {
			name     string
			patterns []string
		}{{"tools", a.Tools}, {"deny", a.Deny}, {"ask", a.Ask}} {
			for j, pattern := range list.patterns {
				v.toolPattern(fmt.Sprintf("%s.%s[%d]", key, list.name, j), pattern)
			}
		}
		for _, l := range []struct {
			name     string
			own, all float64 // the limit of the agent and that of [runtime], both in the same unit
		}{
			{"max_steps", float64(a.MaxSteps), float64(c.Runtime.MaxSteps)},
			{"turn_timeout", a.TurnTimeout.Seconds(), c.Runtime.TurnTimeout.Seconds()},
			// Of these, 0 in [runtime] means no limit.
			{"max_tokens", float64(a.MaxTokens), cmp.Or(float64(c.Runtime.MaxTokens), math.Inf(1))},
			{"max_cost_usd", a.MaxCostUSD, cmp.Or(c.Runtime.MaxCostUSD, math.Inf(1))},
		} {
			if l.own > l.all {
				v.add(key+"."+l.name, "is larger than runtime.%s; an agent narrows the limits of [runtime]", l.name)
			}
		}
	}
}
