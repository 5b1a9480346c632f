package cli

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
	var as, output string
	cmd := &cobra.Command{
		Use:   "fork <session> --at N",
		Short: "Create a session that shares another session's messages",
		Long: `Create a session that shares another session's messages up to number N (starter show numbers them).
Nothing is copied, and the other session does not change. Without --at, it shares all messages.`,
		Args:              cobra.ExactArgs(1),
		ValidArgsFunction: a.completeSessions(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if cmd.Flags().Changed("at") && at < 1 {
				return usage("--at is %d: the first message is number 1", at)
			}
			return a.branch(cmd.Context(), args, at, as, output)
		},
	}
	flags := cmd.Flags()
	flags.Int64Var(&at, "at", 0, "the `number` of the last shared message")
	flags.StringVar(&as, "as", "", "the `ID` of the new session")
	outputFlag(cmd, &output, outputText, outputJSON)
	return cmd
}

// branch creates a fork of a session and prints how to continue it.
func (a *app) branch(ctx context.Context, args []string, at int64, as, output string) error {
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
	if output == outputJSON {
		return writeJSON(a.out, rec)
	}
	fmt.Fprintln(a.out, line(rec.ID, 250))
	a.note("it shares messages 1 to %d of %s; continue it with\n  starter run -s %s \"...\"", rec.ForkSeq, rec.Parent,
		quoted(rec.ID))
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
		return rec, usage("session %q already exists: choose another name, or continue it with `starter run -s %s \"...\"`",
			as, quoted(as))
	}
	return rec, err
}
