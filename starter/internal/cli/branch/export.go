package branch

import (
	"os"

	"github.com/spf13/cobra"

	"github.com/everturn/everturn/client"
	"github.com/everturn/everturn/starter/internal/cli/app"
)

// Export returns the command that exports a session.
func Export(a *app.App) *cobra.Command {
	var file string
	cmd := &cobra.Command{
		Use:   "export [session]",
		Short: "Write a session as JSON lines",
		Args:  cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.WithJournal(cmd.Context(), func(j client.Journal) error {
				session, err := app.SessionArg(cmd.Context(), j, args)
				if err != nil {
					return err
				}
				if file == "" {
					return j.Export(cmd.Context(), session, a.Out)
				}
				f, err := os.OpenFile(file, os.O_CREATE|os.O_WRONLY|os.O_EXCL, 0o600)
				if err != nil {
					return app.Usage("opening the file to export to: %w", err)
				}
				defer f.Close()
				if err := j.Export(cmd.Context(), session, f); err != nil {
					return err
				}
				return f.Close() // its error may mean that the file is incomplete
			})
		},
	}
	cmd.Flags().StringVarP(&file, "file", "f", "", "write to this new `file` instead of standard output")
	return cmd
}
