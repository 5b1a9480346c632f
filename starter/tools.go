package main

import (
	"fmt"
	"slices"
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
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			loaded, err := a.load()
			if err != nil {
				return err
			}
			catalogues, err := engine.Catalogues(cmd.Context(), loaded.Config, engine.WithEnviron(a.environ))
			if err != nil {
				return err
			}
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
	cmd.AddCommand(a.toolsStatusCommand(), a.toolsDiffCommand(), a.toolsAcceptCommand())
	return cmd
}

// printTools lists the tools, and on stderr the servers that are away and what was left out.
func (a *app) printTools(catalogues []turn.Catalogue) error {
	w := tabwriter.NewWriter(a.out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "TOOL\tLANE\tRISK\tREPEATABLE\tDESCRIPTION")
	for _, c := range catalogues {
		for _, t := range c.Tools {
			fmt.Fprintf(w, "%s\t%s\t%s\t%t\t%s\n", line(t.ID, 60), t.Lane, t.Risk, t.Repeatable, line(t.Description, 60))
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
	}
	return nil
}
