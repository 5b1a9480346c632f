package decide

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/spf13/cobra"

	"github.com/everturn/everturn/client"
	"github.com/everturn/everturn/starter/internal/cli/app"
	"github.com/everturn/everturn/workflows/turn"
)

// Result returns the command that sends the result of a call that a client runs.
func Result(a *app.App) *cobra.Command {
	var in client.SettleInput
	cmd := &cobra.Command{
		Use:   "result <session> <call> <text>",
		Short: "Send the result of a call that a client runs",
		Long: `Send the result of a call of a client tool, for which its turn waits; everturn approvals lists
such calls. "-" as the text reads standard input. The first result counts. If the turn does not
wait any more, because it was stopped or the time is over, the model gets the result as a notice
in its next turn; name the turn with --turn then.`,
		Example: `  everturn result s-k2j3 2.0 "Ticket 4711 is open."
  everturn result s-k2j3 2.0 --failed "There is no such customer."
  everturn result s-k2j3 2.0 - < report.txt`,
		Args:              cobra.ExactArgs(3),
		ValidArgsFunction: completeCalls(a),
		RunE: func(cmd *cobra.Command, args []string) (err error) {
			in.Session, in.Call = args[0], args[1]
			if in.Text, err = a.TextOrInput(cmd.Context(), args[2]); err != nil {
				return err
			}
			return a.WithClient(cmd.Context(), app.Needs{Journal: true}, func(t *app.TurnClient) error {
				return settle(cmd.Context(), t, in)
			})
		},
	}
	cmd.Flags().StringVar(&in.Turn, "turn", "", "the `ID` of the call's turn, if it is not the session's last one")
	cmd.Flags().BoolVar(&in.Failed, "failed", false, "the call failed, and the text says why")
	return cmd
}

// settle sends the result of a call to its turn, or to the session's last turn if in names none.
func settle(ctx context.Context, t *app.TurnClient, in client.SettleInput) error {
	session, err := t.Journal.Session(ctx, in.Session)
	if err != nil {
		return err
	}
	if in.Turn == "" {
		in.Turn = session.LastTurn.ID
	}
	in.By = app.UserName()
	var settled client.Settled
	err = t.AwaitWorker(ctx, func() (err error) {
		settled, err = t.Client.SettleCall(ctx, in)
		return err
	})
	r := client.Request{Session: in.Session, ID: turn.ResultRequest(in.Call)}
	switch {
	case errors.Is(err, client.ErrNotFound):
		return app.Usage("%w; `everturn approvals %s` lists the calls that wait", err, app.Quoted(in.Session))
	case err != nil:
		return decideError(r, err)
	case settled.Late:
		t.App.Note("the turn does not wait for call %s any more; the model gets the result as a notice in the session's next "+
			"turn", in.Call)
	default:
		t.App.Note("sent the result of call %s of session %s; follow the turn with `everturn attach %s`", in.Call, in.Session,
			app.Quoted(in.Session))
	}
	return nil
}

// completeCalls returns a function for shell completion: it offers the sessions with calls that clients run for the
// first argument, and these calls for the second one.
func completeCalls(a *app.App) cobra.CompletionFunc {
	return a.Completion(func(ctx context.Context, j client.Journal, args []string) (offers []cobra.Completion) {
		session := ""
		if len(args) > 0 {
			session = args[0]
		}
		requests, _ := j.PendingRequests(ctx, session, app.MaxCompletions)
		for _, r := range requests {
			offer := r.Session
			if len(args) == 1 {
				offer = cobra.CompletionWithDesc(r.Call, fmt.Sprintf("%.40s", r.Tool))
			}
			if r.Kind == turn.RequestResult && len(args) < 2 && !slices.Contains(offers, offer) {
				offers = append(offers, offer)
			}
		}
		return offers
	})
}
