package cli

import (
	"fmt"

	"github.com/spf13/cobra"

	"github.com/everturn/everturn/engine"
)

func (a *app) journalMigrateCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "migrate",
		Short: "Create the journal's tables",
		Long: `Create the tables of the configured journal, or do nothing if they exist. A Postgres database needs
this once, before the first worker starts; workers never change its tables. A SQLite file is also
created when it is first used.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			loaded, err := a.load()
			if err != nil {
				return err
			}
			changed, err := engine.MigrateJournal(cmd.Context(), loaded.Config)
			if err != nil {
				return journalError(cmd.Context(), err)
			}
			if changed {
				fmt.Fprintln(a.out, "created the tables")
			} else {
				fmt.Fprintln(a.out, "nothing to do: the tables exist")
			}
			return nil
		},
	}
}
