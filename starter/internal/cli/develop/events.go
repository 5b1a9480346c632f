package develop

import (
	"github.com/spf13/cobra"

	"github.com/everturn/everturn/docs"
	"github.com/everturn/everturn/starter/internal/cli/app"
)

// Events returns the command that prints the schema of the events.
func Events(a *app.App) *cobra.Command {
	return app.Parent("events", "Describe the events of -o jsonl", &cobra.Command{
		Use:   "schema",
		Short: "Print the JSON schema of a line of -o jsonl",
		Args:  cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			_, err := a.Out.Write(docs.EventsSchema)
			return err
		},
	})
}
