package cli

import (
	"fmt"

	"github.com/spf13/cobra"

	"github.com/everturn/everturn/internal/version"
)

func (a *app) versionCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "version",
		Short: "Print the version",
		Args:  cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			_, err := fmt.Fprintln(a.out, "everturn "+version.String())
			return err
		},
	}
}
