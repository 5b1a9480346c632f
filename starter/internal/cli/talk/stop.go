package talk

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/spf13/cobra"

	"github.com/everturn/everturn/client"
	"github.com/everturn/everturn/starter/internal/cli/app"
)

// stopFlags are the flags of stop.
type stopFlags struct {
	within time.Duration // how long to wait for a worker
	force  bool
}

// Stop returns the command that stops a turn.
func Stop(a *app.App) *cobra.Command {
	var f stopFlags
	cmd := &cobra.Command{
		Use:   "stop [session]",
		Short: "Stop the running turn of a session",
		Long: `Stop the running turn of a session, and the subagents that work for the session in the background;
the results so far are kept. Without a session, the only one with a running turn.

A worker stops the turn within moments. If no worker does in time, --force ends the turn without
one: messages that the turn has accepted but not used are lost, and a tool call in progress is not
interrupted.`,
		Args:              cobra.MaximumNArgs(1),
		ValidArgsFunction: a.CompleteSessions(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.OnSession(cmd.Context(), args, app.Needs{}, (*app.TurnClient).Running,
				func(t *app.TurnClient, session string) error { return stopTurn(cmd.Context(), a, t, session, f) })
		},
	}
	cmd.Flags().DurationVar(&f.within, "timeout", stopWithin, "how long to wait for a worker to stop the turn")
	cmd.Flags().BoolVar(&f.force, "force", false, "end the turn if no worker stops it in time")
	return cmd
}

// stopTurn stops a turn and prints how it ended. A turn that is already over is not an error.
func stopTurn(ctx context.Context, a *app.App, t *app.TurnClient, session string, f stopFlags) error {
	if err := t.ConnectToTemporal(ctx); err != nil {
		return err
	}
	s, err := t.Find(ctx, session, "")
	if err != nil {
		return err
	}
	before, err := t.Journal.Turn(ctx, s.ID)
	if err != nil && !errors.Is(err, client.ErrNotFound) {
		return err
	}
	r, stopped, err := cancelAndWait(ctx, t, s, f)
	if err != nil {
		return err
	}
	if stopped && before.State.Terminal() {
		a.Note("the turn had ended; the subagents that worked in the background are stopped")
		return nil
	}
	if r.Message == "" {
		a.Note("turn %s is %s", s.ID, r.State)
		return nil
	}
	a.Note("turn %s is %s: %s", s.ID, r.State, r.Message)
	return nil
}

// stopWithin is the default time to wait until a worker has stopped a turn.
const stopWithin = 30 * time.Second

// cancelAndWait requests the cancellation of the session's turn and of its subagents in the background, waits until
// turn s has ended and returns its result. If no worker stops it within f.within, cancelAndWait terminates it if
// f.force is set, and otherwise returns an error with the code ExitTimeout. stopped is false if nothing was running.
func cancelAndWait(ctx context.Context, t *app.TurnClient, s app.Started,
	f stopFlags) (r client.Result, stopped bool, err error) {
	limited, cancel := context.WithTimeout(ctx, f.within)
	defer cancel()
	err = t.Client.Stop(limited, s.Session)
	if stopped = err == nil; err != nil && !errors.Is(err, client.ErrNotRunning) {
		return r, false, err
	}
	err = t.AwaitWorker(ctx, func() (err error) { r, err = t.Client.Wait(limited, s.Turn); return err })
	switch {
	case err == nil || limited.Err() != context.DeadlineExceeded:
		return r, stopped, err
	case !f.force:
		return r, stopped, &app.ExitError{Code: app.ExitTimeout, Cause: fmt.Errorf("no worker has stopped the turn within %s: "+
			"it stops when a worker runs; `everturn stop %s --force` ends it without one", f.within, app.Quoted(s.Session))}
	}
	if err := t.Client.Terminate(ctx, s.Session); err != nil && !errors.Is(err, client.ErrNotRunning) {
		return r, stopped, err
	}
	r, err = t.Client.Wait(ctx, s.Turn)
	return r, true, err
}

// attachHint returns the command with which the user can follow the turn again.
func attachHint(t *app.TurnClient, s app.Started) string {
	if t.Failed != nil { // the turn's worker ends with this command
		return "everturn attach --dev " + app.Quoted(s.Session)
	}
	return "everturn attach " + app.Quoted(s.Session)
}

// detach ends the command before the turn because of a signal. It prints how to follow the turn again, and returns
// app.ErrDetached. It stops the turn if the user then presses Ctrl-C again, or if no other worker can continue the turn
// (stopOnLeave). After a SIGTERM it does not wait for a Ctrl-C.
func (f *follower) detach(ctx context.Context, first os.Signal) error {
	if f.options.stopOnLeave {
		return f.stopTurn(ctx)
	}
	canStop := f.Online && first == os.Interrupt
	hint := ""
	if canStop {
		hint = "; press Ctrl-C again to stop it"
	}
	after := "a worker continues the turn"
	if f.Failed != nil {
		after = "the turn continues when a worker runs again, because the worker of --dev stops with this command"
	}
	f.App.Note("\ndetached; %s. Follow it with `%s`%s", after, attachHint(f.TurnClient, f.turn), hint)
	if !canStop || !app.PressedAgain(f.signals) {
		return app.ErrDetached
	}
	return f.stopTurn(ctx)
}

// stopTurn stops the followed turn, also after ctx has ended, and returns an error with the exit code for its result.
func (f *follower) stopTurn(ctx context.Context) error {
	r, _, err := cancelAndWait(context.WithoutCancel(ctx), f.TurnClient, f.turn, stopFlags{within: stopWithin})
	if err != nil {
		return err
	}
	f.App.Note("stopped: %s", r.Message)
	return &app.ExitError{Code: app.TurnExit(r.Result)}
}
