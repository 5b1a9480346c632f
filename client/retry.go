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
	// versionLostAfter is how long a worker has time to answer before the client looks whether any can.
	versionLostAfter = time.Second
	// healthWithin bounds the question whether Temporal answers at all, after a request that it did not answer.
	healthWithin = 2 * time.Second
)

// errClosing means that the run that an update was for has closed. The next attempt starts a new one.
var errClosing = fmt.Errorf("%w: the turn has just ended", ErrBusy)

// update sends an update to the running turn. It sends the update again if the turn reports no such request: a worker
// that takes over a turn receives the update before it has replayed up to the request.
func (c *Client) update(ctx context.Context, session, name string, arg, res any) error {
	if c.temporal == nil {
		return ErrUnreachable
	}
	err := c.request(ctx, session, name, arg, res)
	if errors.Is(err, ErrNotPending) {
		err = c.request(ctx, session, name, arg, res)
	}
	return err
}

// request sends an update. All attempts have one update ID, so it takes effect once.
func (c *Client) request(ctx context.Context, session, name string, arg, res any) error {
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

// askWorker persists in a request that only a worker of the session's turn answers. It gives up early, with an error
// that says so, if the turn stays on a version of the worker that no longer runs.
func (c *Client) askWorker(ctx context.Context, session string, request func(context.Context) error) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	look := func() {
		if why, err := temporalconn.VersionLost(ctx, c.temporal, c.WorkflowID(session)); err == nil && why != "" {
			cancel(temporalconn.WithKind(ErrVersionLost, errors.New(why)))
		}
	}
	timer := time.AfterFunc(versionLostAfter, look)
	defer timer.Stop()
	err := c.retry(ctx, ErrNoWorker, request)
	var unpolled *serviceerror.FailedPrecondition // the server refuses a query at once
	if errors.As(err, &unpolled) {
		look()
	}
	if lost := context.Cause(ctx); err != nil && errors.Is(lost, ErrVersionLost) {
		return lost
	}
	return err
}

// retryRequest persists in a request that Temporal answers without a worker.
func retryRequest[T any](ctx context.Context, c *Client, request func(context.Context) (T, error)) (res T, err error) {
	err = c.retry(ctx, ErrUnreachable, func(ctx context.Context) error {
		res, err = request(ctx)
		return err
	})
	return res, err
}

// retry retries a request while its failure may be temporary: a run that closes, a server that is busy or
// unavailable, a turn that is ending. The request must be idempotent. unanswered is the error of a request that got no
// answer although Temporal is healthy.
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
		case slow:
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

// healthy reports whether Temporal answers, even if ctx has ended.
func (c *Client) healthy(ctx context.Context) bool {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), healthWithin)
	defer cancel()
	_, err := c.temporal.CheckHealth(ctx, &client.CheckHealthRequest{})
	return ctx.Err() == nil && !isUnavailable(err)
}

// isRetryable reports whether a retry may help.
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
