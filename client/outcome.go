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

// outcome is Temporal's answer to the question how a turn ended.
type outcome struct {
	result workflows.Result
	err    error
	// failed means that Temporal rejected the question: the turn may be running.
	failed bool
}

// errContinued means that the run was continued as another one, which runs the session's next turn.
var errContinued = errors.New("the session has gone on to another turn")

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

// turnOutcome waits for the end of a turn, across all of its runs. If no turn has taken the message that t names, it
// waits until the session's workflow has ended for good, because the message is lost then.
func (c *Client) turnOutcome(ctx context.Context, t Turn) outcome {
	if t.Merged {
		err := c.temporal.GetWorkflow(ctx, c.WorkflowID(t.Session), "").Get(ctx, nil)
		if !ended(err) {
			return unanswered(err)
		}
		return outcome{err: fmt.Errorf("message %s: %w", t.MessageID, ErrUndelivered)}
	}
	for run := t.ID; ; {
		end := c.runOutcome(ctx, t, run)
		if !errors.Is(end.err, errContinued) {
			return end
		}
		row, err := c.journal.Turn(ctx, t.ID)
		switch {
		case errors.Is(err, ErrNotFound) || err == nil && row.State.Terminal() || ctx.Err() != nil:
			return end
		case err != nil:
			pause(ctx)
			continue
		}
		d, err := c.temporal.DescribeWorkflowExecution(ctx, c.WorkflowID(t.Session), "") // the turn goes on in a later run
		if err != nil {
			return unanswered(err)
		}
		run = d.WorkflowExecutionInfo.GetExecution().GetRunId()
	}
}

// ended reports whether a run has ended, from the error of waiting for its end. Otherwise Temporal has rejected the
// request, and the run may continue.
func ended(err error) bool {
	var execution *temporal.WorkflowExecutionError
	var continued *workflow.ContinueAsNewError
	var unknown *serviceerror.NotFound
	return err == nil || errors.As(err, &execution) || errors.As(err, &continued) || errors.As(err, &unknown)
}

// unanswered returns the outcome if Temporal rejects the question.
func unanswered(err error) outcome {
	return outcome{err: fmt.Errorf("asking Temporal for the end of the turn: %w", asClientError(err)), failed: true}
}

// runOutcome waits for the end of one run. The result is its value, or the detail of its failure or cancellation.
func (c *Client) runOutcome(ctx context.Context, t Turn, run string) outcome {
	var r workflows.Result
	err := c.temporal.GetWorkflow(ctx, c.WorkflowID(t.Session), run).
		GetWithOptions(ctx, &r, client.WorkflowRunGetOptions{DisableFollowingRuns: true})
	if !ended(err) {
		return unanswered(err)
	}
	var continued *workflow.ContinueAsNewError
	var app *temporal.ApplicationError
	var cancelled *temporal.CanceledError
	var terminated *temporal.TerminatedError
	var timeout *temporal.TimeoutError
	var unknown *serviceerror.NotFound
	switch {
	case err == nil:
		return outcome{result: c.completeDuplicate(ctx, r)}
	case errors.As(err, &continued):
		return outcome{err: errContinued}
	case errors.As(err, &app) && app.HasDetails() && app.Details(&r) == nil:
		return outcome{result: r}
	case errors.As(err, &cancelled) && cancelled.HasDetails() && cancelled.Details(&r) == nil:
		return outcome{result: r}
	case errors.As(err, &terminated), errors.As(err, &timeout):
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
