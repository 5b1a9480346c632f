package cli

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/everturn/everturn/client"
	"github.com/everturn/everturn/workflows"
)

// timesListed is how many of the next and of the latest times the list shows for each schedule.
const timesListed = 3

// scheduleRecord is a schedule as it is listed.
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

func (a *app) scheduleListCommand() *cobra.Command {
	var output string
	cmd := &cobra.Command{
		Use:   "list",
		Short: "List the schedules with their next times and last results",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return a.withClient(cmd.Context(), needs{}, func(t *turnClient) error {
				records, err := t.schedules(cmd.Context())
				if err != nil {
					return err
				}
				return printList(a.out, output, records, func() error {
					for _, r := range records {
						a.showSchedule(r)
					}
					if len(records) == 0 {
						a.note("there are no schedules; create one with `starter schedule create`")
					}
					return nil
				})
			})
		},
	}
	outputFlag(cmd, &output, outputText, outputJSON, outputJSONL)
	return cmd
}

// schedules reads the schedules of this agent's task queue, by name.
func (t *turnClient) schedules(ctx context.Context) ([]scheduleRecord, error) {
	list, err := t.client.Schedules().List(ctx)
	records := []scheduleRecord{}
	for _, s := range list {
		r := scheduleRecord{Version: workflows.WireVersion, Schedule: s}
		for _, run := range s.Last {
			r.Last = append(r.Last, scheduleRun{run, t.runLink(run.WorkflowID, run.RunID)})
		}
		records = append(records, r)
	}
	return records, err
}

// showSchedule prints a schedule as a block of lines.
func (a *app) showSchedule(r scheduleRecord) {
	session := "new sessions"
	if r.Session != "" {
		session = "session " + line(r.Session, 60)
	}
	fmt.Fprintf(a.out, "%s · %s · %s\n  ask   %s\n", line(r.Name, client.MaxScheduleName), line(r.When, 100), session,
		line(r.Prompt, 80))
	switch {
	case r.Paused:
		fmt.Fprintf(a.out, "  next  paused%s\n", dashed(r.Note))
	case len(r.Next) == 0:
		fmt.Fprintln(a.out, "  next  never")
	}
	for _, at := range r.Next[:min(len(r.Next), timesListed)] {
		fmt.Fprintf(a.out, "  next  %s\n", clockTime(at))
	}
	for _, run := range r.Last[max(len(r.Last)-timesListed, 0):] {
		fmt.Fprintf(a.out, "  last  %s · %s · %s\n        %s\n", clockTime(run.At), runState(run), line(run.Session, 120),
			line(run.Link, 400))
	}
	if r.Skipped > 0 || r.Missed > 0 {
		fmt.Fprintf(a.out, "  skipped %d times because the last run had not ended, missed %d while Temporal was down\n",
			r.Skipped, r.Missed)
	}
}

func dashed(note string) string {
	if note == "" {
		return ""
	}
	return " · " + line(note, 100)
}

// runState describes the turn of one run.
func runState(run scheduleRun) string {
	switch {
	case run.Turn == "":
		return "not in the journal yet"
	case run.State.Terminal():
		return string(run.Reason)
	}
	return string(run.State)
}
