package client

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	commonpb "go.temporal.io/api/common/v1"
	"go.temporal.io/api/serviceerror"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/temporal"

	"github.com/everturn/everturn/internal/temporalconn"
	"github.com/everturn/everturn/journal"
	"github.com/everturn/everturn/workflows"
	"github.com/everturn/everturn/workflows/turn"
)

// listLimit is how many schedules List returns.
const listLimit = 100

// memoKey is the key of a Schedule in the memo that Temporal keeps with the schedule. A schedule without it is not one
// of Everturn's. The memo has the fields that do not change, from Name to TaskQueue.
const memoKey = "everturn"

// Schedule is a schedule with its next and its latest runs.
type Schedule struct {
	Name      string        `json:"name"`
	When      string        `json:"when"`              // ScheduleInput.Description
	Prompt    string        `json:"prompt"`            // the beginning of the text
	Session   string        `json:"session,omitempty"` // empty: each run has its own
	Agent     string        `json:"agent,omitempty"`
	TaskQueue string        `json:"task_queue"`
	Paused    bool          `json:"paused,omitempty"`
	Note      string        `json:"note,omitempty"`    // why it is paused
	Next      []time.Time   `json:"next,omitempty"`    // empty: paused, or never
	Skipped   int           `json:"skipped,omitempty"` // runs left out because the one before had not ended
	Missed    int           `json:"missed,omitempty"`  // runs left out because Temporal was down for longer than CatchUp
	Last      []ScheduleRun `json:"last,omitempty"`    // the latest last; only from Get, List and Create
	// Active means that a run has not ended.
	Active bool `json:"-"`
}

// ScheduleRun is one run of a schedule.
type ScheduleRun struct {
	At      time.Time         `json:"at"`
	Session string            `json:"session"`
	Turn    string            `json:"turn,omitempty"` // empty if the journal has none yet
	State   turn.State        `json:"state,omitempty"`
	Reason  turn.FinishReason `json:"finish_reason,omitempty"`
	// WorkflowID and RunID name the workflow run, which shows how it ended.
	WorkflowID string `json:"-"`
	RunID      string `json:"-"`
}

// Schedules manages the schedules of a client's tenant; List returns only those of the client's task queue. Its methods
// return ErrUnreachable, and ErrNotFound or ErrForeign if they name no schedule of Everturn. Those that change a
// schedule return it as it was before, without its runs, and do not need the journal.
type Schedules struct{ c *Client }

// Schedules returns the client's schedules.
func (c *Client) Schedules() Schedules { return Schedules{c} }

// List returns at most 100 schedules, sorted by name. Temporal's list lags slightly, so it may lack a new schedule.
func (s Schedules) List(ctx context.Context) ([]Schedule, error) {
	if s.c.temporal == nil {
		return nil, ErrUnreachable
	}
	iter, err := s.c.temporal.ScheduleClient().List(ctx, client.ScheduleListOptions{PageSize: listLimit})
	if err != nil {
		return nil, fmt.Errorf("listing the schedules: %w", asClientError(err))
	}
	list := []Schedule{}
	for iter.HasNext() && len(list) < listLimit {
		entry, err := iter.Next()
		if err != nil {
			return nil, fmt.Errorf("listing the schedules: %w", asClientError(err))
		}
		name, ofTenant := workflows.SessionOf(s.c.options.Tenant, entry.ID)
		known, ofEverturn := s.c.scheduleOf(entry.Memo)
		if !ofTenant || !ofEverturn || known.TaskQueue != s.c.options.TaskQueue {
			continue
		}
		schedule, err := s.Get(ctx, name)
		switch {
		case err == nil:
			list = append(list, schedule)
		case !errors.Is(err, ErrNotFound): // otherwise it has been deleted meanwhile
			return nil, err
		}
	}
	slices.SortFunc(list, func(x, y Schedule) int { return cmp.Compare(x.Name, y.Name) })
	return list, nil
}

// Get returns one schedule with its runs.
func (s Schedules) Get(ctx context.Context, name string) (Schedule, error) {
	schedule, runs, err := s.describe(ctx, name)
	if err != nil {
		return schedule, err
	}
	for _, r := range runs {
		run, err := s.run(ctx, schedule.Session, r)
		if err != nil {
			return schedule, err
		}
		schedule.Last = append(schedule.Last, run)
	}
	return schedule, nil
}

// describe returns a schedule and its recent runs, as Temporal has them. Schedule.Last is empty, because that takes the
// journal too.
func (s Schedules) describe(ctx context.Context, name string) (Schedule, []client.ScheduleActionResult, error) {
	if s.c.temporal == nil {
		return Schedule{}, nil, ErrUnreachable
	}
	d, err := s.c.schedule(ctx, name).Describe(ctx)
	if err != nil {
		return Schedule{}, nil, scheduleError(name, err)
	}
	schedule, ofEverturn := s.c.scheduleOf(d.Memo)
	if !ofEverturn {
		return Schedule{}, nil, fmt.Errorf("schedule %q: %w", name, ErrForeign)
	}
	schedule.Name, schedule.Next, schedule.Last = name, nil, nil // whatever the memo says
	schedule.Paused, schedule.Note = d.Schedule.State.Paused, d.Schedule.State.Note
	schedule.Skipped, schedule.Missed = d.Info.NumActionsSkippedOverlap, d.Info.NumActionsMissedCatchupWindow
	schedule.Active = len(d.Info.RunningWorkflows) > 0
	if !schedule.Paused {
		schedule.Next = d.Info.NextActionTimes
	}
	runs := slices.DeleteFunc(d.Info.RecentActions, func(a client.ScheduleActionResult) bool {
		return a.StartWorkflowResult == nil // it started no workflow
	})
	return schedule, runs, nil
}

