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
		Short: "Create or update the journal's tables",
		Long: `Create the tables of the configured journal, or update those of an older version. If they are current,
the command changes nothing. With Postgres, run it before the first worker starts and before each
upgrade; workers never change its tables. A SQLite file is created and updated when a program opens it.`,
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
				fmt.Fprintln(a.Out, "created or updated the tables")
			} else {
				fmt.Fprintln(a.Out, "nothing to do: the tables are current")
			}
			return nil
		},
	}
}
