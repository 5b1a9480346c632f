package client

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"time"

	"go.temporal.io/api/serviceerror"
	"go.temporal.io/sdk/client"

	"github.com/everturn/everturn/internal/temporalconn"
	"github.com/everturn/everturn/workflows/turn"
)

const (
	// persistFor is how long a request is retried if its context has no deadline.
	persistFor = 30 * time.Second
	// attemptWithin bounds one attempt: an update hangs instead of failing if no worker runs, or if ten others are in
	// flight for its workflow.
	attemptWithin = 10 * time.Second
	// versionLostAfter is how long a request waits for a worker before the client checks whether a worker of the turn's
	// version runs.
	versionLostAfter = time.Second
	// healthWithin bounds the health check of Temporal after a request that got no answer.
	healthWithin = 2 * time.Second
)

// errClosing means that the run of the turn closed before it took an update. The next attempt starts a new turn.
var errClosing = fmt.Errorf("%w: the turn has just ended", ErrBusy)

// update sends the update name with the argument arg to the session's running turn, and stores its result in res. It
// retries the update. All attempts have the same update ID, so the update takes effect once.
func (c *Client) update(ctx context.Context, session, name string, arg, res any) error {
	if c.temporal == nil {
		return ErrUnreachable
	}
	id := rand.Text()
	return c.askWorker(ctx, session, func(ctx context.Context) error {
		h, err := c.temporal.UpdateWorkflow(ctx, client.UpdateWorkflowOptions{
			WorkflowID: c.WorkflowID(session), UpdateID: id, UpdateName: name, Args: []any{arg},
			WaitForStage: client.WorkflowUpdateStageCompleted,
		})
		if err != nil {
			return err
		}
		return h.Get(ctx, res)
	})
}

// askWorker retries a request that a worker of the session's turn must answer. If no worker of the version to which the
// turn is pinned runs, it does not wait any longer and returns ErrVersionLost.
func (c *Client) askWorker(ctx context.Context, session string, request func(context.Context) error) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	checkVersion := func() {
		if why, err := temporalconn.LostVersionText(ctx, c.temporal, c.WorkflowID(session)); err == nil && why != "" {
			cancel(temporalconn.WithKind(ErrVersionLost, errors.New(why)))
		}
	}
	timer := time.AfterFunc(versionLostAfter, checkVersion)
	defer timer.Stop()
	err := c.retry(ctx, ErrNoWorker, request)
	// Without a worker, an update waits, but the server rejects a query at once, before the timer fires.
	var noPoller *serviceerror.FailedPrecondition
	if errors.As(err, &noPoller) {
		checkVersion()
	}
	if lost := context.Cause(ctx); err != nil && errors.Is(lost, ErrVersionLost) {
		return lost
	}
	return err
}

// retryRequest retries a request that Temporal answers without a worker, and returns its result.
func retryRequest[T any](ctx context.Context, c *Client, request func(context.Context) (T, error)) (res T, err error) {
	err = c.retry(ctx, ErrUnreachable, func(ctx context.Context) error {
		res, err = request(ctx)
		return err
	})
	return res, err
}

// retry repeats a request while its failure may be temporary: a server that is busy or unavailable, or a turn that is
// ending. It stops at the deadline of ctx, or after persistFor if there is none. The request must be idempotent. The
// error is that of the last attempt, as asClientError converts it, or that of ctx if ctx is cancelled. If the last
// attempt got no answer, the error is ErrUnreachable if Temporal does not answer a health check either, and otherwise
// unanswered.
func (c *Client) retry(ctx context.Context, unanswered error, request func(context.Context) error) error {
	if _, bounded := ctx.Deadline(); !bounded {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, persistFor)
		defer cancel()
	}
	for pause := 20 * time.Millisecond; ; pause = min(2*pause, time.Second) {
		attempt, cancel := context.WithTimeout(ctx, attemptWithin)
		err := request(attempt)
		slow := attempt.Err() != nil
		cancel()
		switch {
		case err == nil:
			return nil
		case errors.Is(ctx.Err(), context.Canceled):
			return ctx.Err()
		case slow: // the attempt got no answer: try again
		case !isRetryable(asClientError(err)):
			return asClientError(err)
		}
		timer := time.NewTimer(pause)
		select {
		case <-ctx.Done():
			timer.Stop()
			if !slow {
				return asClientError(err)
			}
			if !errors.Is(unanswered, ErrUnreachable) && !c.healthy(ctx) {
				unanswered = ErrUnreachable
			}
			return fmt.Errorf("%w: %w", unanswered, err)
		case <-timer.C:
		}
	}
}

// healthy reports whether Temporal answers a health check. It works even if ctx has ended.
func (c *Client) healthy(ctx context.Context) bool {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), healthWithin)
	defer cancel()
	_, err := c.temporal.CheckHealth(ctx, &client.CheckHealthRequest{})
	return ctx.Err() == nil && !isUnavailable(err)
}

// isRetryable reports whether a retry may succeed after err, an error of this package: the turn is ending, or Temporal
// is unavailable or busy.
func isRetryable(err error) bool {
	var refusal *turn.Error
	var aborted *serviceerror.Aborted
	var exhausted *serviceerror.ResourceExhausted
	var notReady *serviceerror.WorkflowNotReady
	var slow *client.WorkflowUpdateServiceTimeoutOrCanceledError
	switch {
	case errors.Is(err, errClosing):
		return true
	case errors.As(err, &refusal):
		return refusal.Code == turn.CodeSessionEnding
	}
	return isUnavailable(err) || errors.As(err, &aborted) || errors.As(err, &exhausted) || errors.As(err, &notReady) ||
		errors.As(err, &slow)
}
