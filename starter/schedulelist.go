package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"go.temporal.io/api/serviceerror"
	"go.temporal.io/sdk/client"

	"github.com/everturn/everturn/journal"
	"github.com/everturn/everturn/workflows"
	"github.com/everturn/everturn/workflows/turn"
)

// How many schedules are listed at most, and how many of the next and of the latest times are shown of each.
const (
	schedulesListed = 100
	timesListed     = 3
)

// scheduleRecord is a schedule as it is listed.
type scheduleRecord struct {
	Version int    `json:"v"`
	Name    string `json:"name"`
	plan
	Paused  bool        `json:"paused,omitempty"`
	Note    string      `json:"note,omitempty"`
	Next    []time.Time `json:"next,omitempty"`
	Skipped int         `json:"skipped,omitempty"` // times that were left out, since the one before was not over
	Missed  int         `json:"missed,omitempty"`  // times while Temporal was away that were not made up for
	Last    []timeTaken `json:"last,omitempty"`    // the latest last
}

// timeTaken is one time at which a schedule came due, and what came of it.
type timeTaken struct {
	At      time.Time         `json:"at"`
	Session string            `json:"session"`
	Turn    string            `json:"turn,omitempty"` // empty where the journal has none yet
	State   turn.State        `json:"state,omitempty"`
	Reason  turn.FinishReason `json:"finish_reason,omitempty"`
	Link    string            `json:"link"`
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

// schedules reads the schedules of this agent's task queue, by name. The list comes from an index that is a moment late.
func (t *turnClient) schedules(ctx context.Context) ([]scheduleRecord, error) {
	iter, err := t.client.ScheduleClient().List(ctx, client.ScheduleListOptions{PageSize: schedulesListed})
	if err != nil {
		return nil, fmt.Errorf("listing the schedules: %w", err)
	}
	records := []scheduleRecord{}
	for iter.HasNext() && len(records) < schedulesListed {
		entry, err := iter.Next()
		if err != nil {
			return nil, fmt.Errorf("listing the schedules: %w", err)
		}
		name, own := workflows.SessionOf(t.cfg.Tenant, entry.ID)
		if p, ours := planOf(entry.Memo); !own || !ours || p.TaskQueue != t.cfg.Temporal.TaskQueue {
			continue
		}
		r, err := t.scheduleRecord(ctx, name)
		var gone *serviceerror.NotFound
		switch {
		case err == nil:
			records = append(records, r)
		case !errors.As(err, &gone): // otherwise it was deleted meanwhile
			return nil, err
		}
	}
	slices.SortFunc(records, func(x, y scheduleRecord) int { return strings.Compare(x.Name, y.Name) })
	return records, nil
}

// scheduleRecord describes one schedule.
func (t *turnClient) scheduleRecord(ctx context.Context, name string) (scheduleRecord, error) {
	d, p, err := t.described(ctx, name)
	if err != nil {
		return scheduleRecord{}, err
	}
	r := scheduleRecord{
		Version: workflows.WireVersion, Name: name, plan: p, Paused: d.Schedule.State.Paused, Note: d.Schedule.State.Note,
		Skipped: d.Info.NumActionsSkippedOverlap, Missed: d.Info.NumActionsMissedCatchupWindow,
	}
	if !r.Paused {
		r.Next = d.Info.NextActionTimes
	}
	for _, action := range d.Info.RecentActions {
		if action.StartWorkflowResult == nil {
			continue
		}
		taken, err := t.taken(ctx, p, action)
		if err != nil {
			return r, err
		}
		r.Last = append(r.Last, taken)
	}
	return r, nil
}

// taken says what came of one time: what the journal has of the turn that took its message.
func (t *turnClient) taken(ctx context.Context, p plan, action client.ScheduleActionResult) (timeTaken, error) {
	run := *action.StartWorkflowResult
	taken := timeTaken{At: action.ActualTime, Session: p.Session}
	var rec journal.TurnRecord
	var err error
	if p.Session != "" {
		rec, err = t.store.Delivered(ctx, p.Session, workflows.DeliveryID(run.WorkflowID, run.FirstExecutionRunID))
	} else {
		taken.Session, _ = workflows.SessionOf(t.cfg.Tenant, run.WorkflowID)
		rec, err = t.store.Turn(ctx, run.FirstExecutionRunID)
	}
	if errors.Is(err, journal.ErrNotFound) {
		taken.Link = t.runLink(run.WorkflowID, run.FirstExecutionRunID)
		return taken, nil
	}
	taken.Turn, taken.State, taken.Reason = rec.ID, rec.State, rec.Reason
	taken.Link = t.link(started{Session: rec.Session, Turn: rec.ID})
	return taken, err
}

// scheduleHandle is that of the tenant's schedule of this name: schedules are kept apart as sessions are.
func (t *turnClient) scheduleHandle(ctx context.Context, name string) client.ScheduleHandle {
	return t.client.ScheduleClient().GetHandle(ctx, t.workflowID(name))
}

// described is a schedule of ours with its plan.
func (t *turnClient) described(ctx context.Context, name string) (*client.ScheduleDescription, plan, error) {
	d, err := t.scheduleHandle(ctx, name).Describe(ctx)
	if err != nil {
		return nil, plan{}, err
	}
	p, ours := planOf(d.Memo)
	if !ours {
		return nil, plan{}, usage("schedule %q is none of Everturn's: use the temporal command line for it", name)
	}
	return d, p, nil
}

// showSchedule prints a schedule as a block of lines.
func (a *app) showSchedule(r scheduleRecord) {
	session := "a session each"
	if r.Session != "" {
		session = "session " + line(r.Session, 60)
	}
	fmt.Fprintf(a.out, "%s · %s · %s\n  ask   %s\n", line(r.Name, maxScheduleName), line(r.When, 100), session, line(r.Prompt, 80))
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

// cameOf is what came of one time, in words.
func cameOf(taken timeTaken) string {
	switch {
	case taken.Turn == "":
		return "nothing in the journal yet"
	case taken.State.Terminal():
		return string(taken.Reason)
	}
	return string(taken.State)
}
