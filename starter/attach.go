package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/spf13/cobra"
	"go.temporal.io/api/serviceerror"

	"github.com/everturn/everturn/workflows"
)

func (a *app) attachCommand() *cobra.Command {
	var o followOptions
	var dev bool
	cmd := &cobra.Command{
		Use:   "attach [session]",
		Short: "Follow the last turn of a session, from its start or from a chunk on, and go on live",
		Args:  cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := checkOutput(o.output); err != nil {
				return err
			}
			n := needs{server: dev, worker: dev, quiet: o.quiet}
			return a.withTurn(cmd.Context(), args, n, func(ctx context.Context, t *turnClient, s started) error {
				return t.follow(ctx, s, o)
			})
		},
	}
	flags := cmd.Flags()
	flags.BoolVar(&dev, "dev", false, "bring up Temporal and a worker on this machine, so that the turn goes on")
	flags.Int64Var(&o.after, "after", -1, "the last chunk that was seen; what follows it is shown")
	flags.StringVarP(&o.output, "output", "o", "text", "text, json, jsonl or none")
	flags.BoolVarP(&o.quiet, "quiet", "q", false, "print nothing but the answer")
	return cmd
}

func (a *app) stopCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "stop [session]",
		Short: "Stop the running turn of a session; what was done is kept",
		Args:  cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.withTurn(cmd.Context(), args, needs{}, a.stop)
		},
	}
}

// stop stops a turn and says what became of it. One that is over already is no error: it does not run.
func (a *app) stop(ctx context.Context, t *turnClient, s started) error {
	r, err := t.stop(ctx, s)
	if err != nil {
		return err
	}
	a.note("turn %s is %s: %s", s.Turn, r.State, r.Message)
	return nil
}

// stopWithin is how long a worker has to carry out a stop.
const stopWithin = 30 * time.Second

// stop asks Temporal to cancel the turn and waits until it is over. It returns how it ended.
func (t *turnClient) stop(ctx context.Context, s started) (workflows.Result, error) {
	ctx, cancel := context.WithTimeout(ctx, stopWithin)
	defer cancel()
	var over *serviceerror.NotFound
	if err := t.client.CancelWorkflow(ctx, s.Session, ""); err != nil && !errors.As(err, &over) {
		return workflows.Result{}, fmt.Errorf("stopping the turn: %w", err)
	}
	r, err := t.result(ctx, s)
	if err != nil && ctx.Err() == context.DeadlineExceeded {
		return r, &exitError{code: exitCancelled, cause: fmt.Errorf("the turn is asked to stop, and no worker has done so within %s: it stops when one runs", stopWithin)}
	}
	return r, err
}

// withTurn does something with the last turn of a session: one that runs, or the last that the journal has.
func (a *app) withTurn(ctx context.Context, args []string, n needs, do func(context.Context, *turnClient, started) error) error {
	loaded, err := a.load()
	if err != nil {
		return err
	}
	stack, cfg, err := a.bringUp(ctx, loaded.Config, n)
	if err != nil {
		return err
	}
	defer stack.close()
	return a.withClient(ctx, cfg, stack, func(t *turnClient) error {
		s, err := t.find(ctx, args)
		if err != nil {
			return err
		}
		return do(ctx, t, s)
	})
}

// find names the last turn of the session: Temporal knows one that has not begun yet, too.
func (t *turnClient) find(ctx context.Context, args []string) (started, error) {
	var session string
	if len(args) == 1 {
		session = args[0]
	} else {
		var err error
		if session, err = lastSession(ctx, t.store); err != nil {
			return started{}, err
		}
	}
	d, err := t.client.DescribeWorkflowExecution(ctx, session, "")
	var unknown *serviceerror.NotFound
	if errors.As(err, &unknown) {
		return started{}, usage("Temporal knows no session %q; `starter list` lists what the journal has, and `starter show` shows it", session)
	}
	if err != nil {
		return started{}, fmt.Errorf("asking Temporal for the session's turn: %w", err)
	}
	s := started{Version: workflows.WireVersion, Session: session, Turn: d.WorkflowExecutionInfo.GetFirstRunId()}
	s.Link = t.link(s)
	return s, nil
}
