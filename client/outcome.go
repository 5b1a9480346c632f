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

// outcome is Temporal's answer to the question how a turn ended.
type outcome struct {
	result workflows.Result
	err    error
	// failed means that Temporal rejected the question: the turn may be running.
	failed bool
}

// askAgainAfter is the pause before the client asks Temporal or the journal again after a failure.
const askAgainAfter = time.Second

// awaitOutcome asks Temporal for the end of a turn, and asks again while Temporal does not answer. If persistent is
// set, it also asks again after every other failure.
func (c *Client) awaitOutcome(ctx context.Context, t Turn, persistent bool) chan outcome {
	over := make(chan outcome, 1)
	go func() {
		for {
			end := c.turnOutcome(ctx, t)
			if !end.failed || !persistent && !isUnavailable(end.err) || ctx.Err() != nil {
				over <- end
				return
			}
			pause(ctx)
		}
	}()
	return over
}

func pause(ctx context.Context) {
	select {
	case <-ctx.Done():
	case <-time.After(askAgainAfter):
	}
}

// turnOutcome waits for the end of a turn, across all of its runs. If no turn has used the message that t names, it
// waits until all turns that have accepted the message, one after the other, have ended: the message is lost then.
func (c *Client) turnOutcome(ctx context.Context, t Turn) outcome {
	if !t.Merged {
		return c.runOutcome(ctx, t, t.ID)
	}
	for {
		first, run, err := c.currentRun(ctx, t)
		if err == nil {
			t.ID = first
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

// currentRun returns the turn's ID and its latest run, which is not that of the ID if the turn was reset. If t names no
// turn, it is the session's latest one.
func (c *Client) currentRun(ctx context.Context, t Turn) (id, run string, err error) {
	d, err := c.temporal.DescribeWorkflowExecution(ctx, c.WorkflowID(t.Session), "")
	if err != nil {
		return t.ID, "", err
	}
	info := d.WorkflowExecutionInfo
	if t.ID != "" && t.ID != info.GetFirstRunId() {
		return t.ID, t.ID, nil
	}
	return cmp.Or(info.GetFirstRunId(), info.GetExecution().GetRunId()), info.GetExecution().GetRunId(), nil
}

// nextTurn returns the turn that accepted the message after the turn t ended without using it, or an empty string if the
// message was not sent again.
func (c *Client) nextTurn(ctx context.Context, t Turn) (string, error) {
	var sent workflows.DeliverResult
	err := c.temporal.GetWorkflow(ctx, workflows.HandOnID(c.WorkflowID(t.Session), t.ID), "").Get(ctx, &sent)
	if err != nil && ended(err) {
		return "", nil
	}
	return sent.Accepted[t.MessageID], err
}

// ended reports whether a run has ended, from the error of waiting for its end. Otherwise Temporal has rejected the
// request, and the run may continue.
func ended(err error) bool {
	var execution *temporal.WorkflowExecutionError
	var unknown *serviceerror.NotFound
	return err == nil || errors.As(err, &execution) || errors.As(err, &unknown)
}

// unanswered returns the outcome if Temporal rejects the question.
func unanswered(err error) outcome {
	return outcome{err: fmt.Errorf("asking Temporal for the end of the turn: %w", asClientError(err)), failed: true}
}

// runOutcome waits for the end of a turn, which is in the chain of runs that run belongs to, or in a later one if the
// turn was reset. The result is its value, or the detail of its failure or cancellation.
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

// completeDuplicate completes the answer of a duplicate from the journal. The duplicate's result has only the beginning
// of another turn's answer.
func (c *Client) completeDuplicate(ctx context.Context, r workflows.Result) workflows.Result {
	if r.DuplicateOf == "" || !r.Truncated {
		return r
	}
	if first, err := c.journalResult(ctx, r.DuplicateOf); err == nil {
		r.Answer, r.Truncated = first.Answer, first.Truncated
	}
	return r
}
