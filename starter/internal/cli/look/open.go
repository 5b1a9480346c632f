package look

import (
	"fmt"
	"io"

	"github.com/cli/browser"
	"github.com/spf13/cobra"

	"github.com/everturn/everturn/starter/internal/cli/app"
	"github.com/everturn/everturn/workflows/turn"
)

func Open(a *app.App) *cobra.Command {
	var inBrowser bool
	cmd := &cobra.Command{
		Use:               "open [session]",
		Short:             "Print the Web UI's link to a session's last turn",
		Args:              cobra.MaximumNArgs(1),
		ValidArgsFunction: a.CompleteSessions(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) > 0 && turn.CheckSession(args[0]) != nil {
				return app.Usage("%w", turn.CheckSession(args[0]))
			}
			return a.OnSession(cmd.Context(), args, app.Needs{}, (*app.TurnClient).Latest,
				func(t *app.TurnClient, session string) error {
					s, err := t.Find(cmd.Context(), session, "")
					if err != nil {
						return err
					}
					fmt.Fprintln(a.Out, s.Link)
					if inBrowser && app.IsTerminal(a.Out) {
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
		return app.Usage("opening a browser: %w; open the link yourself", err)
	}
	return nil
}
