package setup

import (
	"github.com/spf13/cobra"

	"github.com/everturn/everturn/starter/internal/cli/app"
)

// Journal returns the commands for the journal.
func Journal(a *app.App) *cobra.Command {
	return app.Parent("journal", "Create or update the journal's tables, or copy a journal", journalMigrate(a),
		journalCopy(a))
}
