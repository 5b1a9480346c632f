package setup

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/everturn/everturn/client"
	"github.com/everturn/everturn/internal/adapters"
	"github.com/everturn/everturn/starter/internal/cli/app"
	"github.com/everturn/everturn/starter/internal/ui"
	"github.com/everturn/everturn/workflows/turn"
)

// Tools returns the command tools. more are subcommands of other packages.
func Tools(a *app.App, more ...*cobra.Command) *cobra.Command {
	var output string
	cmd := &cobra.Command{
		Use:   "tools",
		Short: "Connect to the configured MCP servers and list their tools",
		Long: `Connect to the configured MCP servers and list their tools, and the local ones. Turns cannot call
quarantined tools: tools that are new, or have changed since you approved them. If running workers of
the task queue offer other tools than this configuration, the list has those too, and says how many
workers offer each.

Exit codes: 0 every server answered, 1 a server did not.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			loaded, err := a.Load()
			if err != nil {
				return err
			}
			if err := loaded.CheckEnviron(a.Environ); err != nil {
				return err
			}
			catalogues, _, err := adapters.AskServers(cmd.Context(), loaded.Config, a.Environ)
			if err != nil {
				return err
			}
			known, err := readServers(cmd.Context(), loaded.Config)
			if err != nil {
				return err
			}
			offered := known.Offered(catalogues, loaded.Config.Temporal.TaskQueue)
			err = app.PrintList(a.Out, output, offered, func() error { return printTools(a, offered) })
			if err == nil && slices.ContainsFunc(catalogues, func(c turn.Catalogue) bool { return c.Problem != "" }) {
				return &app.ExitError{Code: app.ExitFailed}
			}
			return err
		},
	}
	app.OutputFlag(cmd, &output, app.OutputText, app.OutputJSON, app.OutputJSONL)
	cmd.AddCommand(more...)
	cmd.AddCommand(toolsStatus(a), toolsDiff(a), toolsApprove(a))
	return cmd
}

// printTools prints a table of the tools and, on stderr, the problems of their servers.
func printTools(a *app.App, catalogues []client.OfferedCatalogue) error {
	var rows [][]string
	for _, c := range catalogues {
		for _, t := range c.Tools {
			rows = append(rows, toolRow(t, offeredBy(c)))
		}
		for _, q := range c.Quarantined {
			rows = append(rows, toolRow(q.Now, "quarantined"))
		}
	}
	if err := a.Table([]string{"TOOL", "ACTIVITY", "RISK", "REPEATABLE", "STATE", "DESCRIPTION"}, rows); err != nil {
		return err
	}
	for _, c := range catalogues {
		if c.Problem != "" {
			a.Note("%s is not available: %s", c.Server, c.Problem)
		}
		for _, d := range c.Dropped {
			a.Note("%s: left out: %s", c.Server, d)
		}
		noteMisnamed(a, c.Server, c.Misnamed)
		noteQuarantined(a, c.Server, len(c.Quarantined))
	}
	return nil
}

// offeredBy returns the state of a catalogue's tools in the table: how many workers offer them, if other workers offer
// another version.
func offeredBy(c client.OfferedCatalogue) string {
	switch n := len(c.Workers); {
	case c.Others == 0: // even if no worker offers the server
		return "offered"
	case n == 0:
		return "no worker"
	default:
		return fmt.Sprintf("%d of %d workers", n, n+c.Others)
	}
}

// noteMisnamed prints the tools that agent.toml names and the server does not offer.
func noteMisnamed(a *app.App, server string, tools []string) {
	if len(tools) > 0 {
		a.Note("%s: agent.toml names tools that the server does not offer: %s", server,
			app.Line(strings.Join(tools, ", "), 400))
	}
}

// noteQuarantined prints a note if n, the number of a server's quarantined tools, is not 0.
func noteQuarantined(a *app.App, server string, n int) {
	if n > 0 {
		a.Note("%s: %s, which turns cannot call: see `everturn tools diff %s`", server, ui.Count(n, "quarantined tool"),
			app.Quoted(server))
	}
}

// toolRow returns the row of a tool in the table.
func toolRow(t turn.Descriptor, state string) []string {
	return []string{app.Line(t.ID, 60), string(t.Activity), string(t.Risk), strconv.FormatBool(t.Repeatable), state,
		app.Line(t.Description, 60)}
}
