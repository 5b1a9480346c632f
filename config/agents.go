package config

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/everturn/everturn/workflows/plan"
)

// Agent is an agent besides the one of [runtime]. What it does not set, it has from [runtime], [llm] and [policy]; it
// narrows what they permit and widens nothing.
type Agent struct {
	// The agent's name: `everturn run --agent` and the start input of a turn choose it.
	ID string `toml:"id" required:"true" maxbytes:"64" example:"reviewer"`
	// What the agent is for, in a line.
	Description string `toml:"description" maxbytes:"1000"`
	// Sent to the model before the conversation, instead of runtime.system_prompt.
	SystemPrompt string `toml:"system_prompt"`
	// The model, as "provider:name" or a name.
	Model string `toml:"model" maxbytes:"200"`
	// Patterns of the tools that it may call, of those that [policy] allows; none means all of them. As in policy.allow,
	// the agents of its list agents need no pattern unless one of them has one.
	Tools []string `toml:"tools" example:"local/read_file,mcp/git/*"`
	// Tools that it never calls, besides policy.deny.
	Deny []string `toml:"deny"`
	// Tools whose calls need an approval, besides policy.ask.
	Ask []string `toml:"ask"`
	// If set, it works by a plan: it proposes steps, and changes nothing before they are accepted. Users confirm the plan
	// as a whole ("plan"), each later step as well ("step"), or nothing ("never").
	Plan plan.Confirm `toml:"plan" enum:",plan,step,never"`
	// Agents that it may call, each as the tool agent/<id>. It never calls itself, nor an agent that led to its turn.
	Agents []string `toml:"agents"`
	// Names of the skills that it may use; none means all of them.
	Skills []string `toml:"skills"`
	// Limits of its turns. 0 means that of [runtime]; a limit that is larger is an error.
	MaxSteps int `toml:"max_steps" min:"0"`
	// Maximum working time of a turn.
	TurnTimeout time.Duration `toml:"turn_timeout" min:"0s"`
	// Maximum number of input plus output tokens of a turn.
	MaxTokens int64 `toml:"max_tokens" min:"0"`
	// Maximum cost of a turn in US dollars.
	MaxCostUSD float64 `toml:"max_cost_usd" min:"0" max:"1000000"`
}

// DefaultAgent is the name of the agent of [runtime], in lists and in the Web UI.
const DefaultAgent = "default"

// Agent returns the agent with this name, and whether there is one. For "" and DefaultAgent it returns the default
// agent, with only its ID and Agents set: its other settings are those of [runtime], [llm] and [policy].
func (c Config) Agent(id string) (Agent, bool) {
	if id == "" || id == DefaultAgent {
		return Agent{ID: DefaultAgent, Agents: c.Runtime.Agents}, true
	}
	i := slices.IndexFunc(c.Agents, func(a Agent) bool { return a.ID == id })
	if i < 0 {
		return Agent{}, false
	}
	return c.Agents[i], true
}

// maxAgents bounds [[agents]].
const maxAgents = 100

// callees checks that the agents that an agent may call exist. key is the key of the list ids.
func (v *validator) callees(key string, ids []string, c Config) {
	for i, id := range ids {
		if slices.IndexFunc(c.Agents, func(a Agent) bool { return a.ID == id }) < 0 {
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
		switch {
		case !serverID.MatchString(a.ID):
			v.add(key+".id", "is %s; it must be at most 32 of a-z, 0-9, _ and -", quote(a.ID))
		case a.ID == DefaultAgent:
			v.add(key+".id", "is %q, like the agent of [runtime]; give every agent its own ID", a.ID)
		case slices.IndexFunc(c.Agents, func(o Agent) bool { return o.ID == a.ID }) < i:
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
