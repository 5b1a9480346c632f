package decide

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/everturn/everturn/starter/internal/cli/app"
)

// Approvals returns the command that lists the pending requests.
func Approvals(a *app.App) *cobra.Command {
	var output string
	var limit int
	cmd := &cobra.Command{
		Use:   "approvals [session]",
		Short: "List the pending requests: approvals, questions, elicitations and results",
		Long: `List the pending requests of all sessions, or of one: the approvals of tool calls with their exact
arguments, the questions of models, the elicitations of MCP servers, and the calls that a client
must run. Each comes with the commands that decide it.`,
		Example: `  everturn approvals
  everturn approvals s-k2j3 -o json`,
		Args:              cobra.MaximumNArgs(1),
		ValidArgsFunction: a.CompleteSessions(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			return listRequests(cmd.Context(), a, args, limit, output)
		},
	}
	app.OutputFlag(cmd, &output, app.OutputText, app.OutputJSON, app.OutputJSONL)
	cmd.Flags().IntVarP(&limit, "limit", "n", 50, "the maximum number of requests to list")
	return cmd
}

// listRequests prints at most limit pending requests of the session in args, or of all sessions if args is empty.
func listRequests(ctx context.Context, a *app.App, args []string, limit int, output string) error {
	loaded, err := a.Load()
	if err != nil {
		return err
	}
	j, err := app.ReadJournal(ctx, loaded.Config)
	if err != nil {
		return err
	}
	defer j.Close()
	session := ""
	if len(args) > 0 {
		if session, err = app.SessionArg(ctx, j, args); err != nil {
			return err
		}
	}
	requests, err := j.PendingRequests(ctx, session, limit)
	if err != nil {
		return err
	}
	if len(requests) == limit {
		defer a.Note("there may be more: list them with --limit %d", 10*limit)
	}
	return app.PrintList(a.Out, output, requests, func() error {
		if len(requests) == 0 {
			a.Note("no requests are pending")
			return nil
		}
		l := LayoutOf(ctx, a, loaded.Config, a.Out)
		if l.quarantined, err = quarantinedTools(ctx, j); err != nil {
			return err
		}
		l.callers = callersOf(ctx, j, requests)
		fmt.Fprintln(a.Out, a.WithTypedCommands(app.Printable(l.WithCommands(requests))))
		return nil
	})
}
