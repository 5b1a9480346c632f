package main

import (
	"fmt"
	"io"
	"slices"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"github.com/everturn/everturn/engine"
	"github.com/everturn/everturn/workflows/turn"
)

func (a *app) toolsCommand() *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "tools",
		Short: "Connect to the configured servers and list what they offer",
		Long: `Connect to the configured servers and list what they offer. Tools that are held back are offered to no turn; with --json they
are not among the tools of their server, but in "held".

The exit code is 0 where every server answered, and 1 where one did not.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			loaded, err := a.load()
			if err != nil {
				return err
			}
			if err := loaded.CheckEnviron(a.environ); err != nil {
				return err
			}
			catalogues, err := engine.Catalogues(cmd.Context(), loaded.Config, engine.WithEnviron(a.environ))
			if err != nil {
				return err
			}
			published, _, err := reported(cmd.Context(), loaded.Config)
			if err != nil {
				return err
			}
			holdBack(catalogues, published)
			if asJSON {
				err = writeJSON(a.out, catalogues)
			} else {
				err = a.printTools(catalogues)
			}
			if err == nil && slices.ContainsFunc(catalogues, func(c turn.Catalogue) bool { return c.Problem != "" }) {
				return &exitError{code: exitFailed}
			}
			return err
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print JSON, schemas included")
	cmd.AddCommand(a.toolsStatusCommand(), a.toolsDiffCommand(), a.toolsApproveCommand())
	return cmd
}

// holdBack moves the tools that the journal has quarantined out of the tools that the servers offer now. If a server
// now offers yet another version, that version is not approved either.
func holdBack(offered []turn.Catalogue, published map[string]turn.Catalogue) {
	for i := range offered {
		c := &offered[i]
		for _, h := range published[c.Server].Quarantined {
			at := slices.IndexFunc(c.Tools, func(t turn.Descriptor) bool { return t.ID == h.Now.ID })
			if at < 0 || h.Approved != nil && h.Approved.Hash == c.Tools[at].Hash {
				continue // the tool is gone, or is the approved version again
			}
			h.Now = c.Tools[at]
			c.Tools, c.Quarantined = slices.Delete(c.Tools, at, at+1), append(c.Quarantined, h)
		}
	}
}

// printTools lists the tools, and on stderr the unavailable servers and the tools that were left out.
func (a *app) printTools(catalogues []turn.Catalogue) error {
	w := tabwriter.NewWriter(a.out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "TOOL\tLANE\tRISK\tREPEATABLE\tSTATE\tDESCRIPTION")
	for _, c := range catalogues {
		for _, t := range c.Tools {
			printTool(w, t, "offered")
		}
		for _, h := range c.Quarantined {
			printTool(w, h.Now, "held back")
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
		if len(c.Quarantined) > 0 {
			a.note("%s: %s held back, and offered to no turn: see `starter tools diff %s`", c.Server, ofIts(len(c.Quarantined)), c.Server)
		}
	}
	return nil
}

// noteMisnamed prints the tools that agent.toml names and the server does not offer.
func (a *app) noteMisnamed(server string, tools []string) {
	if len(tools) > 0 {
		a.note("%s: agent.toml names tools that the server does not offer: %s", server, line(strings.Join(tools, ", "), 400))
	}
}

func printTool(w io.Writer, t turn.Descriptor, state string) {
	fmt.Fprintf(w, "%s\t%s\t%s\t%t\t%s\t%s\n", line(t.ID, 60), t.Activity, t.Risk, t.Repeatable, state, line(t.Description, 60))
}
