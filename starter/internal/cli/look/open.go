package look

import (
	"fmt"
	"io"

	"github.com/cli/browser"
	"github.com/spf13/cobra"

	"github.com/everturn/everturn/starter/internal/cli/app"
	"github.com/everturn/everturn/workflows/turn"
)

// Open returns the command that opens a turn in the Web UI.
func Open(a *app.App) *cobra.Command {
	var printOnly bool
	cmd := &cobra.Command{
		Use:               "open [session]",
		Short:             "Open a session's last turn in the Web UI",
		Long:              `Print the Web UI's link to a session's last turn. On a terminal, also open it in a browser.`,
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
					if t.Cfg.Encryption.On() {
						a.Note("the page shows encrypted content unless its Web UI reaches a codec server: see docs/encryption.md")
					}
					if !printOnly && app.IsTerminal(a.Out) {
						browser.Stdout = io.Discard // this command prints only the link
						if err := browser.OpenURL(s.Link); err != nil {
							a.Note("no browser opens: %v; open the link yourself", err)
						}
					}
					return nil
				})
		},
	}
	cmd.Flags().BoolVar(&printOnly, "print", false, "only print the link")
	return cmd
}
