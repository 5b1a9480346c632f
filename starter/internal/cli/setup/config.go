package setup

import (
	"fmt"

	"github.com/spf13/cobra"

	"github.com/everturn/everturn/config"
	"github.com/everturn/everturn/starter/internal/cli/app"
)

// Config returns the commands that show the configuration.
func Config(a *app.App) *cobra.Command {
	var origin bool
	show := &cobra.Command{
		Use:   "show",
		Short: "Print the effective configuration without secrets",
		Args:  cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			loaded, err := a.LoadToShow()
			if err != nil {
				return err
			}
			return loaded.Show(a.Out, origin)
		},
	}
	show.Flags().BoolVar(&origin, "origin", false, "show where each value comes from")
	schema := &cobra.Command{
		Use:   "schema",
		Short: "Print the JSON schema of agent.toml",
		Args:  cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			_, err := fmt.Fprintln(a.Out, string(config.Schema()))
			return err
		},
	}
	return app.Parent("config", "Show the configuration or its schema", show, schema)
}
