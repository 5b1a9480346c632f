package client

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	commonpb "go.temporal.io/api/common/v1"
	enumspb "go.temporal.io/api/enums/v1"
	"go.temporal.io/api/serviceerror"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/converter"
	"go.temporal.io/sdk/temporal"

	"github.com/everturn/everturn/journal"
	"github.com/everturn/everturn/workflows"
	"github.com/everturn/everturn/workflows/turn"
)

// The bounds of a schedule.
const (
	// MaxScheduleName is the longest name, in bytes. Temporal appends a time to it for the ID of each run.
	MaxScheduleName = 100
	// MaxSchedulePrompt is the longest text, in bytes: it travels with every run.
	MaxSchedulePrompt = 256 << 10

	promptPreview = 200 // bytes of a text that a schedule's list shows
	listLimit     = 100 // schedules that are listed
)

// ScheduleInput describes a schedule, which sends a text to a session at each of its times.
type ScheduleInput struct {
	// Name is unique in the tenant: printable, at most MaxScheduleName bytes.
	Name string
	Text string // at most MaxSchedulePrompt bytes
	// Session gets all messages. Empty: each run has a session of its own, named after the schedule and the time.
	Session string
	// After asks for a turn of its own if a turn of Session is running. Otherwise the message is merged into that turn.
	After  bool
	Agent  string                   // empty: the worker's
	Limits *workflows.LimitsRequest // nil: the worker's

	// Every is the interval, in whole seconds. If it is 0, Cron has five fields or a name such as "@daily", in the time
	// zone Zone (empty: UTC).
	Every      time.Duration
	Cron, Zone string
	Jitter     time.Duration // delays each run by a random time up to this
	CatchUp    time.Duration // how far back to run missed times after an outage; at least 10 s
	Paused     bool
	// Description says when the schedule runs, for lists.
	Description string
}

// plan is stored in a schedule's memo. It distinguishes Everturn's schedules from others.
type plan struct {
	Version   int    `json:"v"`
	When      string `json:"when"`
	Prompt    string `json:"prompt"`
	Session   string `json:"session,omitempty"`
	Agent     string `json:"agent,omitempty"`
	TaskQueue string `json:"task_queue"`
}

// planKey is the memo's key of a plan.
const planKey = "everturn"

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
	Last      []ScheduleRun `json:"last,omitempty"`    // the latest last
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

// Schedules manages the schedules of a client's task queue and tenant. Its methods return ErrUnreachable, and
// ErrNotFound or ErrForeign if they name no schedule of Everturn. Those that change a schedule return it as it was
// before.
type Schedules struct{ c *Client }

// Schedules returns the client's schedules.
func (c *Client) Schedules() Schedules { return Schedules{c} }

// Create creates a schedule and returns it. If a run has not ended when the next one is due, the next one is skipped;
// a turn that waits for a decision has not ended.
//
// Errors: ErrExists, ErrInvalid (for instance a malformed cron expression).
func (s Schedules) Create(ctx context.Context, in ScheduleInput) (Schedule, error) {
	if err := in.check(); err != nil {
		return Schedule{}, &kindError{err, ErrInvalid}
	}
	if s.c.temporal == nil {
		return Schedule{}, ErrUnreachable
	}
	o := s.c.options
	p := plan{
		Version: workflows.WireVersion, When: in.Description, Prompt: turn.Truncate(in.Text, promptPreview),
		Session: in.Session, Agent: o.Agent, TaskQueue: o.TaskQueue,
	}
	_, err := s.c.temporal.ScheduleClient().Create(ctx, client.ScheduleOptions{
		ID: s.c.WorkflowID(in.Name), Spec: in.spec(), Action: s.action(in), Paused: in.Paused,
		Memo: map[string]any{planKey: p}, Overlap: enumspb.SCHEDULE_OVERLAP_POLICY_SKIP, CatchupWindow: in.CatchUp,
	})
	if err != nil {
		return Schedule{}, scheduleError(in.Name, err)
	}
	return s.Get(ctx, in.Name)
}

