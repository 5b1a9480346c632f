package client

import (
	"cmp"
	"context"
	"fmt"
	"time"

	enumspb "go.temporal.io/api/enums/v1"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/temporal"

	"github.com/everturn/everturn/internal/temporalconn"
	"github.com/everturn/everturn/workflows"
	"github.com/everturn/everturn/workflows/turn"
)

// The bounds of a schedule.
const (
	// MaxScheduleName is the longest name, in bytes. Temporal appends a time to it for the ID of each run.
	MaxScheduleName = 100
	// MaxSchedulePrompt is the longest text, in bytes: it travels with every run.
	MaxSchedulePrompt = 256 << 10

	promptPreview = 200 // bytes of a text that Schedule.Prompt shows
)

// ScheduleInput describes a schedule, which sends a text to a session at each of its times.
type ScheduleInput struct {
	// Name is unique in the tenant: printable, at most MaxScheduleName bytes.
	Name string
	Text string // at most MaxSchedulePrompt bytes
	// Session gets all messages. Empty: each run has a session of its own, named after the schedule and the time.
	Session string
	// Queue asks for a turn of its own if a turn of Session is running. Otherwise the message is merged into that turn.
	Queue  bool
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

// Create creates a schedule and returns it. If a run has not ended when the next one is due, the next one is skipped;
// a turn that waits for a decision has not ended. Creating the same schedule again is ErrExists.
//
// Errors: ErrExists, ErrInvalid (for instance a malformed cron expression).
func (s Schedules) Create(ctx context.Context, in ScheduleInput) (Schedule, error) {
	if err := in.check(); err != nil {
		return Schedule{}, temporalconn.WithKind(ErrInvalid, err)
	}
	if s.c.temporal == nil {
		return Schedule{}, ErrUnreachable
	}
	o := s.c.options
	schedule := Schedule{
		Name: in.Name, When: in.Description, Prompt: turn.Truncate(in.Text, promptPreview), Session: in.Session,
		Agent: o.Agent, TaskQueue: o.TaskQueue,
	}
	_, err := s.c.temporal.ScheduleClient().Create(ctx, client.ScheduleOptions{
		ID: s.c.WorkflowID(in.Name), Spec: in.spec(), Action: s.action(in), Paused: in.Paused,
		Memo: map[string]any{memoKey: schedule}, Overlap: enumspb.SCHEDULE_OVERLAP_POLICY_SKIP, CatchupWindow: in.CatchUp,
	})
	if err != nil {
		return Schedule{}, scheduleError(in.Name, err)
	}
	return s.Get(ctx, in.Name)
}

// check returns an error if Temporal or the workflow would reject the schedule's name or the input of its runs. It does
// not check the times: Temporal does when the schedule is created.
func (in ScheduleInput) check() error {
	if err := CheckScheduleName(in.Name); err != nil {
		return err
	}
	if len(in.Text) > MaxSchedulePrompt {
		return fmt.Errorf("the text is %d bytes; the maximum is %d", len(in.Text), MaxSchedulePrompt)
	}
	return workflows.Input{
		Session: cmp.Or(in.Session, in.Name), // a run's own session begins with the name
		Message: &workflows.Message{Text: in.Text}, Agent: in.Agent, Limits: in.Limits,
	}.Check()
}

// CheckScheduleName returns an error if a schedule cannot have this name.
func CheckScheduleName(name string) error {
	if err := turn.CheckSession(name); err != nil {
		return err
	}
	if len(name) > MaxScheduleName {
		return fmt.Errorf("the name is %d bytes; the maximum is %d", len(name), MaxScheduleName)
	}
	return nil
}

// spec returns the times of the schedule in the form of Temporal. If both are set, Cron wins over Every.
func (in ScheduleInput) spec() client.ScheduleSpec {
	spec := client.ScheduleSpec{Jitter: in.Jitter, TimeZoneName: in.Zone}
	if in.Cron != "" {
		spec.CronExpressions = []string{in.Cron}
	} else {
		spec.Intervals = []client.ScheduleIntervalSpec{{Every: in.Every}}
	}
	return spec
}

// action returns the workflow that each run of the schedule starts. Without a session, it is a turn, whose session is
// named after the workflow's ID. With one, it is a delivery, which sends the message to that session. The workflows
// derive the ID of the message from their run.
func (s Schedules) action(in ScheduleInput) *client.ScheduleWorkflowAction {
	o := s.c.options
	agent := workflows.AttrAgent.ValueSet(o.Agent)
	message := workflows.Message{Text: in.Text, Background: true}
	if in.Session == "" {
		return &client.ScheduleWorkflowAction{
			ID: s.c.WorkflowID(in.Name), Workflow: workflows.TurnWorkflow, TaskQueue: o.TaskQueue,
			Args: []any{workflows.Input{
				Version: workflows.WireVersion, Tenant: o.Tenant, Message: &message, Agent: in.Agent, Limits: in.Limits,
			}},
			StaticSummary: workflows.Summary(in.Text),
			Priority:      workflows.Priority(o.Tenant, true),
			StaticDetails: "One run of schedule " + workflows.Summary(in.Name) +
				", in a session of its own that is named after this workflow's ID. `everturn show` shows the transcript.",
			TypedSearchAttributes: temporal.NewSearchAttributes(
				agent, workflows.AttrState.ValueSet(string(turn.StateRunning))),
		}
	}
	message.Queue = in.Queue
	return &client.ScheduleWorkflowAction{
		ID: s.c.WorkflowID("deliver-" + in.Name), Workflow: workflows.DeliverWorkflow, TaskQueue: o.TaskQueue,
		Args: []any{workflows.DeliverInput{
			Version: workflows.WireVersion, Session: in.Session, Tenant: o.Tenant, Message: message,
			Agent: in.Agent, Limits: in.Limits,
		}},
		StaticSummary: workflows.Summary("to session " + turn.Truncate(in.Session, 60) + ": " + in.Text),
		Priority:      workflows.Priority(o.Tenant, true),
		StaticDetails: "Sends the message of schedule " + workflows.Summary(in.Name) + " to session " +
			workflows.Summary(in.Session) + ", and completes when the turn that takes it ends.",
		TypedSearchAttributes: temporal.NewSearchAttributes(agent, workflows.AttrSession.ValueSet(in.Session)),
	}
}
