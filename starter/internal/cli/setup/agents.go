package setup

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/everturn/everturn/config"
	"github.com/everturn/everturn/internal/modelconfig"
	"github.com/everturn/everturn/starter/internal/cli/app"
)

// Agents returns the commands that show the configured agents.
func Agents(a *app.App) *cobra.Command {
	cmd := app.Parent("agents", "List and show the agents of this configuration", agentsList(a), agentsShow(a))
	cmd.Long = `List and show the agents of this configuration: that of [runtime], which is the default, and those of
[[agents]]. "everturn run --agent" chooses one for a turn.`
	return cmd
}

// shownAgent is an agent with the settings that its turns would get now, for output.
type shownAgent struct {
	ID          string   `json:"id"`
	Description string   `json:"description,omitempty"`
	Model       string   `json:"model"`
	Tools       []string `json:"tools,omitempty"` // patterns; none: all that the policy allows
	Deny        []string `json:"deny,omitempty"`
	Ask         []string `json:"ask,omitempty"`
	Skills      []string `json:"skills,omitempty"` // names; none: all
	Agents      []string `json:"agents,omitempty"` // the agents that it may call
	Plan        string   `json:"plan,omitempty"`   // what users confirm of its plans; empty: it works without one
	MaxSteps    int      `json:"max_steps"`
	MaxCalls    int      `json:"max_tool_calls"`
	Timeout     string   `json:"turn_timeout"`
	MaxTokens   int64    `json:"max_tokens,omitempty"`
	MaxCostUSD  float64  `json:"max_cost_usd,omitempty"`
	System      string   `json:"system_prompt,omitempty"`
}

// shownAgents returns the configured agents, the default first.
func shownAgents(a *app.App) ([]shownAgent, error) {
	loaded, err := a.Load()
	if err != nil {
		return nil, err
	}
	cfg := loaded.Config
	all, _ := modelconfig.Models(cfg) // the built-in list is good enough for display
	list := make([]shownAgent, 0, 1+len(cfg.Agents))
	for _, name := range app.AgentNames(cfg) {
		g, _ := cfg.Agent(name)
		s := effectiveAgent(g, cfg)
		chain, err := modelconfig.Chain(all, cfg, g.Model)
		if err != nil {
			return nil, app.Usage("agent %s: %v", name, err)
		}
		s.Model = string(chain[0].Provider) + ":" + chain[0].Name
		list = append(list, s)
	}
	return list, nil
}

// effectiveAgent returns an agent with the settings that it inherits from the rest of the configuration, without its
// model.
func effectiveAgent(g config.Agent, cfg config.Config) shownAgent {
	r := cfg.Runtime
	return shownAgent{ID: g.ID, Description: g.Description, Tools: g.Tools, Deny: slices.Concat(cfg.Policy.Deny, g.Deny),
		Ask: slices.Concat(cfg.Policy.Ask, g.Ask), Skills: g.Skills, Agents: g.Agents, Plan: string(g.Plan),
		MaxSteps: cmp.Or(g.MaxSteps, r.MaxSteps), MaxCalls: r.MaxToolCalls,
		Timeout:   cmp.Or(g.TurnTimeout, r.TurnTimeout).Round(time.Millisecond).String(),
		MaxTokens: cmp.Or(g.MaxTokens, r.MaxTokens), MaxCostUSD: cmp.Or(g.MaxCostUSD, r.MaxCostUSD),
		System: cmp.Or(g.SystemPrompt, r.SystemPrompt)}
}

// agentsList returns the command that lists the agents.
func agentsList(a *app.App) *cobra.Command {
	var output string
	cmd := &cobra.Command{
		Use:   "list",
		Short: "List the agents of this configuration, the default first",
		Args:  cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			list, err := shownAgents(a)
			if err != nil {
				return err
			}
			return app.PrintList(a.Out, output, list, func() error {
				rows := make([][]string, len(list))
				for i, g := range list {
					rows[i] = []string{g.ID, app.Line(g.Model, 60), cmp.Or(app.Line(strings.Join(g.Tools, " "), 60), "all"),
						app.Line(g.Description, 100)}
				}
				return a.Table([]string{"AGENT", "MODEL", "TOOLS", "DESCRIPTION"}, rows)
			})
		},
	}
	app.OutputFlag(cmd, &output, app.OutputText, app.OutputJSON, app.OutputJSONL)
	return cmd
}

// agentsShow returns the command that shows one agent.
func agentsShow(a *app.App) *cobra.Command {
	var output string
	cmd := &cobra.Command{
		Use:               "show <agent>",
		Short:             "Show what the turns of an agent may do",
		Args:              cobra.ExactArgs(1),
		ValidArgsFunction: a.CompleteAgents,
		RunE: func(_ *cobra.Command, args []string) error {
			list, err := shownAgents(a)
			if err != nil {
				return err
			}
			names := make([]string, len(list))
			for i, g := range list {
				if names[i] = g.ID; g.ID == args[0] {
					return printAgent(a, g, output)
				}
			}
			return app.Usage("there is no agent %q: agent.toml has %s", app.Line(args[0], 60), strings.Join(names, ", "))
		},
	}
	app.OutputFlag(cmd, &output, app.OutputText, app.OutputJSON)
	return cmd
}

// printAgent prints an agent in the format output.
func printAgent(a *app.App, g shownAgent, output string) error {
	if output == app.OutputJSON {
		return app.WriteJSON(a.Out, g)
	}
	for _, row := range [][2]string{
		{"agent", g.ID}, {"description", g.Description}, {"model", g.Model},
		{"tools", cmp.Or(strings.Join(g.Tools, " "), "all that the policy allows")}, {"never", strings.Join(g.Deny, " ")},
		{"calls agents", strings.Join(g.Agents, " ")},
		{"confirm plans", g.Plan},
		{"asks for", strings.Join(g.Ask, " ")}, {"skills", cmp.Or(strings.Join(g.Skills, " "), "all")},
		{"limits", fmt.Sprintf("%d steps, %d tool calls, %s%s", g.MaxSteps, g.MaxCalls, g.Timeout, ceilings(g))},
		{"system prompt", g.System},
	} {
		if row[1] != "" {
			fmt.Fprintf(a.Out, "%-14s %s\n", row[0], app.Line(row[1], 2000))
		}
	}
	return nil
}

// ceilings returns the limits of tokens and cost that an agent has, each after a comma.
func ceilings(g shownAgent) (out string) {
	if g.MaxTokens > 0 {
		out += fmt.Sprintf(", %d tokens", g.MaxTokens)
	}
	if g.MaxCostUSD > 0 {
		out += fmt.Sprintf(", $%g", g.MaxCostUSD)
	}
	return out
}
