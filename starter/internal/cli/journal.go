package cli

import (
	"fmt"

	"github.com/spf13/cobra"

	"github.com/everturn/everturn/engine"
)

func (a *app) journalCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "journal",
		Short: "Prepare the journal's database, or move the journal to another",
		Args:  onlySubcommands,
		RunE:  func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(a.journalMigrateCommand(), a.journalCopyCommand())
	return cmd
}

func (a *app) journalMigrateCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "migrate",
		Short: "Create the journal's tables",
		Long: `Create the tables of the journal that the configuration names, or do nothing if they are there. A Postgres database needs it
once, before the first worker starts; workers never change its tables. A SQLite file is also created when it is first used.`,
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
				fmt.Fprintln(a.out, "the tables are created")
			} else {
				fmt.Fprintln(a.out, "nothing to do: the tables are there")
			}
			return nil
		},
	}
}

func (a *app) journalCopyCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "copy <from> <to>",
		Short: "Copy a whole journal into an empty one",
		Long: `Copy all sessions of a journal into an empty one, with their grants, open requests and running turns. Each journal is the path of
a SQLite file or the connection string of a Postgres database, whose tables must be there: see migrate. Stop all workers
first, and point agent.toml to the copy before they start again.`,
		Example: `  starter journal copy .everturn/journal.db postgres://everturn@db.example/everturn`,
		Args:    cobra.ExactArgs(2),
		RunE: func(cmd *cobra.Command, args []string) error {
			sessions, err := engine.CopyJournal(cmd.Context(), args[0], args[1])
			if err != nil {
				return journalError(cmd.Context(), err)
			}
			fmt.Fprintf(a.out, "sessions copied: %d\n", sessions)
			return nil
		},
	}
}
