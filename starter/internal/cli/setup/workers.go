package setup

import (
	"time"

	"github.com/spf13/cobra"

	"github.com/everturn/everturn/internal/temporalconn"
	"github.com/everturn/everturn/starter/internal/cli/app"
)

// Workers returns the command that lists workers.
func Workers(a *app.App) *cobra.Command {
	var output string
	cmd := &cobra.Command{
		Use:   "workers",
		Short: "List the workers that Temporal knows",
		Long: `List the workers of this task queue and of its roles, with a line for each queue that they poll. Temporal
(1.30 or newer) knows them by a heartbeat each minute: a new worker may be missing for a minute, and
one that was killed on another machine is listed for some minutes.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			loaded, err := a.Load()
			if err != nil {
				return err
			}
			list := []temporalconn.Worker{}
			err = onCluster(cmd.Context(), a, loaded.Config, func(c temporalconn.Conn, _, namespace string) error {
				found, err := temporalconn.Workers(cmd.Context(), c, namespace, loaded.Config.Temporal.TaskQueue)
				list = append(list, found...)
				return err
			})
			if err != nil {
				return err
			}
			return app.PrintList(a.Out, output, list, func() error {
				rows := make([][]string, len(list))
				for i, w := range list {
					rows[i] = []string{app.Line(w.Identity, 60), w.State, app.Line(w.TaskQueue, 60), app.Line(w.BuildID, 40),
						w.StartedAt.Local().Format(time.DateTime)}
				}
				return a.Table([]string{"WORKER", "STATE", "TASK QUEUE", "VERSION", "SINCE"}, rows)
			})
		},
	}
	app.OutputFlag(cmd, &output, app.OutputText, app.OutputJSON, app.OutputJSONL)
	return cmd
}
