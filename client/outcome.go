package client

import (
	"context"
	"errors"
	"fmt"
	"time"

	"go.temporal.io/api/serviceerror"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/workflow"

	"github.com/everturn/everturn/workflows"
	"github.com/everturn/everturn/workflows/turn"
)

// Some turns never reach the journal or never end there: a message that was sent before, an input that cannot be run, a
// turn that was terminated. Temporal reports how those ended.

// outcome is the end of a turn as Temporal reports it.
type outcome struct {
	result workflows.Result
	err    error
}

// errContinued means that the run was continued as another one, which runs the session's next turn.
var errContinued = errors.New("the session has gone on to another turn")

// awayPause is the pause before the client asks Temporal again after it did not answer.
const awayPause = time.Second

// await asks Temporal for the end of a turn, and asks again while Temporal does not answer.
func (c *Client) await(ctx context.Context, t Turn) chan outcome {
	over := make(chan outcome, 1)
	go func() {
		for {
			var end outcome
			if t.Merged {
				end.err = c.lost(ctx, t)
			} else {
				end.result, end.err = c.outcome(ctx, t)
			}
			if !away(end.err) || ctx.Err() != nil {
				over <- end
				return
			}
			select {
			case <-ctx.Done():
			case <-time.After(awayPause):
			}
		}
	}()
	return over
}

// lost waits until the session's workflow has ended for good. A merged message that is in no turn by then is lost.
func (c *Client) lost(ctx context.Context, t Turn) error {
	err := c.temporal.GetWorkflow(ctx, c.WorkflowID(t.Session), "").Get(ctx, nil)
	if ctx.Err() != nil || away(err) {
		return err
	}
	return fmt.Errorf("message %s: %w", t.MessageID, ErrUndelivered)
}

// outcome waits for the end of a turn, across all of its runs.
func (c *Client) outcome(ctx context.Context, t Turn) (workflows.Result, error) {
	for run := t.ID; ; {
		r, err := c.closed(ctx, t, run)
		if !errors.Is(err, errContinued) {
			return r, err
		}
		row, err := c.journal.Turn(ctx, t.ID)
		if errors.Is(err, ErrNotFound) || err == nil && row.State.Terminal() {
			return r, errContinued
		}
		if err != nil {
			return r, err
		}
		d, err := c.temporal.DescribeWorkflowExecution(ctx, c.WorkflowID(t.Session), "") // the turn goes on in a later run
		if err != nil {
			return r, fmt.Errorf("asking Temporal for the turn's next run: %w", err)
		}
		run = d.WorkflowExecutionInfo.GetExecution().GetRunId()
	}
}

// closed waits for the end of one run. The result is its value, or the detail of its failure or cancellation.
func (c *Client) closed(ctx context.Context, t Turn, run string) (workflows.Result, error) {
	var r workflows.Result
	err := c.temporal.GetWorkflow(ctx, c.WorkflowID(t.Session), run).
		GetWithOptions(ctx, &r, client.WorkflowRunGetOptions{DisableFollowingRuns: true})
	if err == nil {
		return c.unabridged(ctx, r), nil
	}
	var continued *workflow.ContinueAsNewError
	var app *temporal.ApplicationError
	var cancelled *temporal.CanceledError
	var terminated *temporal.TerminatedError
	var timeout *temporal.TimeoutError
	var unknown *serviceerror.NotFound
	switch {
	case errors.As(err, &continued):
		return r, errContinued
	case errors.As(err, &app) && app.HasDetails() && app.Details(&r) == nil:
		return r, nil
	case errors.As(err, &cancelled) && cancelled.HasDetails() && cancelled.Details(&r) == nil:
		return r, nil
	case errors.As(err, &terminated), errors.As(err, &timeout):
		return workflows.Result{
			Version: workflows.WireVersion, Session: t.Session, Turn: t.ID,
			State: turn.StateClosed, FinishReason: turn.FinishTerminated,
			Message: "the turn was ended from outside; what was done is kept, and the session's next turn goes on from it",
		}, nil
	case errors.As(err, &unknown):
		return r, fmt.Errorf("neither Temporal nor the journal knows turn %q of session %q: %w", t.ID, t.Session, ErrNotFound)
	}
	return r, fmt.Errorf("waiting for the turn: %w", err)
}

// unabridged completes the answer of a duplicate from the journal. The duplicate's result has only the beginning of
// another turn's answer.
func (c *Client) unabridged(ctx context.Context, r workflows.Result) workflows.Result {
	if r.DuplicateOf == "" || !r.Truncated {
		return r
	}
	if first, err := c.recorded(ctx, r.DuplicateOf); err == nil {
		r.Answer, r.Truncated = first.Answer, first.Truncated
	}
	return r
}
