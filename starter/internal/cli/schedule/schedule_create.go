package schedule

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/everturn/everturn/client"
	"github.com/everturn/everturn/starter/internal/cli/app"
	"github.com/everturn/everturn/workflows/turn"
)

// scheduleFlags are the flags of schedule create.
type scheduleFlags struct {
	when                 whenFlags
	session, agent       string
	queue, paused, quiet bool
	limits               app.LimitFlags
}

// scheduleCreate returns the command that creates a schedule.
func scheduleCreate(a *app.App) *cobra.Command {
	var f scheduleFlags
	cmd := &cobra.Command{
		Use:   "create <name> [message...]",
		Short: "Create a schedule",
		Long: `Create a schedule. At each of its times, the message starts a turn: in a new session that is named
after the schedule and the time, or in the session of --session. Workers need to run only at those
times.

If the turn of the last time has not ended, for example because it waits for a decision, the next
time is skipped. If another turn runs in the session of --session, the message is merged into that
turn, unless --queue is given.`,
		Example: `  everturn schedule create news --every 1h "What is new in this folder?"
  everturn schedule create report --cron "0 9 * * 1-5" --zone Europe/Berlin --session reports - < report.md`,
		Args: cobra.MinimumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			f.limits.Read(cmd.Flags())
			if err := f.check(args[0]); err != nil {
				return err
			}
			prompt, err := a.Prompt(cmd.Context(), args[1:])
			if err != nil {
				return err
			}
			if len(prompt) > client.MaxSchedulePrompt {
				return app.Usage("the message is %d bytes; the maximum for a schedule is %d: put the text into a file of the "+
					"workspace, and tell the model to read it", len(prompt), client.MaxSchedulePrompt)
			}
			return a.WithClient(cmd.Context(), app.Needs{}, func(t *app.TurnClient) error {
				return createSchedule(cmd.Context(), t,
					args[0], prompt, f)
			})
		},
	}
	flags := cmd.Flags()
	f.when.register(flags)
	flags.StringVarP(&f.session, "session", "s", "", "the `ID` of the session for all turns (default: a new session for "+
		"each)")
	flags.BoolVar(&f.queue, "queue", false, "with --session: queue the message for the next turn instead of merging it "+
		"into a running one")
	flags.StringVar(&f.agent, "agent", "", "the agent (default: the configured one)")
	flags.BoolVar(&f.paused, "paused", false, "create the schedule paused, until schedule resume")
	flags.BoolVarP(&f.quiet, "quiet", "q", false, "print nothing")
	f.limits.Register(flags)
	_ = cmd.RegisterFlagCompletionFunc("session", a.CompleteSessions(2)) // the flag exists
	return cmd
}

// check returns an error if the name or a flag is invalid, or if flags do not fit together.
func (f scheduleFlags) check(name string) error {
	if err := checkScheduleName(name); err != nil {
		return err
	}
	if err := f.when.check(); err != nil {
		return err
	}
	if f.queue && f.session == "" {
		return app.Usage("--queue needs a session: name it with --session")
	}
	if f.session != "" {
		if err := turn.CheckSession(f.session); err != nil {
			return app.Usage("--session: %w", err)
		}
	}
	if _, err := f.limits.Request.Apply(turn.DefaultLimits()); err != nil {
		return app.Usage("%w", err)
	}
	return nil
}

// createSchedule creates a schedule and prints its next time.
func createSchedule(ctx context.Context, t *app.TurnClient, name, prompt string, f scheduleFlags) error {
	if err := t.CheckAgent(f.agent); err != nil {
		return err
	}
	made, err := t.Client.Schedules().Create(ctx, client.ScheduleInput{
		Name: name, Text: prompt, Session: f.session, Queue: f.queue, Agent: f.agent, Limits: f.limits.Request,
		Every: f.when.every, Cron: f.when.cron, Zone: f.when.zone, Jitter: f.when.jitter, CatchUp: f.when.catchUp,
		Paused: f.paused, Description: f.when.String(),
	})
	if err != nil {
		return scheduleError(name, err)
	}
	if f.quiet {
		return nil
	}
	printCreated(t.App, made)
	if f.session != "" && !f.queue {
		noteRunningTurn(ctx, t, f.session)
	}
	return nil
}

// printCreated prints a schedule that was created, with its next time.
func printCreated(a *app.App, s client.Schedule) {
	fmt.Fprintf(a.Out, "schedule %s\n%s\n", app.Line(s.Name, client.MaxScheduleName), app.Line(s.When, 200))
	switch {
	case s.Paused:
		a.Aside("it is paused; resume it with `everturn schedule resume %s`", app.Quoted(s.Name))
	case len(s.Next) == 0:
		a.Note("it never runs, because these times do not exist; delete it with `everturn schedule delete %s`",
			app.Quoted(s.Name))
	default:
		fmt.Fprintf(a.Out, "next     %s\n", clockTime(s.Next[0]))
	}
}

// noteRunningTurn prints a note if the schedule's session has a running turn, into which its messages would be merged.
func noteRunningTurn(ctx context.Context, t *app.TurnClient, session string) {
	running, err := t.Client.Running(ctx, session)
	if err == nil && running {
		t.App.Note("session %s has a running turn: a scheduled message is merged into it, and answers its open question. "+
			"Use --queue to start a turn of its own instead", app.Line(session, 80))
	}
}
