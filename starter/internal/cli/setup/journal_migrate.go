package setup

import (
	"fmt"

	"github.com/spf13/cobra"

	"github.com/everturn/everturn/client"
	"github.com/everturn/everturn/starter/internal/cli/app"
)

// journalMigrate returns the command that creates the tables of the journal, or updates those of an older version.
func journalMigrate(a *app.App) *cobra.Command {
	return &cobra.Command{
		Use:   "migrate",
		Short: "Create the journal's tables",
		Long: `Create the tables of the configured journal, or do nothing if they exist. A Postgres database needs
this once, before the first worker starts; workers never change its tables. A SQLite file is also
created when it is first used.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			loaded, err := a.Load()
			if err != nil {
				return err
			}
			changed, err := client.MigrateJournal(cmd.Context(), loaded.Config)
			if err != nil {
				return app.JournalError(cmd.Context(), err)
			}
			if changed {
				fmt.Fprintln(a.Out, "created the tables")
			} else {
				fmt.Fprintln(a.Out, "nothing to do: the tables exist")
			}
			return nil
		},
	}
}
