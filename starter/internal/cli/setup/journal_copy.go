package setup

import (
	"fmt"

	"github.com/spf13/cobra"

	"github.com/everturn/everturn/client"
	"github.com/everturn/everturn/starter/internal/cli/app"
)

// journalCopy returns the command that copies a journal.
func journalCopy(a *app.App) *cobra.Command {
	return &cobra.Command{
		Use:   "copy <from> <to>",
		Short: "Copy a whole journal into an empty one",
		Long: `Copy all sessions of a journal into an empty one, with their grants, pending requests and running
turns, and the bearer tokens of all tenants. Each journal is the path of a SQLite file or the
connection string of a Postgres database, whose tables must exist: see everturn journal migrate. Stop
all workers first, and point agent.toml to the copy before they start again.

The copy is encrypted if [encryption] journal is true, with the primary key, whether the original is
or not. So a copy is also the way to switch the journal's encryption on or off.`,
		Example: `  everturn journal copy .everturn/journal.db postgres://everturn@db.example/everturn`,
		Args:    cobra.ExactArgs(2),
		RunE: func(cmd *cobra.Command, args []string) error {
			loaded, err := a.Load()
			if err != nil {
				return err
			}
			sessions, err := client.CopyJournal(cmd.Context(), args[0], args[1], loaded.Config.Encryption)
			if err != nil {
				return app.JournalError(cmd.Context(), err)
			}
			fmt.Fprintf(a.Out, "sessions copied: %d\n", sessions)
			return nil
		},
	}
}
