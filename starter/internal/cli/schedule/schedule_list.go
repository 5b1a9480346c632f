package schedule

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/everturn/everturn/client"
	"github.com/everturn/everturn/starter/internal/cli/app"
	"github.com/everturn/everturn/workflows"
)

// timesListed is the number of next times, and of last times, that the list shows for each schedule.
const timesListed = 3

// scheduleRecord is a schedule in the list. Its Last hides that of client.Schedule, because it adds the links.
type scheduleRecord struct {
	Version int `json:"v"`
	client.Schedule
	Last []scheduleRun `json:"last,omitempty"` // oldest first
}

// scheduleRun is one run of a schedule, with the link to its turn.
type scheduleRun struct {
	client.ScheduleRun
	Link string `json:"link"`
}

// scheduleList returns the command that lists the schedules.
func scheduleList(a *app.App) *cobra.Command {
	var output string
	cmd := &cobra.Command{
		Use:   "list",
		Short: "List the schedules with their next times and last results",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return a.WithClient(cmd.Context(), app.Needs{}, func(t *app.TurnClient) error {
				records, err := schedules(cmd.Context(), t)
				if err != nil {
					return err
				}
				return app.PrintList(a.Out, output, records, func() error {
					for _, r := range records {
						showSchedule(a, r)
					}
					if len(records) == 0 {
						a.Note("there are no schedules; create one with `everturn schedule create`")
					}
					return nil
				})
			})
		},
	}
	app.OutputFlag(cmd, &output, app.OutputText, app.OutputJSON, app.OutputJSONL)
	return cmd
}

// schedules returns the schedules of the configured task queue, sorted by name.
func schedules(ctx context.Context, t *app.TurnClient) ([]scheduleRecord, error) {
	list, err := t.Client.Schedules().List(ctx)
	records := []scheduleRecord{}
	for _, s := range list {
		r := scheduleRecord{Version: workflows.WireVersion, Schedule: s}
		for _, run := range s.Last {
			r.Last = append(r.Last, scheduleRun{run, t.RunLink(run.WorkflowID, run.RunID)})
		}
		records = append(records, r)
	}
	return records, err
}

// showSchedule prints a schedule as a block of lines.
func showSchedule(a *app.App, r scheduleRecord) {
	session := "new sessions"
	if r.Session != "" {
		session = "session " + app.Line(r.Session, 60)
	}
	fmt.Fprintf(a.Out, "%s · %s · %s\n  ask   %s\n", app.Line(r.Name, client.MaxScheduleName), app.Line(r.When, 100),
		session,
		app.Line(r.Prompt, 80))
	switch {
	case r.Paused:
		fmt.Fprintf(a.Out, "  next  paused%s\n", separated(r.Note))
	case len(r.Next) == 0:
		fmt.Fprintln(a.Out, "  next  never")
	}
	for _, at := range r.Next[:min(len(r.Next), timesListed)] {
		fmt.Fprintf(a.Out, "  next  %s\n", clockTime(at))
	}
	for _, run := range r.Last[max(len(r.Last)-timesListed, 0):] {
		fmt.Fprintf(a.Out, "  last  %s · %s · %s\n        %s\n", clockTime(run.At), runState(run),
			app.Line(run.Session, 120),
			app.Line(run.Link, 400))
	}
	if r.Skipped > 0 || r.Missed > 0 {
		fmt.Fprintf(a.Out, "  skipped %d times because the last run had not ended, missed %d while Temporal was down\n",
			r.Skipped, r.Missed)
	}
}

// separated returns a note with a separator before it, or "" for no note.
func separated(note string) string {
	if note == "" {
		return ""
	}
	return " · " + app.Line(note, 100)
}

// runState returns the state of a run's turn, or its finish reason if the turn has ended.
func runState(run scheduleRun) string {
	switch {
	case run.Turn == "":
		return "not in the journal yet"
	case run.State.Terminal():
		return string(run.Reason)
	}
	return string(run.State)
}
