package setup

import (
	"cmp"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/everturn/everturn/internal/modelconfig"
	"github.com/everturn/everturn/starter/internal/cli/app"
	"github.com/everturn/everturn/workflows/turn"
)

// Agents returns the commands that show the configured agents.
func Agents(a *app.App) *cobra.Command {
	cmd := app.Parent("agents", "List and show the agents of this configuration", agentsList(a), agentsShow(a))
	cmd.Long = `List and show the agents of this configuration: that of [runtime], which is the default, and those of
[[agents]]. "everturn run --agent" chooses one for a turn.`
	return cmd
}

// shownAgent is an agent as it is shown: with the limit of calls that all agents have, and its working time as text.
type shownAgent struct {
	turn.Agent
	MaxToolCalls int    `json:"max_tool_calls"`
	TurnTimeout  string `json:"turn_timeout"`
}

// listAgents returns the configured agents, the default first, with the settings that their turns would get now.
func listAgents(a *app.App) (list []shownAgent, err error) {
	loaded, err := a.Load()
	if err != nil {
		return nil, err
	}
	all, _ := modelconfig.Models(loaded.Config) // the built-in list is good enough for display
	for _, agent := range loaded.Config.AllAgents() {
		chain, err := modelconfig.Chain(all, loaded.Config, agent.Model)
		if err != nil {
			return nil, app.Usage("agent %s: %v", agent.ID, err)
		}
		agent.Model = string(chain[0].Provider) + ":" + chain[0].Name
		list = append(list, shownAgent{agent, loaded.Config.Runtime.MaxToolCalls,
			agent.TurnTimeout.Round(time.Millisecond).String()})
	}
	return list, nil
}

// agentsList returns the command that lists the agents.
func agentsList(a *app.App) *cobra.Command {
	var output string
	cmd := &cobra.Command{
		Use:   "list",
		Short: "List the agents of this configuration, the default first",
		Args:  cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			list, err := listAgents(a)
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
			list, err := listAgents(a)
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
		{"confirm plans", string(g.Plan)},
		{"asks for", strings.Join(g.Ask, " ")}, {"skills", cmp.Or(strings.Join(g.Skills, " "), "all")},
		{"limits", fmt.Sprintf("%d steps, %d tool calls, %s%s", g.MaxSteps, g.MaxToolCalls, g.TurnTimeout, ceilings(g.Agent))},
		{"system prompt", g.SystemPrompt},
	} {
		if row[1] != "" {
			fmt.Fprintf(a.Out, "%-14s %s\n", row[0], app.Line(row[1], 2000))
		}
	}
	return nil
}

// ceilings returns the limits of tokens and cost that an agent has, each after a comma.
func ceilings(g turn.Agent) (out string) {
	if g.MaxTokens > 0 {
		out += fmt.Sprintf(", %d tokens", g.MaxTokens)
	}
	if g.MaxCostUSD > 0 {
		out += fmt.Sprintf(", $%g", g.MaxCostUSD)
	}
	return out
}
