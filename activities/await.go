package activities

import (
	"context"
	"errors"

	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/temporal"

	"github.com/everturn/everturn/workflows"
)

var (
	errLostTurn = errors.New("the workflow no longer waits for this activity")
	errStopping = errors.New("the worker stops, and the suspended call ends with it")
)

// AwaitCall keeps a suspended call open on this worker and returns when the call can no longer use a response. If the
// turn is stopped, the call is cancelled. If the worker stops, the call ends with it, and the error is final. If the
// activity ends for another reason, a later attempt may still continue the call.
func (a *Activities) AwaitCall(ctx context.Context, in workflows.AwaitCallInput) error {
	clock := startClock(ctx) // for its heartbeats
	defer clock.stop()
	// waiting does not end with the activity, because the reason why the activity ends decides what becomes of the call.
	waiting, cancel := context.WithCancelCause(context.WithoutCancel(ctx))
	defer cancel(nil)
	defer context.AfterFunc(ctx, func() {
		// The cause Canceled cancels the call; the cause DeadlineExceeded leaves it open: see Tools.Await. A stopped turn
		// may close before Temporal cancels the activity, so the journal is asked, too.
		if temporal.IsCanceledError(context.Cause(ctx)) || a.stopped(waiting, in.Turn) {
			cancel(context.Canceled)
		} else {
			cancel(context.DeadlineExceeded)
		}
	})()
	var stopping <-chan struct{}
	if activity.IsActivity(ctx) {
		stopping = activity.GetWorkerStopChannel(ctx)
	}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		a.tools.Await(waiting, in.Turn, in.Call)
	}()
	select {
	case <-ended:
	case <-stopping: // the connection to the server, and with it the call, ends with this worker
		cancel(context.DeadlineExceeded)
		<-ended
		return temporal.NewNonRetryableApplicationError(errStopping.Error(), "", errStopping)
	}
	switch {
	case temporal.IsCanceledError(context.Cause(ctx)):
		return temporal.NewCanceledError()
	case ctx.Err() != nil:
		return errLostTurn
	}
	return nil
}
