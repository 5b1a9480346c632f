package client

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"go.temporal.io/api/serviceerror"
	"go.temporal.io/sdk/temporal"

	"github.com/everturn/everturn/workflows"
	"github.com/everturn/everturn/workflows/turn"
)

// Some turns never reach the journal or never end there: a message that was sent before, an input that cannot be run, a
// turn that was terminated. Temporal reports how those ended.

// outcome is how a turn ended, as Temporal reports it: with a result or an error.
type outcome struct {
	result workflows.Result
	err    error
	// failed means that the request to Temporal failed with err: the turn may be running.
	failed bool
}

// askAgainAfter is the pause before the client asks Temporal or the journal again after a failure.
const askAgainAfter = time.Second

// awaitOutcome waits in the background for the end of a turn, and returns a channel that receives the outcome. It
// repeats the request while Temporal does not answer; with persistent, it also repeats a request that Temporal rejects.
func (c *Client) awaitOutcome(ctx context.Context, t Turn, persistent bool) chan outcome {
	outcomes := make(chan outcome, 1) // buffered: the receiver may have gone
	go func() {
		for {
			o := c.turnOutcome(ctx, t)
			repeat := o.failed && (persistent || isUnavailable(o.err)) && ctx.Err() == nil
			if !repeat {
				outcomes <- o
				return
			}
			pause(ctx)
		}
	}()
	return outcomes
}

// pause waits for askAgainAfter, or until ctx ends.
func pause(ctx context.Context) {
	select {
	case <-ctx.Done():
	case <-time.After(askAgainAfter):
	}
}

// turnOutcome waits for the end of a turn, across all of its runs. A turn that accepted a merged message may end
// without using it and hand it on; turnOutcome then waits for the next turn. If no turn uses it, the outcome is
// ErrUndelivered, unless the journal has the message by then.
func (c *Client) turnOutcome(ctx context.Context, t Turn) outcome {
	if !t.Merged {
		return c.runOutcome(ctx, t, t.ID)
	}
	for {
		id, run, err := c.currentRun(ctx, t)
		if err == nil {
			t.ID = id
			err = c.temporal.GetWorkflow(ctx, c.WorkflowID(t.Session), run).Get(ctx, nil)
		}
		if !ended(err) {
			return unanswered(err)
		}
		if t.ID, err = c.nextTurn(ctx, t); err != nil {
			return unanswered(err)
		}
		if t.ID == "" {
			return outcome{err: fmt.Errorf("message %s: %w", t.MessageID, ErrUndelivered)}
		}
	}
}

// currentRun returns the ID of the turn t, or of the session's latest turn if t names none, and the ID of its latest
// run. The two differ if the turn has continued in another run or was reset: a turn's ID is the ID of its first run. If
// a later turn has begun, currentRun returns the first run of t, from which Temporal's client finds the later ones.
func (c *Client) currentRun(ctx context.Context, t Turn) (id, run string, err error) {
	d, err := c.temporal.DescribeWorkflowExecution(ctx, c.WorkflowID(t.Session), "")
	if err != nil {
		return t.ID, "", err
	}
	info := d.WorkflowExecutionInfo
	if t.ID != "" && t.ID != info.GetFirstRunId() { // the latest run belongs to a later turn
		return t.ID, t.ID, nil
	}
	return cmp.Or(info.GetFirstRunId(), info.GetExecution().GetRunId()), info.GetExecution().GetRunId(), nil
}

// nextTurn waits for the delivery of the messages that the turn t has left, and returns the turn that has accepted the
// message t.MessageID, or "" if the delivery did not send it.
func (c *Client) nextTurn(ctx context.Context, t Turn) (string, error) {
	var delivered workflows.DeliverResult
	err := c.temporal.GetWorkflow(ctx, workflows.HandOnID(c.WorkflowID(t.Session), t.ID), "").Get(ctx, &delivered)
	if err != nil && ended(err) { // the delivery failed, or there was none
		return "", nil
	}
	return delivered.Accepted[t.MessageID], err
}

// ended reports whether a run has ended or does not exist. err is the result of waiting for its end. Any other error
// means that the wait failed, and that the run may continue.
func ended(err error) bool {
	var execution *temporal.WorkflowExecutionError
	var unknown *serviceerror.NotFound
	return err == nil || errors.As(err, &execution) || errors.As(err, &unknown)
}

// unanswered returns the outcome of a turn for whose end the client could not wait, because of err.
func unanswered(err error) outcome {
	return outcome{err: fmt.Errorf("asking Temporal for the end of the turn: %w", asClientError(err)), failed: true}
}

// runOutcome waits for the end of the turn's chain of runs to which run belongs, or of the chain that replaced it if
// the turn was reset. A turn that failed or was cancelled has its result in the details of the error.
func (c *Client) runOutcome(ctx context.Context, t Turn, run string) outcome {
	var r workflows.Result
	err := c.temporal.GetWorkflow(ctx, c.WorkflowID(t.Session), run).Get(ctx, &r)
	if !ended(err) {
		return unanswered(err)
	}
	var app *temporal.ApplicationError
	var cancelled *temporal.CanceledError
	var terminated *temporal.TerminatedError
	var timeout *temporal.TimeoutError
	var unknown *serviceerror.NotFound
	switch {
	case err == nil:
		return outcome{result: c.completeDuplicate(ctx, r)}
	case errors.As(err, &app) && app.HasDetails() && app.Details(&r) == nil:
		return outcome{result: r}
	case errors.As(err, &cancelled) && cancelled.HasDetails() && cancelled.Details(&r) == nil:
		return outcome{result: r}
	case errors.As(err, &terminated), errors.As(err, &timeout):
		if _, latest, err := c.currentRun(ctx, t); !ended(err) {
			return unanswered(err)
		} else if err == nil && latest != run { // the turn was reset, and goes on in another run
			return c.runOutcome(ctx, t, latest)
		}
		return outcome{result: workflows.Result{
			Version: workflows.WireVersion, Session: t.Session, Turn: t.ID,
			State: turn.StateClosed, FinishReason: turn.FinishTerminated,
			Message: "the turn was ended from outside; its work so far is kept, and the session's next turn continues from it",
		}}
	case errors.As(err, &unknown):
		return outcome{err: fmt.Errorf("turn %q of session %q is neither in Temporal nor in the journal: %w",
			t.ID, t.Session, ErrNotFound)}
	}
	return outcome{err: fmt.Errorf("waiting for the turn: %w", err)}
}

// completeDuplicate returns r with its whole answer, if r is the result of a turn whose message is a duplicate and the
// answer is truncated. The whole answer is in the journal, in the turn that has answered the message.
func (c *Client) completeDuplicate(ctx context.Context, r workflows.Result) workflows.Result {
	if r.DuplicateOf == "" || !r.Truncated {
		return r
	}
	if first, err := c.journalResult(ctx, r.DuplicateOf); err == nil {
		r.Answer, r.Truncated = first.Answer, first.Truncated
	}
	return r
}
