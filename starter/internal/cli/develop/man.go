package develop

import (
	"os"
	"strconv"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/cobra/doc"

	"github.com/everturn/everturn/starter/internal/cli/app"
)

// Man returns the command that writes the manual pages. The help does not list it, because only packagers need it.
func Man(a *app.App) *cobra.Command {
	return &cobra.Command{
		Use:    "man <folder>",
		Short:  "Write the manual pages into a folder",
		Hidden: true,
		Args:   cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := os.MkdirAll(args[0], 0o755); err != nil {
				return app.Usage("creating the folder for the manual pages: %w", err)
			}
			root := cmd.Root()
			root.DisableAutoGenTag = true
			header := &doc.GenManHeader{Title: "EVERTURN", Section: "1", Source: "Everturn", Manual: "Everturn",
				Date: manDate(a)}
			if err := doc.GenManTree(root, header, args[0]); err != nil {
				return app.Usage("writing the manual pages: %w", err)
			}
			return nil
		},
	}
}

// manDate returns the date of the manual pages: SOURCE_DATE_EPOCH if it is set (reproducible-builds.org), otherwise the
// current time.
func manDate(a *app.App) *time.Time {
	at := time.Now()
	if seconds, err := strconv.ParseInt(a.Lookup("SOURCE_DATE_EPOCH"), 10, 64); err == nil {
		at = time.Unix(seconds, 0).UTC()
	}
	return &at
}
