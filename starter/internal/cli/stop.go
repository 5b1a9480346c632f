package cli

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/spf13/cobra"

	"github.com/everturn/everturn/client"
	"github.com/everturn/everturn/workflows"
)

// stopFlags are the flags of stop.
type stopFlags struct {
	within time.Duration
	force  bool
}

func (a *app) stopCommand() *cobra.Command {
	var f stopFlags
	cmd := &cobra.Command{
		Use:   "stop [session]",
		Short: "Stop the running turn of a session",
		Long: `Stop the running turn of a session; the results so far are kept. Without a session, the only one
with a running turn.

A worker stops the turn within moments. If no worker does in time, --force ends the turn without
one: messages that the turn has accepted but not used are lost, and a tool call in progress is not
interrupted.`,
		Args:              cobra.MaximumNArgs(1),
		ValidArgsFunction: a.completeSessions(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.onSession(cmd.Context(), args, needs{}, (*turnClient).running,
				func(t *turnClient, session string) error { return a.stop(cmd.Context(), t, session, f) })
		},
	}
	cmd.Flags().DurationVar(&f.within, "timeout", stopWithin, "how long to wait for a worker to stop the turn")
	cmd.Flags().BoolVar(&f.force, "force", false, "end the turn if no worker stops it in time")
	return cmd
}

// stop stops a turn and prints how it ended. A turn that is already over is not an error.
func (a *app) stop(ctx context.Context, t *turnClient, session string, f stopFlags) error {
	if err := t.connectToTemporal(ctx); err != nil {
		return err
	}
	s, err := t.find(ctx, session, "")
	if err != nil {
		return err
	}
	r, err := t.stop(ctx, s, f)
	if err != nil {
		return err
	}
	if r.Message == "" {
		a.note("turn %s is %s", s.ID, r.State)
		return nil
	}
	a.note("turn %s is %s: %s", s.ID, r.State, r.Message)
	return nil
}

// stopWithin is how long a worker has to carry out a stop.
const stopWithin = 30 * time.Second

// stop asks Temporal to cancel the turn, waits until the turn is over and returns its result.
func (t *turnClient) stop(ctx context.Context, s started, f stopFlags) (workflows.Result, error) {
	waiting, cancel := context.WithTimeout(ctx, f.within)
	defer cancel()
	if err := t.client.Stop(waiting, s.Session); err != nil && !errors.Is(err, client.ErrNotRunning) {
		return workflows.Result{}, err
	}
	var r workflows.Result
	err := t.untilWorkerAnswers(func() (err error) { r, err = t.client.Wait(waiting, s.Turn); return err })
	switch {
	case err == nil || waiting.Err() != context.DeadlineExceeded:
		return r, err
	case !f.force:
		return r, &exitError{code: exitCancelled, cause: fmt.Errorf("no worker has stopped the turn within %s: it stops "+
			"when a worker runs; "+
			"`starter stop %s --force` ends it without one", f.within, quoted(s.Session))}
	}
	if err := t.client.Terminate(ctx, s.Session); err != nil && !errors.Is(err, client.ErrNotRunning) {
		return r, err
	}
	return t.client.Wait(ctx, s.Turn)
}

// attachHint returns the command that follows the turn again.
func (t *turnClient) attachHint(s started) string {
	if t.failed != nil { // the turn's worker ends with this command
		return "starter attach --dev " + quoted(s.Session)
	}
	return "starter attach " + quoted(s.Session)
}

// leave detaches, and stops the turn if the user then presses Ctrl-C again. After a SIGTERM, leave only detaches: its
// sender wants this program to end.
func (t *turnClient) leave(s started, first os.Signal, signals <-chan os.Signal) error {
	canStop := t.online && first == os.Interrupt
	hint := ""
	if canStop {
		hint = "; press Ctrl-C again to stop it"
	}
	after := "a worker continues the turn"
	if t.failed != nil {
		after = "the turn continues when a worker runs again, because the worker of --dev stops with this command"
	}
	t.app.note("\ndetached; %s. Follow it with `%s`%s", after, t.attachHint(s), hint)
	if !canStop || !pressedAgain(signals) {
		return errDetached
	}
	r, err := t.stop(context.Background(), s, stopFlags{within: stopWithin})
	if err != nil {
		return err
	}
	t.app.note("stopped: %s", r.Message)
	return &exitError{code: turnExit(r)}
}
