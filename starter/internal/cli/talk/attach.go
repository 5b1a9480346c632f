package talk

import (
	"github.com/spf13/cobra"

	"github.com/everturn/everturn/starter/internal/cli/app"
)

// Attach returns the command that follows a turn.
func Attach(a *app.App) *cobra.Command {
	o := followOptions{stay: true}
	var dev bool
	var turnID string
	cmd := &cobra.Command{
		Use:   "attach [session]",
		Short: "Follow a turn of a session, from its beginning or from an event on",
		Long: `Follow a turn of a session to its end: the last turn, or the one of --turn.

The command reads the journal, so it also shows turns that have ended, even if Temporal is
unreachable. If the turn waits for a decision and there is no terminal to ask on, the command keeps
following; with --no-wait it prints how to decide and exits with 6.`,
		Args:              cobra.MaximumNArgs(1),
		ValidArgsFunction: a.CompleteSessions(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := o.check(); err != nil {
				return err
			}
			n := app.Needs{Server: dev, Worker: dev, Quiet: o.quiet}
			return a.OnSession(cmd.Context(), args, n, (*app.TurnClient).Latest, func(t *app.TurnClient, session string) error {
				s, err := t.Find(cmd.Context(), session, turnID)
				if err != nil {
					return err
				}
				return follow(cmd.Context(), t, s, o)
			})
		},
	}
	flags := cmd.Flags()
	flags.BoolVar(&dev, "dev", false, "start Temporal and a worker on this machine, so that the turn continues")
	flags.StringVar(&turnID, "turn", "", "the `ID` of the turn to follow (default: the last one)")
	flags.Int64Var(&o.after, "after-event", -1, "show only the events after this `index`")
	o.register(a, cmd)
	return cmd
}

// register adds the flags that run and attach share.
func (o *followOptions) register(a *app.App, cmd *cobra.Command) {
	flags := cmd.Flags()
	o.output = app.OutputText
	app.Choose(cmd, flags, &o.output, "output", "o", "text, json (the result), jsonl (every event) or none",
		app.OutputText,
		app.OutputJSON, app.OutputJSONL, app.OutputNone)
	flags.BoolVarP(&o.quiet, "quiet", "q", false, "print only the answer")
	flags.StringVar(&o.outputLast, "output-last", "", "also write the answer to this `file`")
	flags.BoolVar(&o.noWait, "no-wait", false, "if the turn waits for a decision, print how to decide and exit with 6")
	flags.DurationVar(&o.timeout, "timeout", 0, "stop following after this `duration` and exit with 124; the turn "+
		"continues")
}

// check returns an error for an invalid --timeout.
func (o *followOptions) check() error {
	if o.timeout < 0 {
		return app.Usage("--timeout is %s: use a duration such as 90s, or omit it to wait without a limit", o.timeout)
	}
	return nil
}
