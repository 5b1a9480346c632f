package cli

import (
	"github.com/spf13/cobra"
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
