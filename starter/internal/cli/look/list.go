package look

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"strconv"
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
						rows = append(rows, []string{app.Line(s.ID, 60), strconv.Itoa(s.Turns), cmp.Or(s.Usage.DescribeCost(), "-"),
							state(cmd.Context(), j, s.LastTurn), openCount(s.PendingRequests), s.UpdatedAt.Local().Format(time.DateTime),
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

// state returns the state of a turn and, if its inference waits for a provider, the provider's name.
func state(ctx context.Context, j client.Journal, t client.TurnRecord) string {
	if t.State != turn.StateRunning {
		return ending(t)
	}
	last, err := j.LastEvent(ctx, t.ID)
	var w turn.WaitingEvent
	if err != nil || last.Kind != turn.EventInferenceWaiting || json.Unmarshal(last.Data, &w) != nil {
		return ending(t)
	}
	return fmt.Sprintf("%s (waiting for %s)", t.State, app.Line(w.Provider, 40))
}

// openCount formats the number of open requests.
func openCount(n int) string {
	if n == 0 {
		return "-"
	}
	return strconv.Itoa(n)
}