func (in ScheduleInput) check() error {
	if err := CheckScheduleName(in.Name); err != nil {
		return err
	}
	if len(in.Text) > MaxSchedulePrompt {
		return fmt.Errorf("the text is %d bytes; the maximum is %d", len(in.Text), MaxSchedulePrompt)
	}
	if in.Session == "" {
		return nil
	}
	return turn.CheckSession(in.Session)
}

// CheckScheduleName reports what is wrong with a schedule's name, nil if nothing is.
func CheckScheduleName(name string) error {
	if err := turn.CheckSession(name); err != nil {
		return err
	}
	if len(name) > MaxScheduleName {
		return fmt.Errorf("the name has %d bytes; %d are the most", len(name), MaxScheduleName)
	}
	return nil
}

func (in ScheduleInput) spec() client.ScheduleSpec {
	spec := client.ScheduleSpec{Jitter: in.Jitter, TimeZoneName: in.Zone}
	if in.Cron != "" {
		spec.CronExpressions = []string{in.Cron}
	} else {
		spec.Intervals = []client.ScheduleIntervalSpec{{Every: in.Every}}
	}
	return spec
}

// action returns the workflow of a run: a turn of its own, or a delivery to the shared session. A message without an ID
// gets one from its run.
func (s Schedules) action(in ScheduleInput) *client.ScheduleWorkflowAction {
	o := s.c.options
	agent := workflows.AttrAgent.ValueSet(o.Agent)
	message := workflows.Message{Text: in.Text}
	if in.Session == "" {
		return &client.ScheduleWorkflowAction{
			ID: s.c.WorkflowID(in.Name), Workflow: workflows.TurnWorkflow, TaskQueue: o.TaskQueue,
			Args: []any{workflows.Input{
				Version: workflows.WireVersion, Tenant: o.Tenant, Message: &message, Agent: in.Agent, Limits: in.Limits,
			}},
			StaticSummary: "Everturn turn of schedule " + turn.Truncate(in.Name, 80),
			StaticDetails: "One time of a schedule: a session of its own, named by this workflow's ID. " +
				"Its transcript is in the journal: `starter show`.",
			TypedSearchAttributes: temporal.NewSearchAttributes(
				agent, workflows.AttrState.ValueSet(string(turn.StateRunning))),
		}
	}
	message.Queue = in.After
	return &client.ScheduleWorkflowAction{
		ID: s.c.WorkflowID("deliver-" + in.Name), Workflow: workflows.DeliverWorkflow, TaskQueue: o.TaskQueue,
		Args: []any{workflows.DeliverInput{
			Version: workflows.WireVersion, Session: in.Session, Tenant: o.Tenant, Message: message,
			Agent: in.Agent, Limits: in.Limits,
		}},
		StaticSummary: "Everturn delivery of schedule " + turn.Truncate(in.Name, 60) + " to session " + turn.Truncate(in.Session, 60),
		StaticDetails: "Takes a schedule's prompt to its session, and is over when the turn that took it is: `starter show " +
			turn.Truncate(in.Session, 80) + "`.",
		TypedSearchAttributes: temporal.NewSearchAttributes(agent, workflows.AttrSession.ValueSet(in.Session)),
	}
}

