package cli

import (
	"fmt"
	"io"

	"github.com/cli/browser"
	"github.com/everturn/everturn/workflows/turn"
	"github.com/spf13/cobra"
)

func (a *app) openCommand() *cobra.Command {
	var inBrowser bool
	cmd := &cobra.Command{
		Use:               "open [session]",
		Short:             "Print the Web UI's link to a session's last turn",
		Args:              cobra.MaximumNArgs(1),
		ValidArgsFunction: a.completeSessions(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) > 0 && turn.CheckSession(args[0]) != nil {
				return usage("%w", turn.CheckSession(args[0]))
			}
			return a.onSession(cmd.Context(), args, needs{}, (*turnClient).latest, func(t *turnClient, session string) error {
				s, err := t.find(cmd.Context(), session, "")
				if err != nil {
					return err
				}
				fmt.Fprintln(a.out, s.Link)
				if inBrowser && isTerminal(a.out) {
					return browse(s.Link)
				}
				return nil
			})
		},
	}
	cmd.Flags().BoolVar(&inBrowser, "browser", false, "also open the link in a browser, if standard output is a terminal")
	return cmd
}

// browse opens a link in the user's browser.
func browse(link string) error {
	browser.Stdout = io.Discard // this command prints only the link
	if err := browser.OpenURL(link); err != nil {
		return usage("opening a browser: %w; open the link yourself", err)
	}
	return nil
}
