package look

import (
	"cmp"
	"context"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/everturn/everturn/client"
	"github.com/everturn/everturn/starter/internal/cli/app"
	"github.com/everturn/everturn/workflows/turn"
)

// List returns the command that lists the sessions.
func List(a *app.App) *cobra.Command {
	var limit int
	var output string
	cmd := &cobra.Command{
		Use:   "list",
		Short: "List the journal's sessions, the latest first",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return a.WithJournal(cmd.Context(), func(j client.Journal) error {
				sessions, err := j.Sessions(cmd.Context(), limit)
				if err != nil {
					return err
				}
				for i := range sessions {
					if sessions[i].Usage, err = j.SessionUsage(cmd.Context(), sessions[i].ID); err != nil {
						return err
					}
				}
				if limit > 0 && len(sessions) == limit {
					defer a.Aside("these are the latest %d; list more with -n", limit)
				}
				return app.PrintList(a.Out, output, sessions, func() error {
					var rows [][]string
					for _, s := range sessions {
						state, err := liveState(cmd.Context(), j, s)
						if err != nil {
							return err
						}
						rows = append(rows, []string{app.Line(s.ID, 60), strconv.Itoa(s.Turns), cmp.Or(s.Usage.DescribeCost(), "-"),
							state, openCount(s.PendingRequests), s.UpdatedAt.Local().Format(time.DateTime),
							app.Line(s.FirstText, 60)})
					}
					return a.Table([]string{"SESSION", "TURNS", "COST", "STATE", "PENDING", "LAST", "FIRST MESSAGE"}, rows)
				})
			})
		},
	}
	cmd.Flags().IntVarP(&limit, "limit", "n", 20, "the maximum number of sessions to list")
	app.OutputFlag(cmd, &output, app.OutputText, app.OutputJSON, app.OutputJSONL)
	return cmd
}

// ending returns the state of a turn, with its finish reason if the turn completed without an answer.
func ending(t client.TurnRecord) string {
	if t.State == turn.StateCompleted && t.Reason != turn.FinishAnswered {
		return fmt.Sprintf("%s (%s)", t.State, app.Line(string(t.Reason), 40))
	}
	return string(t.State)
}

// liveState returns the state of a session's last turn; for a running one, what it does.
func liveState(ctx context.Context, j client.Journal, s client.Session) (string, error) {
	live, err := client.ReadLive(ctx, j, s)
	if err != nil {
		return "", err
	}
	switch live.State {
	case client.LiveInferring:
		return "inferring", nil
	case client.LiveCallingTools:
		return "calling " + app.Line(strings.Join(live.Calls, ", "), 40), nil
	case client.LiveWaitingForModel:
		if live.Wait != nil {
			return "waiting for " + app.Line(live.Wait.Provider, 40), nil
		}
		return "waiting for a limit", nil
	}
	return ending(s.LastTurn), nil
}

// openCount formats the number of open requests.
func openCount(n int) string {
	if n == 0 {
		return "-"
	}
	return strconv.Itoa(n)
}
