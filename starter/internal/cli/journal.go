package cli

import (
	"github.com/spf13/cobra"
)

func (a *app) journalCommand() *cobra.Command {
	return parent("journal", "Create the journal's tables, or copy a journal", a.journalMigrateCommand(),
		a.journalCopyCommand())
}
