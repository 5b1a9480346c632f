package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/spf13/cobra"
	enumspb "go.temporal.io/api/enums/v1"
	"go.temporal.io/api/serviceerror"
	workflowpb "go.temporal.io/api/workflow/v1"

	"github.com/everturn/everturn/cluster"
	"github.com/everturn/everturn/journal"
	"github.com/everturn/everturn/workflows"
)

func (a *app) attachCommand() *cobra.Command {
	o := followOptions{stay: true}
	var dev bool
	var turnID string
	cmd := &cobra.Command{
		Use:   "attach [session]",
		Short: "Follow a turn of a session, from its start or from a chunk on, and go on live",
		Long: `Follow a turn of a session, the last one unless --turn names another, and go on live.

What is shown is read from the journal: a turn that has ended is shown whole, however late and with Temporal away.`,
		Args:              cobra.MaximumNArgs(1),
		ValidArgsFunction: a.completeSessions(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := o.check(); err != nil {
				return err
			}
			n := needs{server: dev, worker: dev, quiet: o.quiet}
			return a.onSession(cmd.Context(), args, n, func(ctx context.Context, t *turnClient, session string) error {
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

// onSession does something with a session, the last one where none is named. Temporal may be away unless this command
// is to bring it up: the client of the turns says so.
func (a *app) onSession(ctx context.Context, args []string, n needs, do func(context.Context, *turnClient, string) error) error {
	loaded, err := a.load()
	if err != nil {
		return err
	}
	stack, cfg, err := a.bringUp(ctx, loaded.Config, n)
	if err != nil {
		return err
	}
	defer stack.close()
	store, err := readJournal(ctx, cfg)
	if err != nil {
		return err
	}
	defer store.Close()
	var session string
	if len(args) > 0 {
		session = args[0]
	} else if session, err = lastSession(ctx, store); err != nil {
		return err
	}
	t := a.newTurnClient(nil, store, cfg, stack.failed())
	defer t.hangUp()
	return do(ctx, t, session)
}

// dialWithin is how long a command waits for a Temporal that it can do without.
const dialWithin = 3 * time.Second

// call connects to Temporal. A client that is connected stays so.
func (t *turnClient) call(ctx context.Context) error {
	if t.client != nil {
		return nil
	}
	c, err := t.app.dial(ctx, t.cfg)
	if err != nil {
		return err
	}
	*t = *t.app.newTurnClient(c, t.store, t.cfg, t.failed)
	t.dialled = true
	return nil
}

// hangUp closes what call has opened.
func (t *turnClient) hangUp() {
	if t.dialled {
		t.client.Close()
	}
}

// find names the turn to follow: the one that was named, or the session's last one, which Temporal may know before the
// journal does.
func (t *turnClient) find(ctx context.Context, session, turnID string) (started, error) {
	s := started{Version: workflows.WireVersion, Session: session, Turn: turnID}
	known, err := t.recall(ctx, &s)
	if err != nil {
		return s, err
	}
	over := turnID != "" && known.State.Terminal()
	if !over {
		if err := t.consult(ctx, &s, known); err != nil {
			return s, err
		}
	}
	s.Link = t.link(s)
	return s, nil
}

// recall looks the turn up in the journal. A zero record means that the journal does not have it.
func (t *turnClient) recall(ctx context.Context, s *started) (journal.TurnRecord, error) {
	if s.Turn != "" {
		row, err := t.store.Turn(ctx, s.Turn)
		switch {
		case errors.Is(err, journal.ErrNotFound):
			return journal.TurnRecord{}, nil
		case err == nil && row.Session != s.Session:
			return row, usage("turn %s belongs to session %q: use `starter attach %s --turn %s`", s.Turn, row.Session, quoted(row.Session), s.Turn)
		}
		return row, err
	}
	rec, err := t.store.Session(ctx, s.Session)
	if errors.Is(err, journal.ErrNotFound) {
		return journal.TurnRecord{}, nil
	}
	s.Turn = rec.LastTurn.ID
	return rec.LastTurn, err
}

// consult asks Temporal whether there is a later turn than the one that the journal knows. Without Temporal what the
// journal knows is enough.
func (t *turnClient) consult(ctx context.Context, s *started, known journal.TurnRecord) error {
	dialling, cancel := context.WithTimeout(ctx, dialWithin)
	defer cancel()
	if err := t.call(dialling); err != nil {
		var unreachable *cluster.Unreachable
		if known.ID == "" || !errors.As(err, &unreachable) && dialling.Err() == nil {
			return err
		}
		if !known.State.Terminal() {
			t.app.note("Temporal is away; the turn is shown as far as it goes (%v)", err)
		}
		return nil
	}
	if known.ID != "" && (s.Turn != known.ID || !known.State.Terminal()) {
		return nil
	}
	run := ""
	if known.ID == "" {
		run = s.Turn
	}
	d, err := t.client.DescribeWorkflowExecution(ctx, s.Session, run)
	var unknown *serviceerror.NotFound
	var malformed *serviceerror.InvalidArgument // of an ID that is none
	switch {
	case err != nil && (errors.As(err, &unknown) || errors.As(err, &malformed)):
		return t.unknown(*s, known)
	case err != nil:
		return fmt.Errorf("asking Temporal for the session's turn: %w", err)
	case known.ID == "" || later(d.WorkflowExecutionInfo, known):
		s.Turn = d.WorkflowExecutionInfo.GetExecution().GetRunId()
	}
	return nil
}

// unknown is what a turn ends with that Temporal does not know.
func (t *turnClient) unknown(s started, known journal.TurnRecord) error {
	switch {
	case known.ID != "": // Temporal has forgotten it, and the journal has not
		return nil
	case s.Turn != "":
		return usage("session %q has no turn %q; `starter show %s` lists its turns", s.Session, s.Turn, quoted(s.Session))
	}
	return usage("Temporal knows no session %q; `starter list` lists what the journal has, and `starter show` shows it", s.Session)
}

// later reports whether a run began a turn that the journal does not have yet.
func later(run *workflowpb.WorkflowExecutionInfo, known journal.TurnRecord) bool {
	id := run.GetExecution().GetRunId()
	if id == known.ID || id == known.RunID {
		return false
	}
	return run.GetStatus() == enumspb.WORKFLOW_EXECUTION_STATUS_RUNNING || run.GetStartTime().AsTime().After(known.EndedAt)
}
