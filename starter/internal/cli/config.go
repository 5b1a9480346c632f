package cli

import (
	"fmt"

	"github.com/spf13/cobra"

	"github.com/everturn/everturn/config"
)

func (a *app) configCommand() *cobra.Command {
	cmd := &cobra.Command{Use: "config", Short: "Show the configuration, or its schema", Args: onlySubcommands,
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() }}
	var origin bool
	show := &cobra.Command{
		Use:   "show",
		Short: "Print the configuration in force, secrets hidden",
		Args:  cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			loaded, err := a.load()
			if err != nil {
				return err
			}
			return loaded.Show(a.out, origin)
		},
	}
	show.Flags().BoolVar(&origin, "origin", false, "say of each value where it came from")
	schema := &cobra.Command{
		Use:   "schema",
		Short: "Print the JSON schema of agent.toml",
		Args:  cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			_, err := fmt.Fprintln(a.out, string(config.Schema()))
			return err
		},
	}
	cmd.AddCommand(show, schema)
	return cmd
}
