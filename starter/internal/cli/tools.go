package cli

import (
	"fmt"
	"io"
	"slices"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"github.com/everturn/everturn/engine"
	"github.com/everturn/everturn/starter/internal/ui"
	"github.com/everturn/everturn/workflows/turn"
)

func (a *app) toolsCommand() *cobra.Command {
	var output string
	cmd := &cobra.Command{
		Use:   "tools",
		Short: "Connect to the configured MCP servers and list their tools",
		Long: `Connect to the configured MCP servers and list their tools, and the local ones. Turns cannot call
quarantined tools: tools that are new, or have changed since you approved them.

Exit codes: 0 every server answered, 1 a server did not.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			loaded, err := a.load()
			if err != nil {
				return err
			}
			if err := loaded.CheckEnviron(a.environ); err != nil {
				return err
			}
			catalogues, _, err := engine.AskServers(cmd.Context(), loaded.Config, engine.WithEnviron(a.environ))
			if err != nil {
				return err
			}
			published, _, err := reported(cmd.Context(), loaded.Config)
			if err != nil {
				return err
			}
			applyQuarantine(catalogues, published)
			err = printList(a.out, output, catalogues, func() error { return a.printTools(catalogues) })
			if err == nil && slices.ContainsFunc(catalogues, func(c turn.Catalogue) bool { return c.Problem != "" }) {
				return &exitError{code: exitFailed}
			}
			return err
		},
	}
	outputFlag(cmd, &output, outputText, outputJSON, outputJSONL)
	cmd.AddCommand(a.toolsStatusCommand(), a.toolsDiffCommand(), a.toolsApproveCommand())
	return cmd
}

// applyQuarantine removes the tools that the journal has quarantined from the tools that the servers offer now. If a
// server now offers yet another version, that version is not approved either.
func applyQuarantine(offered []turn.Catalogue, published map[string]turn.Catalogue) {
	for i := range offered {
		c := &offered[i]
		for _, q := range published[c.Server].Quarantined {
			at := slices.IndexFunc(c.Tools, func(t turn.Descriptor) bool { return t.ID == q.Now.ID })
			if at < 0 || q.Approved != nil && q.Approved.Hash == c.Tools[at].Hash {
				continue // the tool is gone, or is the approved version again
			}
			q.Now = c.Tools[at]
			c.Tools, c.Quarantined = slices.Delete(c.Tools, at, at+1), append(c.Quarantined, q)
		}
	}
}

// printTools lists the tools, and on stderr the unavailable servers and the tools that were left out.
func (a *app) printTools(catalogues []turn.Catalogue) error {
	w := tabwriter.NewWriter(a.out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "TOOL\tACTIVITY\tRISK\tREPEATABLE\tSTATE\tDESCRIPTION")
	for _, c := range catalogues {
		for _, t := range c.Tools {
			printTool(w, t, "offered")
		}
		for _, q := range c.Quarantined {
			printTool(w, q.Now, "quarantined")
		}
	}
	if err := w.Flush(); err != nil {
		return err
	}
	for _, c := range catalogues {
		if c.Problem != "" {
			a.note("%s is not available: %s", c.Server, c.Problem)
		}
		for _, d := range c.Dropped {
			a.note("%s: left out: %s", c.Server, d)
		}
		a.noteMisnamed(c.Server, c.Misnamed)
		a.noteQuarantined(c.Server, len(c.Quarantined))
	}
	return nil
}

// noteMisnamed prints the tools that agent.toml names and the server does not offer.
func (a *app) noteMisnamed(server string, tools []string) {
	if len(tools) > 0 {
		a.note("%s: agent.toml names tools that the server does not offer: %s", server, line(strings.Join(tools, ", "), 400))
	}
}

func (a *app) noteQuarantined(server string, n int) {
	if n > 0 {
		a.note("%s: %s, which turns cannot call: see `starter tools diff %s`", server, ui.Count(n, "quarantined tool"),
			quoted(server))
	}
}

func printTool(w io.Writer, t turn.Descriptor, state string) {
	fmt.Fprintf(w, "%s\t%s\t%s\t%t\t%s\t%s\n", line(t.ID, 60), t.Activity, t.Risk, t.Repeatable, state,
		line(t.Description, 60))
}
