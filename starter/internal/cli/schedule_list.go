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
	Last []timeTaken `json:"last,omitempty"` // oldest first
}

// timeTaken is one time at which a schedule came due, with the link to its turn.
type timeTaken struct {
	client.ScheduleRun
	Link string `json:"link"`
}

func (a *app) scheduleListCommand() *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "list",
		Short: "List schedules with their next times and their last results",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return a.withTemporal(cmd.Context(), openJournal, func(t *turnClient) error {
				records, err := t.schedules(cmd.Context())
				if err != nil {
					return err
				}
				if asJSON {
					return writeJSON(a.out, records)
				}
				for _, r := range records {
					a.showSchedule(r)
				}
				if len(records) == 0 {
					a.note("there are no schedules; make one with `starter schedule create`")
				}
				return nil
			})
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	return cmd
}

// schedules reads the schedules of this agent's task queue, by name.
func (t *turnClient) schedules(ctx context.Context) ([]scheduleRecord, error) {
	list, err := t.client.Schedules().List(ctx)
	records := []scheduleRecord{}
	for _, s := range list {
		r := scheduleRecord{Version: workflows.WireVersion, Schedule: s}
		for _, run := range s.Last {
			r.Last = append(r.Last, timeTaken{run, t.runLink(run.WorkflowID, run.RunID)})
		}
		records = append(records, r)
	}
	return records, err
}

// showSchedule prints a schedule as a block of lines.
func (a *app) showSchedule(r scheduleRecord) {
	session := "a session each"
	if r.Session != "" {
		session = "session " + line(r.Session, 60)
	}
	fmt.Fprintf(a.out, "%s · %s · %s\n  ask   %s\n", line(r.Name, client.MaxScheduleName), line(r.When, 100), session, line(r.Prompt, 80))
	switch {
	case r.Paused:
		fmt.Fprintf(a.out, "  next  paused%s\n", dashed(r.Note))
	case len(r.Next) == 0:
		fmt.Fprintln(a.out, "  next  never")
	}
	for _, at := range r.Next[:min(len(r.Next), timesListed)] {
		fmt.Fprintf(a.out, "  next  %s\n", clockTime(at))
	}
	for _, taken := range r.Last[max(len(r.Last)-timesListed, 0):] {
		fmt.Fprintf(a.out, "  last  %s · %s · %s\n        %s\n", clockTime(taken.At), cameOf(taken), line(taken.Session, 120), line(taken.Link, 400))
	}
	if r.Skipped > 0 || r.Missed > 0 {
		fmt.Fprintf(a.out, "  left out %d times since the one before was not over, %d while Temporal was away\n", r.Skipped, r.Missed)
	}
}

func dashed(note string) string {
	if note == "" {
		return ""
	}
	return " · " + line(note, 100)
}

// cameOf describes the turn of one time that a schedule came due.
func cameOf(taken timeTaken) string {
	switch {
	case taken.Turn == "":
		return "nothing in the journal yet"
	case taken.State.Terminal():
		return string(taken.Reason)
	}
	return string(taken.State)
}
