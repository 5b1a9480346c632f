package main

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"
	commonpb "go.temporal.io/api/common/v1"
	enumspb "go.temporal.io/api/enums/v1"
	"go.temporal.io/api/serviceerror"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/converter"
	"go.temporal.io/sdk/temporal"

	"github.com/everturn/everturn/workflows"
	"github.com/everturn/everturn/workflows/turn"
)

// plan is what a schedule was made for. It is kept in the schedule's memo, by which ours are known from others.
type plan struct {
	Version int    `json:"v"`
	When    string `json:"when"`
	Prompt  string `json:"prompt"` // a preview
	// Session is the one that all runs share; empty where each begins its own.
	Session   string `json:"session,omitempty"`
	Agent     string `json:"agent,omitempty"`
	TaskQueue string `json:"task_queue"`
}

// planKey is the memo's key of a plan.
const planKey = "everturn"

// The bounds of a schedule. Its name is the beginning of the sessions' IDs, to which Temporal appends a time.
const (
	maxScheduleName   = 100       // bytes
	maxSchedulePrompt = 256 << 10 // bytes: it travels with every run
	promptPreview     = 200       // bytes
)

// scheduleFlags are what schedule create is asked besides name and prompt.
type scheduleFlags struct {
	when                 whenFlags
	session, agent       string
	after, paused, quiet bool
	limits               limitFlags
}

func (a *app) scheduleCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "schedule",
		Short: "Ask something again and again, at times that Temporal keeps",
		Args:  onlySubcommands,
		RunE:  func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(a.scheduleCreateCommand(), a.scheduleListCommand(), a.scheduleDeleteCommand(), a.schedulePauseCommand(),
		a.scheduleResumeCommand(), a.scheduleTriggerCommand())
	return cmd
}

func (a *app) scheduleCreateCommand() *cobra.Command {
	var f scheduleFlags
	cmd := &cobra.Command{
		Use:   "create <name> [prompt...]",
		Short: "Make a schedule",
		Long: `Make a schedule. At each of its times the prompt is asked: in a session of its own, named after the schedule and the
time, or with --session in one that all of them share. A worker that runs then carries it on; none needs to run now.

Where the last time is not over yet, the next one is left out: a turn that waits for a person counts as not over. In a
shared session where somebody else's turn runs, the prompt joins that turn, unless --after is given.`,
		Example: `  starter schedule create news --every 1h "What is new in this folder?"
  starter schedule create report --cron "0 9 * * 1-5" --zone Europe/Berlin --session reports - < report.md`,
		Args: cobra.MinimumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			f.limits.read(cmd.Flags())
			if err := f.check(args[0]); err != nil {
				return err
			}
			prompt, err := a.prompt(cmd.Context(), args[1:])
			if err != nil {
				return err
			}
			if len(prompt) > maxSchedulePrompt {
				return usage("the prompt has %d bytes and %d are the most for a schedule: put it into a file of the workspace, and ask to read that", len(prompt), maxSchedulePrompt)
			}
			return a.withTemporal(cmd.Context(), openJournal, func(t *turnClient) error { return t.schedule(cmd.Context(), args[0], prompt, f) })
		},
	}
	flags := cmd.Flags()
	f.when.register(flags)
	flags.StringVarP(&f.session, "session", "s", "", "the session `ID` that all times share (default one each)")
	flags.BoolVar(&f.after, "after", false, "with --session: never join a turn that runs, but begin one of its own after it")
	flags.StringVar(&f.agent, "agent", "", "the agent that is asked (default the configured one)")
	flags.BoolVar(&f.paused, "paused", false, "make it, and let it rest until `starter schedule resume`")
	flags.BoolVarP(&f.quiet, "quiet", "q", false, "print nothing")
	f.limits.register(flags)
	_ = cmd.RegisterFlagCompletionFunc("session", a.completeSessions(2)) // the flag is there
	return cmd
}

// check refuses what no schedule can be made of.
func (f scheduleFlags) check(name string) error {
	if err := checkScheduleName(name); err != nil {
		return err
	}
	if err := f.when.check(); err != nil {
		return err
	}
	if f.after && f.session == "" {
		return usage("--after is for a session that is shared: name it with --session")
	}
	if f.session != "" {
		if err := workflows.CheckSession(f.session); err != nil {
			return usage("--session: %w", err)
		}
	}
	if _, err := f.limits.request.Apply(turn.DefaultLimits()); err != nil {
		return usage("%w", err)
	}
	return nil
}

func checkScheduleName(name string) error {
	if err := workflows.CheckSession(name); err != nil {
		return usage("the name: %s", strings.Replace(err.Error(), "the session ID", "it", 1))
	}
	if len(name) > maxScheduleName {
		return usage("the name has %d bytes; %d are the most", len(name), maxScheduleName)
	}
	return nil
}

