package cli

import (
	"os"
	"strconv"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/cobra/doc"
)

// manCommand writes the manual pages. Help does not list the command, because only packagers need it.
func (a *app) manCommand() *cobra.Command {
	return &cobra.Command{
		Use:    "man <folder>",
		Short:  "Write the manual pages into a folder",
		Hidden: true,
		Args:   cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := os.MkdirAll(args[0], 0o755); err != nil {
				return usage("creating the folder for the manual pages: %w", err)
			}
			root := cmd.Root()
			root.DisableAutoGenTag = true
			header := &doc.GenManHeader{Title: "EVERTURN", Section: "1", Source: "Everturn", Manual: "Everturn", Date: a.built()}
			if err := doc.GenManTree(root, header, args[0]); err != nil {
				return usage("writing the manual pages: %w", err)
			}
			return nil
		},
	}
}

// built returns the date of the manual pages: SOURCE_DATE_EPOCH if it is set (reproducible-builds.org), otherwise the
// current time.
func (a *app) built() *time.Time {
	at := time.Now()
	if seconds, err := strconv.ParseInt(a.lookup("SOURCE_DATE_EPOCH"), 10, 64); err == nil {
		at = time.Unix(seconds, 0).UTC()
	}
	return &at
}