// List returns at most 100 schedules by name. Temporal's list lags slightly.
func (s Schedules) List(ctx context.Context) ([]Schedule, error) {
	if s.c.temporal == nil {
		return nil, ErrUnreachable
	}
	iter, err := s.c.temporal.ScheduleClient().List(ctx, client.ScheduleListOptions{PageSize: listLimit})
	if err != nil {
		return nil, fmt.Errorf("listing the schedules: %w", typed(err))
	}
	list := []Schedule{}
	for iter.HasNext() && len(list) < listLimit {
		entry, err := iter.Next()
		if err != nil {
			return nil, fmt.Errorf("listing the schedules: %w", typed(err))
		}
		name, own := workflows.SessionOf(s.c.options.Tenant, entry.ID)
		if p, ours := planOf(entry.Memo); !own || !ours || p.TaskQueue != s.c.options.TaskQueue {
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

// Get returns one schedule.
func (s Schedules) Get(ctx context.Context, name string) (Schedule, error) {
	if s.c.temporal == nil {
		return Schedule{}, ErrUnreachable
	}
	d, err := s.c.schedule(ctx, name).Describe(ctx)
	if err != nil {
		return Schedule{}, scheduleError(name, err)
	}
	p, ours := planOf(d.Memo)
	if !ours {
		return Schedule{}, fmt.Errorf("schedule %q: %w", name, ErrForeign)
	}
	schedule := Schedule{
		Name: name, When: p.When, Prompt: p.Prompt, Session: p.Session, Agent: p.Agent, TaskQueue: p.TaskQueue,
		Paused: d.Schedule.State.Paused, Note: d.Schedule.State.Note,
		Skipped: d.Info.NumActionsSkippedOverlap, Missed: d.Info.NumActionsMissedCatchupWindow,
		Active: len(d.Info.RunningWorkflows) > 0,
	}
	if !schedule.Paused {
		schedule.Next = d.Info.NextActionTimes
	}
	for _, action := range d.Info.RecentActions {
		if action.StartWorkflowResult == nil {
			continue
		}
		run, err := s.run(ctx, p, action)
		if err != nil {
			return schedule, err
		}
		schedule.Last = append(schedule.Last, run)
	}
	return schedule, nil
}

// run returns the outcome of one run: the turn that took its message, if the journal has it.
func (s Schedules) run(ctx context.Context, p plan, action client.ScheduleActionResult) (ScheduleRun, error) {
	w := *action.StartWorkflowResult
	run := ScheduleRun{At: action.ActualTime, Session: p.Session, WorkflowID: w.WorkflowID, RunID: w.FirstExecutionRunID}
	var rec journal.TurnRecord
	var err error
	if p.Session != "" {
		rec, err = s.c.journal.Delivered(ctx, p.Session, workflows.DeliveryID(w.WorkflowID, w.FirstExecutionRunID))
	} else {
		run.Session, _ = workflows.SessionOf(s.c.options.Tenant, w.WorkflowID)
		rec, err = s.c.journal.Turn(ctx, w.FirstExecutionRunID)
	}
	switch {
	case errors.Is(err, ErrNotFound):
		return run, nil
	case err == nil:
		run.Turn, run.State, run.Reason = rec.ID, rec.State, rec.Reason
		run.WorkflowID, run.RunID = s.c.WorkflowID(rec.Session), rec.ID
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

// Trigger runs a schedule now, in addition to its times. If Schedule.Active is set, the run is skipped.
func (s Schedules) Trigger(ctx context.Context, name string) (Schedule, error) {
	return s.do(ctx, name, func(h client.ScheduleHandle, ctx context.Context) error {
		return h.Trigger(ctx, client.ScheduleTriggerOptions{})
	})
}

// do applies an operation to a schedule of Everturn.
func (s Schedules) do(
	ctx context.Context, name string, do func(client.ScheduleHandle, context.Context) error,
) (Schedule, error) {
	before, err := s.Get(ctx, name)
	if err != nil {
		return before, err
	}
	return before, scheduleError(name, do(s.c.schedule(ctx, name), ctx))
}

func (c *Client) schedule(ctx context.Context, name string) client.ScheduleHandle {
	return c.temporal.ScheduleClient().GetHandle(ctx, c.WorkflowID(name))
}

// scheduleError converts an error of Temporal to the package's error.
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
		return &kindError{errors.New("Temporal refuses the schedule: " + invalid.Message), ErrInvalid}
	}
	return fmt.Errorf("schedule %q: %w", name, typed(err))
}

// planOf decodes a schedule's plan, and reports whether it has one.
func planOf(memo *commonpb.Memo) (p plan, ours bool) {
	payload := memo.GetFields()[planKey]
	return p, payload != nil && converter.GetDefaultDataConverter().FromPayload(payload, &p) == nil
}
