package main

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/everturn/everturn/client"
	"github.com/everturn/everturn/workflows/turn"
)

// scheduleFlags are the flags of schedule create.
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
			if len(prompt) > client.MaxSchedulePrompt {
				return usage("the prompt has %d bytes and %d are the most for a schedule: put it into a file of the workspace, and ask to read that", len(prompt), client.MaxSchedulePrompt)
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
	_ = cmd.RegisterFlagCompletionFunc("session", a.completeSessions(2)) // the flag exists
	return cmd
}

// check refuses flags that do not describe a schedule.
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
		if err := turn.CheckSession(f.session); err != nil {
			return usage("--session: %w", err)
		}
	}
	if _, err := f.limits.request.Apply(turn.DefaultLimits()); err != nil {
		return usage("%w", err)
	}
	return nil
}

func checkScheduleName(name string) error {
	if err := client.CheckScheduleName(name); err != nil {
		return usage("the name: %s", strings.Replace(err.Error(), "the session ID", "it", 1))
	}
	return nil
}

// schedule creates a schedule and prints when it comes due.
func (t *turnClient) schedule(ctx context.Context, name, prompt string, f scheduleFlags) error {
	if f.agent != "" && f.agent != t.cfg.Runtime.Agent {
		return usage("--agent is %q, and this configuration's agent is %q: use the agent.toml of the one that is meant", f.agent, t.cfg.Runtime.Agent)
	}
	made, err := t.client.Schedules().Create(ctx, client.ScheduleInput{
		Name: name, Text: prompt, Session: f.session, After: f.after, Agent: f.agent, Limits: f.limits.request,
		Every: f.when.every, Cron: f.when.cron, Zone: f.when.zone, Jitter: f.when.jitter, CatchUp: f.when.catchUp,
		Paused: f.paused, Description: f.when.String(),
	})
	if err != nil {
		return scheduleError(name, err)
	}
	if f.quiet {
		return nil
	}
	t.app.scheduled(made)
	if f.session != "" && !f.after {
		t.sayWhereItJoins(ctx, f.session)
	}
	return nil
}

// scheduled prints the schedule that was created.
func (a *app) scheduled(s client.Schedule) {
	fmt.Fprintf(a.out, "schedule %s\n%s\n", line(s.Name, client.MaxScheduleName), line(s.When, 200))
	switch {
	case s.Paused:
		a.aside("it is paused: `starter schedule resume %s` lets it go on", quoted(s.Name))
	case len(s.Next) == 0:
		a.note("it never comes due: these times do not exist; delete it with `starter schedule delete %s`", quoted(s.Name))
	default:
		fmt.Fprintf(a.out, "next     %s\n", clockTime(s.Next[0]))
	}
}

// sayWhereItJoins notes that a shared session has a running turn, which prompts would join.
func (t *turnClient) sayWhereItJoins(ctx context.Context, session string) {
	running, err := t.client.Running(ctx, session)
	if err == nil && running {
		t.app.note("session %s has a turn that runs or waits now: a prompt that comes due meanwhile joins it, and answers what it asks its user. --after begins a turn of its own instead", line(session, 80))
	}
}

func clockTime(at time.Time) string { return at.Local().Format("Mon 2006-01-02 15:04:05 -07") }

// scheduleError says what to do about a schedule that Temporal refuses or does not know.
func scheduleError(name string, err error) error {
	switch {
	case errors.Is(err, client.ErrExists):
		return usage("there is a schedule %q: delete it first with `starter schedule delete %s`, or choose another name", name, quoted(name))
	case errors.Is(err, client.ErrNotFound):
		return usage("there is no schedule %q; `starter schedule list` lists them", name)
	case errors.Is(err, client.ErrForeign):
		return usage("schedule %q is none of Everturn's: use the temporal command line for it", name)
	case errors.Is(err, client.ErrInvalid):
		return asUsage(err)
	}
	return err
}
