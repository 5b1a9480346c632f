package branch

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/everturn/everturn/starter/internal/cli/app"
	"github.com/everturn/everturn/workflows/turn"
)

// Fork returns the command that forks a session.
func Fork(a *app.App) *cobra.Command {
	var at int64
	var as, output string
	cmd := &cobra.Command{
		Use:   "fork <session> --at N",
		Short: "Create a session that shares another session's messages",
		Long: `Create a session that shares another session's messages up to number N (everturn show numbers them).
Nothing is copied, and the other session does not change. Without --at, it shares all messages.`,
		Args:              cobra.ExactArgs(1),
		ValidArgsFunction: a.CompleteSessions(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if cmd.Flags().Changed("at") && at < 1 {
				return app.Usage("--at is %d: the first message is number 1", at)
			}
			return branch(cmd.Context(), a, args, at, as, output)
		},
	}
	flags := cmd.Flags()
	flags.Int64Var(&at, "at", 0, "the `number` of the last shared message")
	flags.StringVar(&as, "as", "", "the `ID` of the new session")
	app.OutputFlag(cmd, &output, app.OutputText, app.OutputJSON)
	return cmd
}

// branch creates a session that shares messages 1..at of the session in args, or all messages if at is 0, and prints
// how to continue it. as is the new session's ID; if it is "", the client chooses one.
func branch(ctx context.Context, a *app.App, args []string, at int64, as, output string) error {
	if err := turn.CheckSession(as); as != "" && err != nil {
		return app.Usage("--as: %w", err)
	}
	loaded, err := a.Load()
	if err != nil {
		return err
	}
	j, err := app.ReadJournal(ctx, loaded.Config)
	if err != nil {
		return err
	}
	defer j.Close()
	session, err := app.SessionArg(ctx, j, args)
	if err != nil {
		return err
	}
	rec, err := a.NewTurnClient(nil, j, loaded.Config, nil).Fork(ctx, session, at, as)
	if err != nil {
		return err
	}
	if output == app.OutputJSON {
		return app.WriteJSON(a.Out, rec)
	}
	fmt.Fprintln(a.Out, app.Line(rec.ID, 250))
	a.Note("it shares messages 1 to %d of %s; continue it with\n  everturn run -s %s \"...\"", rec.ForkSeq, rec.Parent,
		app.Quoted(rec.ID))
	return nil
}
