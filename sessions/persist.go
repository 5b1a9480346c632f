package sessions

import (
	"context"
	"errors"
	"fmt"
	"time"

	"go.temporal.io/api/serviceerror"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/temporal"

	"github.com/everturn/everturn/workflows/turn"
)

// persistFor is how long a request is tried again whose context has no deadline of its own.
const persistFor = 30 * time.Second

// persist tries a request again while what stands in its way passes: a run that closes under it, a server that is busy
// or away, a turn that is just ending. Every request of this package may be repeated.
func (c *Client) persist(ctx context.Context, request func(context.Context) error) error {
	if _, bounded := ctx.Deadline(); !bounded {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, persistFor)
		defer cancel()
	}
	var last error
	for pause := 20 * time.Millisecond; ; pause = min(2*pause, time.Second) {
		attempt, cancel := context.WithTimeout(ctx, attemptWithin)
		err := request(attempt)
		slow := attempt.Err() != nil
		cancel()
		if err == nil {
			return nil
		}
		if errors.Is(ctx.Err(), context.Canceled) {
			return ctx.Err()
		}
		last = plain(err)
		if slow {
			last = fmt.Errorf("%w: %w", ErrNoWorker, last)
		}
		if !passes(last) && !slow {
			return last
		}
		timer := time.NewTimer(pause)
		select {
		case <-ctx.Done():
			timer.Stop()
			return last
		case <-timer.C:
		}
	}
}

// plain makes users' errors of a workflow's refusals.
func plain(err error) error {
	var app *temporal.ApplicationError
	var gone *serviceerror.NotFound
	switch {
	case errors.Is(err, errClosing):
		return err
	case errors.As(err, &app):
		return turn.Errorf(turn.Code(app.Type()), err, app.Message())
	case errors.As(err, &gone):
		return fmt.Errorf("%w: %w", ErrNotRunning, err)
	}
	return err
}

// passes reports whether trying again may help.
func passes(err error) bool {
	var busy *turn.Error
	var aborted *serviceerror.Aborted
	var unavailable *serviceerror.Unavailable
	var exhausted *serviceerror.ResourceExhausted
	var notReady *serviceerror.WorkflowNotReady
	var slow *client.WorkflowUpdateServiceTimeoutOrCanceledError
	switch {
	case errors.Is(err, errClosing):
		return true
	case errors.As(err, &busy):
		return busy.Code == turn.CodeSessionEnding
	case errors.As(err, &aborted), errors.As(err, &unavailable), errors.As(err, &exhausted), errors.As(err, &notReady), errors.As(err, &slow):
		return true
	}
	return false
}
