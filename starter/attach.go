package main

import (
	"context"
	"fmt"
	"time"

	"github.com/spf13/cobra"

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
			return a.withTurn(cmd.Context(), args, dev, func(ctx context.Context, t *turnClient, s started) error {
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
			return a.withTurn(cmd.Context(), args, false, func(ctx context.Context, t *turnClient, s started) error {
				if err := t.client.CancelWorkflow(ctx, s.Session, ""); err != nil {
					return fmt.Errorf("stopping the turn: %w", err)
				}
				ctx, cancel := context.WithTimeout(ctx, time.Minute)
				defer cancel()
				r, err := t.result(ctx, s)
				if err != nil {
					return err
				}
				a.note("%s: %s", r.State, r.Message)
				return nil
			})
		},
	}
}

// withTurn does something with the last turn of a session: one that runs, or the last that the journal has.
func (a *app) withTurn(ctx context.Context, args []string, dev bool, do func(context.Context, *turnClient, started) error) error {
	loaded, err := a.load()
	if err != nil {
		return err
	}
	stack, cfg, err := a.bringUp(ctx, loaded.Config, dev, dev)
	if err != nil {
		return err
	}
	defer stack.close()
	store, err := openJournal(ctx, cfg)
	if err != nil {
		return err
	}
	defer store.Close()
	c, err := a.dial(ctx, cfg)
	if err != nil {
		return err
	}
	defer c.Close()
	t := &turnClient{app: a, client: c, store: store, cfg: cfg}
	s, err := t.find(ctx, args)
	if err != nil {
		return err
	}
	return do(ctx, t, s)
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
	if err != nil {
		return started{}, usage("there is no session %q in Temporal (%v); `starter list` lists what the journal has", session, err)
	}
	s := started{Version: workflows.WireVersion, Session: session, Turn: d.WorkflowExecutionInfo.GetFirstRunId()}
	s.Link = t.link(s)
	return s, nil
}
