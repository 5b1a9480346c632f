package main

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"go.temporal.io/api/serviceerror"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/workflow"

	"github.com/everturn/everturn/journal"
	"github.com/everturn/everturn/workflows"
	"github.com/everturn/everturn/workflows/turn"
)

// errMovedOn: the run that was asked about has handed its session on to another one, and did not say what came of it.
var errMovedOn = errors.New("the session has gone on to another turn")

// verdict waits for Temporal's word on a turn. It is needed for turns that never reach the journal, or never end there:
// a message that was sent before, none at all, an input that cannot be run, a turn that was ended from outside.
func (t *turnClient) verdict(ctx context.Context, s started) (workflows.Result, error) {
	run := s.Turn
	for {
		r, err := t.closed(ctx, s, run)
		if !errors.Is(err, errMovedOn) {
			return r, err
		}
		row, err := t.store.Turn(ctx, s.Turn)
		if errors.Is(err, journal.ErrNotFound) || err == nil && row.State.Terminal() {
			return r, errMovedOn
		}
		if err != nil {
			return r, err
		}
		d, err := t.client.DescribeWorkflowExecution(ctx, t.workflowID(s.Session), "") // the turn goes on in a later run
		if err != nil {
			return r, fmt.Errorf("asking Temporal for the turn's next run: %w", err)
		}
		run = d.WorkflowExecutionInfo.GetExecution().GetRunId()
	}
}

// closed waits for the end of one run and returns what it came to: its value, or the detail of its failure or
// cancellation. errMovedOn where it was continued as another one.
func (t *turnClient) closed(ctx context.Context, s started, run string) (workflows.Result, error) {
	var r workflows.Result
	err := t.client.GetWorkflow(ctx, t.workflowID(s.Session), run).GetWithOptions(ctx, &r, client.WorkflowRunGetOptions{DisableFollowingRuns: true})
	if err == nil {
		return t.unabridged(ctx, r), nil
	}
	var on *workflow.ContinueAsNewError
	var app *temporal.ApplicationError
	var cancelled *temporal.CanceledError
	var terminated *temporal.TerminatedError
	var timeout *temporal.TimeoutError
	var unknown *serviceerror.NotFound
	switch {
	case errors.As(err, &on):
		return r, errMovedOn
	case errors.As(err, &app) && app.HasDetails() && app.Details(&r) == nil:
		return r, nil
	case errors.As(err, &cancelled) && cancelled.HasDetails() && cancelled.Details(&r) == nil:
		return r, nil
	case errors.As(err, &terminated), errors.As(err, &timeout):
		return workflows.Result{Version: workflows.WireVersion, Session: s.Session, Turn: s.Turn, State: turn.StateClosed, FinishReason: turn.FinishTerminated,
			Message: "the turn was ended from outside; what was done is kept, and the session's next turn goes on from it"}, nil
	case errors.As(err, &unknown):
		return r, usage("neither Temporal nor the journal knows a turn %q of session %q", s.Turn, s.Session)
	}
	return r, fmt.Errorf("waiting for the turn: %w", err)
}

// unabridged is r with the whole answer, where it is the beginning of another turn's and the journal has that.
func (t *turnClient) unabridged(ctx context.Context, r workflows.Result) workflows.Result {
	if r.Of == "" || !r.Truncated {
		return r
	}
	if first, err := t.recorded(ctx, r.Of, ""); err == nil {
		r.Answer, r.Truncated = first.Answer, first.Truncated
	}
	return r
}

// recorded is a turn's result as the journal has it. streamed is the text that its chunks have shown, if they were
// read: an answer that is too long for the turn's row is taken from there, or from the transcript.
func (t *turnClient) recorded(ctx context.Context, turnID, streamed string) (workflows.Result, error) {
	row, err := t.store.Turn(ctx, turnID)
	if err != nil {
		return workflows.Result{}, err
	}
	steps, err := t.store.Inferences(ctx, turnID)
	if err != nil {
		return workflows.Result{}, err
	}
	r := workflows.Result{
		Version: workflows.WireVersion, Session: row.Session, Turn: row.ID, State: row.State, FinishReason: row.Reason,
		Code: row.Code, Message: row.Message, Usage: row.Usage, Steps: row.Steps, ToolCalls: row.Calls,
	}
	said := ""
	for _, i := range steps {
		r.Model = i.Model
		if i.Settled {
			said = i.Message.Text
		}
	}
	r.Answer, r.Truncated = whole(row.Answer, streamed, said)
	return r, nil
}

// whole finds the text that preview is the cut beginning of; it is preview itself where nothing was cut.
func whole(preview string, candidates ...string) (text string, cut bool) {
	beginning, cut := strings.CutSuffix(preview, "…")
	if !cut {
		return preview, false
	}
	for _, c := range candidates {
		if len(c) > len(beginning) && c[:len(beginning)] == beginning {
			return c, false
		}
	}
	return preview, len(preview) > shortAnswer
}

// shortAnswer is an answer, in bytes, that no row of the journal cuts: an ellipsis at its end is the model's own.
const shortAnswer = 1 << 10
