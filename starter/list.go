package main

import (
	"fmt"
	"strconv"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"
)

func (a *app) listCommand() *cobra.Command {
	var limit int
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "list",
		Short: "List the sessions that the journal holds, the latest first",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			store, err := a.lookAt(cmd)
			if err != nil {
				return err
			}
			defer store.Close()
			sessions, err := store.Sessions(cmd.Context(), limit)
			if err != nil {
				return err
			}
			if asJSON {
				return writeJSON(a.out, sessions)
			}
			w := tabwriter.NewWriter(a.out, 0, 0, 2, ' ', 0)
			fmt.Fprintln(w, "SESSION\tTURNS\tSTATE\tWAITS\tLAST\tFIRST MESSAGE")
			for _, s := range sessions {
				fmt.Fprintf(w, "%s\t%d\t%s\t%s\t%s\t%s\n", line(s.ID, 60), s.Turns, s.LastTurn.State, openCount(s.Waiting), s.UpdatedAt.Local().Format(time.DateTime), line(s.FirstText, 60))
			}
			if limit > 0 && len(sessions) == limit {
				defer a.aside("these are the latest %d; -n lists more", limit)
			}
			return w.Flush()
		},
	}
	cmd.Flags().IntVarP(&limit, "limit", "n", 20, "sessions to list")
	cmd.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	return cmd
}

// openCount counts what waits for a person.
func openCount(n int) string {
	if n == 0 {
		return "-"
	}
	return strconv.Itoa(n)
}