// schedule makes a schedule and says when it comes due.
func (t *turnClient) schedule(ctx context.Context, name, prompt string, f scheduleFlags) error {
	if f.agent != "" && f.agent != t.cfg.Runtime.Agent {
		return usage("--agent is %q, and this configuration's agent is %q: use the agent.toml of the one that is meant", f.agent, t.cfg.Runtime.Agent)
	}
	if err := t.checkName(ctx, f.session); err != nil {
		return err
	}
	p := plan{Version: workflows.WireVersion, When: f.when.String(), Prompt: turn.Cut(prompt, promptPreview), Session: f.session, Agent: t.cfg.Runtime.Agent, TaskQueue: t.cfg.Temporal.TaskQueue}
	h, err := t.client.ScheduleClient().Create(ctx, client.ScheduleOptions{
		ID: t.workflowID(name), Spec: f.when.spec(), Action: p.action(t.cfg.Tenant, name, prompt, f), Paused: f.paused, Memo: map[string]any{planKey: p},
		Overlap: enumspb.SCHEDULE_OVERLAP_POLICY_SKIP, CatchupWindow: f.when.catchUp,
	})
	if err != nil {
		return scheduleError(name, err)
	}
	d, err := h.Describe(ctx)
	if err != nil {
		return scheduleError(name, err)
	}
	if f.quiet {
		return nil
	}
	t.app.scheduled(name, p, d)
	if f.session != "" && !f.after {
		t.sayWhereItJoins(ctx, f.session)
	}
	return nil
}

// action is what happens each time: a turn of its own, or a delivery to the session that is shared. A message without an
// ID gets one of its run.
func (p plan) action(tenant, name, prompt string, f scheduleFlags) *client.ScheduleWorkflowAction {
	agent := workflows.AttrAgent.ValueSet(p.Agent)
	if p.Session == "" {
		return &client.ScheduleWorkflowAction{
			ID: workflows.WorkflowID(tenant, name), Workflow: workflows.TurnWorkflow, TaskQueue: p.TaskQueue,
			Args: []any{workflows.Input{
				Version: workflows.WireVersion, Tenant: tenant, Message: &workflows.Message{Text: prompt}, Agent: f.agent, Limits: f.limits.request,
			}},
			StaticSummary:         "Everturn turn of schedule " + turn.Cut(name, 80),
			StaticDetails:         "One time of a schedule: a session of its own, named by this workflow's ID. Its transcript is in the journal: `starter show`.",
			TypedSearchAttributes: temporal.NewSearchAttributes(agent, workflows.AttrState.ValueSet(string(turn.StateRunning))),
		}
	}
	return &client.ScheduleWorkflowAction{
		ID: workflows.WorkflowID(tenant, "deliver-"+name), Workflow: workflows.DeliverWorkflow, TaskQueue: p.TaskQueue,
		Args: []any{workflows.DeliverInput{
			Version: workflows.WireVersion, Session: p.Session, Tenant: tenant, Message: workflows.Message{Text: prompt, After: f.after}, Agent: f.agent, Limits: f.limits.request,
		}},
		StaticSummary:         "Everturn delivery of schedule " + turn.Cut(name, 60) + " to session " + turn.Cut(p.Session, 60),
		StaticDetails:         "Takes a schedule's prompt to its session, and is over when the turn that took it is: `starter show " + turn.Cut(p.Session, 80) + "`.",
		TypedSearchAttributes: temporal.NewSearchAttributes(agent, workflows.AttrSession.ValueSet(p.Session)),
	}
}

// scheduled says what was made.
func (a *app) scheduled(name string, p plan, d *client.ScheduleDescription) {
	fmt.Fprintf(a.out, "schedule %s\n%s\n", line(name, maxScheduleName), line(p.When, 200))
	switch {
	case d.Schedule.State.Paused:
		a.aside("it is paused: `starter schedule resume %s` lets it go on", quoted(name))
	case len(d.Info.NextActionTimes) == 0:
		a.note("it never comes due: these times do not exist; delete it with `starter schedule delete %s`", quoted(name))
	default:
		fmt.Fprintf(a.out, "next     %s\n", clockTime(d.Info.NextActionTimes[0]))
	}
}

// sayWhereItJoins tells of a shared session that is in use.
func (t *turnClient) sayWhereItJoins(ctx context.Context, session string) {
	running, err := t.sessions.Running(ctx, session)
	if err == nil && running {
		t.app.note("session %s has a turn that runs or waits now: a prompt that comes due meanwhile joins it, and answers what it asks its user. --after begins a turn of its own instead", line(session, 80))
	}
}

func clockTime(at time.Time) string { return at.Local().Format("Mon 2006-01-02 15:04:05 -07") }

// scheduleError says what to do about a schedule that Temporal refuses or does not know.
func scheduleError(name string, err error) error {
	var invalid *serviceerror.InvalidArgument
	var unknown *serviceerror.NotFound
	var said *exitError
	switch {
	case errors.As(err, &said):
		return err
	case errors.Is(err, temporal.ErrScheduleAlreadyRunning):
		return usage("there is a schedule %q: delete it first with `starter schedule delete %s`, or choose another name", name, quoted(name))
	case errors.As(err, &unknown):
		return usage("there is no schedule %q; `starter schedule list` lists them", name)
	case errors.As(err, &invalid):
		return usage("Temporal refuses the schedule: %s", invalid.Message)
	}
	return fmt.Errorf("schedule %q: %w", name, err)
}

// planOf reads a schedule's plan; it reports false for a schedule that is none of ours.
func planOf(memo *commonpb.Memo) (p plan, ours bool) {
	payload := memo.GetFields()[planKey]
	if payload == nil || converter.GetDefaultDataConverter().FromPayload(payload, &p) != nil {
		return plan{}, false
	}
	return p, true
}