// run returns one run of a schedule, with the turn that has taken its message if the journal has that turn. session is
// the session of the schedule, empty if each run has its own.
func (s Schedules) run(ctx context.Context, session string, action client.ScheduleActionResult) (ScheduleRun, error) {
	workflowID, runID := action.StartWorkflowResult.WorkflowID, action.StartWorkflowResult.FirstExecutionRunID
	run := ScheduleRun{At: action.ActualTime, Session: session, WorkflowID: workflowID, RunID: runID}
	if session == "" {
		run.Session, _ = workflows.SessionOf(s.c.options.Tenant, workflowID)
	}
	if s.c.journal == nil {
		return run, nil
	}
	var rec journal.TurnRecord
	var err error
	if session != "" { // the workflow is a delivery, from which the message has its ID
		rec, err = s.c.journal.Delivered(ctx, session, workflows.DeliveryID(workflowID, runID))
	} else { // the workflow is the turn
		rec, err = s.c.journal.Turn(ctx, runID)
	}
	switch {
	case errors.Is(err, ErrNotFound):
		return run, nil
	case err == nil:
		run.Turn, run.State, run.Reason = rec.ID, rec.State, rec.Reason
		run.WorkflowID, run.RunID = s.c.WorkflowID(rec.Session), rec.ID // those of the turn, not of its delivery
	}
	return run, err
}

// Delete deletes a schedule. Its sessions remain, and a run that has not ended continues.
func (s Schedules) Delete(ctx context.Context, name string) (Schedule, error) {
	return s.do(ctx, name, client.ScheduleHandle.Delete)
}

// Pause pauses a schedule until Resume.
func (s Schedules) Pause(ctx context.Context, name, note string) (Schedule, error) {
	return s.do(ctx, name, func(h client.ScheduleHandle, ctx context.Context) error {
		return h.Pause(ctx, client.SchedulePauseOptions{Note: note})
	})
}

// Resume resumes a paused schedule.
func (s Schedules) Resume(ctx context.Context, name, note string) (Schedule, error) {
	return s.do(ctx, name, func(h client.ScheduleHandle, ctx context.Context) error {
		return h.Unpause(ctx, client.ScheduleUnpauseOptions{Note: note})
	})
}

// Trigger runs a schedule now, in addition to its times. If Schedule.Active is set, the run is skipped. Each call is a
// run of its own: after an error, look at Schedule.Last before you trigger the schedule again.
func (s Schedules) Trigger(ctx context.Context, name string) (Schedule, error) {
	return s.do(ctx, name, func(h client.ScheduleHandle, ctx context.Context) error {
		return h.Trigger(ctx, client.ScheduleTriggerOptions{})
	})
}

// do applies an operation to a schedule and returns the schedule as it was before. It refuses a schedule that is not
// Everturn's.
func (s Schedules) do(
	ctx context.Context, name string, do func(client.ScheduleHandle, context.Context) error,
) (Schedule, error) {
	before, _, err := s.describe(ctx, name)
	if err != nil {
		return before, err
	}
	return before, scheduleError(name, do(s.c.schedule(ctx, name), ctx))
}

func (c *Client) schedule(ctx context.Context, name string) client.ScheduleHandle {
	return c.temporal.ScheduleClient().GetHandle(ctx, c.WorkflowID(name))
}

// scheduleError converts an error of Temporal about the schedule name to an error of this package.
func scheduleError(name string, err error) error {
	var invalid *serviceerror.InvalidArgument
	var unknown *serviceerror.NotFound
	switch {
	case err == nil:
		return nil
	case errors.Is(err, temporal.ErrScheduleAlreadyRunning):
		return fmt.Errorf("schedule %q: %w", name, ErrExists)
	case errors.As(err, &unknown):
		return fmt.Errorf("schedule %q: %w", name, ErrNotFound)
	case errors.As(err, &invalid):
		return temporalconn.WithKind(ErrInvalid, errors.New("Temporal rejects the schedule: "+invalid.Message))
	}
	return fmt.Errorf("schedule %q: %w", name, asClientError(err))
}

// scheduleOf decodes the memo of a schedule. It returns false if the schedule is not one of Everturn's.
func (c *Client) scheduleOf(memo *commonpb.Memo) (s Schedule, ofEverturn bool) {
	payload := memo.GetFields()[memoKey]
	return s, payload != nil && c.options.DataConverter.FromPayload(payload, &s) == nil
}
