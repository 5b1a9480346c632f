package cli

import (
	"fmt"

	"github.com/spf13/cobra"

	"github.com/everturn/everturn/config"
)

func (a *app) configCommand() *cobra.Command {
	var origin bool
	show := &cobra.Command{
		Use:   "show",
		Short: "Print the effective configuration without secrets",
		Args:  cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			loaded, err := a.load()
			if err != nil {
				return err
			}
			return loaded.Show(a.out, origin)
		},
	}
	show.Flags().BoolVar(&origin, "origin", false, "show where each value comes from")
	schema := &cobra.Command{
		Use:   "schema",
		Short: "Print the JSON schema of agent.toml",
		Args:  cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			_, err := fmt.Fprintln(a.out, string(config.Schema()))
			return err
		},
	}
	return parent("config", "Show the configuration or its schema", show, schema)
}
