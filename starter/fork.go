package main

import (
	"context"
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/everturn/everturn/client"
	"github.com/everturn/everturn/journal"
	"github.com/everturn/everturn/workflows/turn"
)

func (a *app) forkCommand() *cobra.Command {
	var at int64
	var as string
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "fork <session> --at N",
		Short: "Begin a session that shares another one's past; the other one stays as it is",
		Long: `Begin a session that shares another one's messages up to number N, as show numbers them. Nothing is copied, and the
other session stays as it is. Without --at, all of its messages are shared.`,
		Args:              cobra.ExactArgs(1),
		ValidArgsFunction: a.completeSessions(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if cmd.Flags().Changed("at") && at < 1 {
				return usage("--at is %d: the first message is number 1", at)
			}
			return a.branch(cmd.Context(), args, at, as, asJSON)
		},
	}
	flags := cmd.Flags()
	flags.Int64Var(&at, "at", 0, "the `number` of the last message that is shared")
	flags.StringVar(&as, "as", "", "the new session's `ID`")
	flags.BoolVar(&asJSON, "json", false, "print JSON")
	return cmd
}

func (a *app) rewindCommand() *cobra.Command {
	var to int64
	var as string
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "rewind [session] --to N",
		Short: "Go on from an earlier message, in a new session; the old one stays as it is",
		Long: `Go on from message N, as show numbers them: what came later is left out of the new session that begins there. The old
one stays as it is, and diff shows both.`,
		Args:              cobra.MaximumNArgs(1),
		ValidArgsFunction: a.completeSessions(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if to < 1 {
				return usage("--to names the last message to keep, from 1 on: `starter show` numbers them")
			}
			return a.branch(cmd.Context(), args, to, as, asJSON)
		},
	}
	flags := cmd.Flags()
	flags.Int64Var(&to, "to", 0, "the `number` of the last message to keep")
	flags.StringVar(&as, "as", "", "the new session's `ID`")
	flags.BoolVar(&asJSON, "json", false, "print JSON")
	return cmd
}

// branch creates a fork of a session and prints how to continue it.
func (a *app) branch(ctx context.Context, args []string, at int64, as string, asJSON bool) error {
	if err := turn.CheckSession(as); as != "" && err != nil {
		return usage("--as: %w", err)
	}
	loaded, err := a.load()
	if err != nil {
		return err
	}
	store, err := readJournal(ctx, loaded.Config)
	if err != nil {
		return err
	}
	defer store.Close()
	session, err := sessionArg(ctx, store, args)
	if err != nil {
		return err
	}
	rec, err := a.newTurnClient(nil, store, loaded.Config, nil).fork(ctx, session, at, as)
	if err != nil {
		return err
	}
	if asJSON {
		return writeJSON(a.out, rec)
	}
	fmt.Fprintln(a.out, line(rec.ID, 250))
	a.note("it shares the messages 1 to %d of %s, which stays as it is; go on with\n  starter run -s %s \"...\"", rec.ForkSeq, rec.Parent, quoted(rec.ID))
	return nil
}

// fork creates a session that shares messages 1..at of another one, or all messages if at is 0. An empty ID makes the
// client choose one.
func (t *turnClient) fork(ctx context.Context, session string, at int64, as string) (journal.SessionRecord, error) {
	rec, err := t.client.Fork(ctx, client.ForkInput{Session: session, At: at, ID: as})
	switch {
	case errors.Is(err, client.ErrNotFound):
		return rec, usage("the journal has no session %q; `starter list` lists them", session)
	case errors.Is(err, client.ErrForkPoint):
		return rec, usage("%w; `starter show %s` numbers its messages", err, quoted(session))
	case errors.Is(err, client.ErrExists):
		return rec, usage("there is a session %q already: choose another name, or go on with it by `starter run -s %s \"...\"`", as, quoted(as))
	}
	return rec, err
}
