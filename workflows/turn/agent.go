package turn

import (
	"cmp"
	"slices"
	"time"

	"github.com/everturn/everturn/workflows/plan"
)

// Agent is an agent that turns run as: that of [runtime] in agent.toml or one of [[agents]], whose documentation are
// the comments of the fields.
type Agent struct {
	// The agent's name: `everturn run --agent` and the start input of a turn choose it.
	ID string `json:"id" toml:"id" required:"true" maxbytes:"64" example:"reviewer"`
	// What the agent is for, in a line.
	Description string `json:"description,omitempty" toml:"description" maxbytes:"1000"`
	// Sent to the model before the conversation, instead of runtime.system_prompt.
	SystemPrompt string `json:"system_prompt,omitempty" toml:"system_prompt"`
	// The model, as "provider:name" or a name.
	Model         string `json:"model,omitempty" toml:"model" maxbytes:"200"`
	ModelSettings        // of its turns
	// Patterns of the tools that it may call, of those that [policy] allows; none means all of them. As in policy.allow,
	// the agents of its list agents need no pattern unless one of them has one.
	Tools []string `json:"tools,omitempty" toml:"tools" example:"local/read_file,mcp/git/*"`
	// Tools that it never calls, besides policy.deny.
	Deny []string `json:"deny,omitempty" toml:"deny"`
	// Tools whose calls need an approval, besides policy.ask.
	Ask []string `json:"ask,omitempty" toml:"ask"`
	// If set, it works by a plan: it proposes steps, and changes nothing before they are accepted. Users confirm the plan
	// as a whole ("plan"), each later step as well ("step"), or nothing ("never"). With "todo" it keeps a list of steps
	// that binds nothing.
	Plan plan.Confirm `json:"plan,omitempty" toml:"plan" enum:",plan,step,never,todo"`
	// Agents that it may call, each as the tool agent/<id>. It never calls itself, nor an agent that led to its turn.
	Agents []string `json:"agents,omitempty" toml:"agents"`
	// Names of the skills that it may use; none means all of them.
	Skills []string `json:"skills,omitempty" toml:"skills"`
	// Limits of its turns. 0 means that of [runtime]; a limit that is larger is an error.
	MaxSteps int `json:"max_steps" toml:"max_steps" min:"0"`
	// Maximum working time of a turn.
	TurnTimeout time.Duration `json:"turn_timeout" toml:"turn_timeout" min:"0s"`
	// Maximum number of input plus output tokens of a turn.
	MaxTokens int64 `json:"max_tokens,omitempty" toml:"max_tokens" min:"0"`
	// Maximum cost of a turn in US dollars.
	MaxCostUSD float64 `json:"max_cost_usd,omitempty" toml:"max_cost_usd" min:"0" max:"1000000"`
}

// Under returns a with what it does not set taken from the default agent, and with what the default agent denies and
// asks for. It keeps its own lists of tools, agents and skills, and its plan: if they are empty, they mean the same for
// every agent.
func (a Agent) Under(base Agent) Agent {
	a.SystemPrompt = cmp.Or(a.SystemPrompt, base.SystemPrompt)
	a.Model = cmp.Or(a.Model, base.Model)
	a.Deny, a.Ask = slices.Concat(base.Deny, a.Deny), slices.Concat(base.Ask, a.Ask)
	a.MaxSteps = cmp.Or(a.MaxSteps, base.MaxSteps)
	a.TurnTimeout = cmp.Or(a.TurnTimeout, base.TurnTimeout)
	a.MaxTokens = cmp.Or(a.MaxTokens, base.MaxTokens)
	a.MaxCostUSD = cmp.Or(a.MaxCostUSD, base.MaxCostUSD)
	return a
}

// Narrow returns the limits and the policy of the agent's turns; l and p are those of the configuration.
func (a Agent) Narrow(l Limits, p Policy) (Limits, Policy) {
	l.MaxSteps, l.TurnTimeout, l.MaxTokens, l.MaxCostUSD = a.MaxSteps, a.TurnTimeout, a.MaxTokens, a.MaxCostUSD
	p.Deny, p.Ask = a.Deny, a.Ask
	return l, p
}
