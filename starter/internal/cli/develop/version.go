package develop

import (
	"fmt"

	"github.com/spf13/cobra"

	"github.com/everturn/everturn/internal/version"
	"github.com/everturn/everturn/starter/internal/cli/app"
)

// Version returns the command that prints the program's version.
func Version(a *app.App) *cobra.Command {
	return &cobra.Command{
		Use:   "version",
		Short: "Print the version",
		Args:  cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			_, err := fmt.Fprintln(a.Out, "everturn "+version.String())
			return err
		},
	}
}
