package cli

import (
	"context"

	"github.com/spf13/cobra"
)

func (a *app) attachCommand() *cobra.Command {
	o := followOptions{stay: true}
	var dev, wait bool
	var turnID string
	cmd := &cobra.Command{
		Use:   "attach [session]",
		Short: "Follow a turn of a session, from its start or from a chunk on, and go on live",
		Long: `Follow a turn of a session, the last one unless --turn names another, and go on live.

What is shown is read from the journal: a turn that has ended is shown whole, however late and with Temporal away. Where
a person is waited for who cannot be asked here, it goes on until somebody has decided elsewhere, unlike run; with
--no-wait it says how to decide and exits with 6.`,
		Args:              cobra.MaximumNArgs(1),
		ValidArgsFunction: a.completeSessions(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := o.check(); err != nil {
				return err
			}
			if wait && o.noWait {
				return usage("--wait and --no-wait contradict each other: use one of them")
			}
			n := needs{server: dev, worker: dev, quiet: o.quiet}
			return a.onSession(cmd.Context(), args, n, (*turnClient).latest, func(ctx context.Context, t *turnClient, session string) error {
				s, err := t.find(ctx, session, turnID)
				if err != nil {
					return err
				}
				return t.follow(ctx, s, o)
			})
		},
	}
	flags := cmd.Flags()
	flags.BoolVar(&dev, "dev", false, "bring up Temporal and a worker on this machine, so that the turn goes on")
	flags.BoolVar(&wait, "wait", false, "go on where a person elsewhere is waited for, as it does anyway")
	flags.StringVar(&turnID, "turn", "", "the turn's `ID`, where it is not the last one")
	flags.Int64Var(&o.after, "after", -1, "the last chunk that was seen; what follows it is shown")
	o.register(a, cmd)
	return cmd
}

// register adds the flags that run and attach share.
func (o *followOptions) register(a *app, cmd *cobra.Command) {
	flags := cmd.Flags()
	flags.StringVarP(&o.output, "output", "o", "text", "text, json (the result), jsonl (every chunk) or none")
	flags.BoolVarP(&o.quiet, "quiet", "q", false, "print nothing but the answer")
	flags.StringVar(&o.outputLast, "output-last", "", "also write the answer to this `file`")
	flags.BoolVar(&o.noWait, "no-wait", false, "where a person is waited for, say how to answer and exit with 6")
	flags.DurationVar(&o.timeout, "timeout", 0, "follow for so long at most, then exit with 124; the turn goes on")
	complete(cmd, "output", "text", "json", "jsonl", "none")
}

func (o *followOptions) check() error {
	if err := checkOutput(o.output); err != nil {
		return err
	}
	if o.timeout < 0 {
		return usage("--timeout is %s: use a duration such as 90s, or leave it out to wait as long as it takes", o.timeout)
	}
	return nil
}
