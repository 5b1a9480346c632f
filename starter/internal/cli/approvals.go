package cli

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/everturn/everturn/journal"
)

func (a *app) approvalsCommand() *cobra.Command {
	var output string
	var limit int
	cmd := &cobra.Command{
		Use:   "approvals [session]",
		Short: "List the pending requests: approvals, questions and elicitations",
		Long: `List the pending requests of all sessions, or of one: the approvals of tool calls with their exact
arguments, the questions of models, and the elicitations of MCP servers. Each comes with the
commands that decide it.`,
		Example: `  starter approvals
  starter approvals s-k2j3 -o json`,
		Args:              cobra.MaximumNArgs(1),
		ValidArgsFunction: a.completeSessions(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.withJournal(cmd.Context(), func(store *journal.DB) error {
				return a.listRequests(cmd.Context(), store, args, limit, output)
			})
		},
	}
	outputFlag(cmd, &output, outputText, outputJSON, outputJSONL)
	cmd.Flags().IntVarP(&limit, "limit", "n", 50, "the maximum number of requests to list")
	return cmd
}

// listRequests prints the pending requests of all sessions, or of one.
func (a *app) listRequests(ctx context.Context, store *journal.DB, args []string, limit int, output string) error {
	session := ""
	if len(args) > 0 {
		var err error
		if session, err = sessionArg(ctx, store, args); err != nil {
			return err
		}
	}
	requests, err := store.PendingRequests(ctx, session, limit)
	if err != nil {
		return err
	}
	if len(requests) == limit {
		defer a.note("there may be more: list them with --limit %d", 10*limit)
	}
	return printList(a.out, output, requests, func() error {
		if len(requests) == 0 {
			a.note("no requests are pending")
			return nil
		}
		l := layoutOf(a.out)
		if l.quarantined, err = quarantinedTools(ctx, store); err != nil {
			return err
		}
		fmt.Fprintln(a.out, a.withTypedCommands(printable(l.withCommands(requests))))
		return nil
	})
}
