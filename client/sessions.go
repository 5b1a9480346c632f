package client

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"time"

	enumspb "go.temporal.io/api/enums/v1"
	"go.temporal.io/api/serviceerror"
	workflowpb "go.temporal.io/api/workflow/v1"
	"go.temporal.io/api/workflowservice/v1"

	"github.com/everturn/everturn/internal/temporalconn"
	"github.com/everturn/everturn/journal"
	"github.com/everturn/everturn/workflows"
	"github.com/everturn/everturn/workflows/turn"
)

// Sessions returns at most limit sessions that the journal has, the most recently used first.
func (c *Client) Sessions(ctx context.Context, limit int) ([]journal.SessionRecord, error) {
	if c.journal == nil {
		return nil, ErrNoJournal
	}
	return c.journal.Sessions(ctx, limit)
}

// Find returns the session's turn with this ID, or its last one if id is empty. Temporal may know a turn before the
// journal does, and the journal knows turns that Temporal has forgotten.
//
// Errors: ErrNotFound, ErrUnreachable, and those of the journal.
func (c *Client) Find(ctx context.Context, session, id string) (Turn, error) {
	t := Turn{Session: session, ID: id}
	known, err := c.recordedTurn(ctx, t)
	if err != nil && !errors.Is(err, ErrNotFound) {
		return t, err
	}
	found := id != "" && known.ID != ""
	t.ID = cmp.Or(known.ID, id)
	// The journal's last turn is also the session's last one while it has not ended. Otherwise a newer turn may have
	// started in Temporal that no worker has begun.
	if found || known.ID != "" && (c.temporal == nil || !known.State.Terminal()) {
		return t, nil
	}
	if c.temporal == nil {
		return t, fmt.Errorf("session %q: %w", session, ErrNotFound)
	}
	d, err := c.describe(ctx, session, id)
	var unknown *serviceerror.NotFound
	var malformed *serviceerror.InvalidArgument // an ID that Temporal never gives
	switch {
	case (errors.As(err, &unknown) || errors.As(err, &malformed)) && known.ID != "":
		return t, nil // Temporal has forgotten it
	case errors.As(err, &unknown), errors.As(err, &malformed):
		return t, fmt.Errorf("session %q: no such turn in Temporal, and %w", session, ErrNotFound)
	case err != nil:
		return t, fmt.Errorf("asking Temporal for the session's turn: %w", err)
	case known.ID == "" || isNewerRun(d.WorkflowExecutionInfo, known):
		t.ID = d.WorkflowExecutionInfo.GetExecution().GetRunId()
	}
	return t, nil
}

// Snapshot returns the state of the session's running turn, with the messages that it has accepted and not used yet. It
// needs a running worker, which answers the query.
//
// Errors: ErrNotRunning, ErrNoWorker, ErrUnreachable.
func (c *Client) Snapshot(ctx context.Context, session string) (workflows.Snapshot, error) {
	var s workflows.Snapshot
	if c.temporal == nil {
		return s, ErrUnreachable
	}
	err := c.askWorker(ctx, session, func(ctx context.Context) error {
		value, err := c.temporal.QueryWorkflow(ctx, c.WorkflowID(session), "", workflows.StateQuery)
		if err != nil {
			return err
		}
		return value.Get(&s)
	})
	return s, err
}

func (c *Client) describe(
	ctx context.Context, session, run string,
) (*workflowservice.DescribeWorkflowExecutionResponse, error) {
	return retryRequest(ctx, c, func(ctx context.Context) (*workflowservice.DescribeWorkflowExecutionResponse, error) {
		return c.temporal.DescribeWorkflowExecution(ctx, c.WorkflowID(session), run)
	})
}

// recordedTurn returns the journal's record of the turn t.ID, or of the session's last turn if t.ID is empty. If the
// journal has no such turn, it returns a zero record and ErrNotFound, or no error if the session exists without turns.
func (c *Client) recordedTurn(ctx context.Context, t Turn) (journal.TurnRecord, error) {
	switch {
	case c.journal == nil:
		return journal.TurnRecord{}, ErrNotFound
	case t.ID == "":
		rec, err := c.journal.Session(ctx, t.Session)
		return rec.LastTurn, err
	}
	row, err := c.journal.Turn(ctx, t.ID)
	if err == nil && row.Session != t.Session {
		return journal.TurnRecord{}, fmt.Errorf("turn %s is of another session than %q: %w", t.ID, t.Session, ErrNotFound)
	}
	return row, err
}

// isNewerRun reports whether run belongs to a later turn than known, the last turn in the journal.
func isNewerRun(run *workflowpb.WorkflowExecutionInfo, known journal.TurnRecord) bool {
	id := run.GetExecution().GetRunId()
	if id == known.ID || id == known.RunID {
		return false
	}
	return run.GetStatus() == enumspb.WORKFLOW_EXECUTION_STATUS_RUNNING || run.GetStartTime().AsTime().After(known.EndedAt)
}

// Running reports whether the session has a turn that is running or waiting. Errors: ErrUnreachable.
func (c *Client) Running(ctx context.Context, session string) (bool, error) {
	run, err := c.runningRun(ctx, session)
	return run != "", err
}

// runningRun returns the run ID of the session's running turn, or an empty string if there is none.
func (c *Client) runningRun(ctx context.Context, session string) (string, error) {
	if c.temporal == nil {
		return "", ErrUnreachable
	}
	d, err := c.describe(ctx, session, "")
	var unknown *serviceerror.NotFound
	switch {
	case errors.As(err, &unknown):
		return "", nil
	case err != nil:
		return "", fmt.Errorf("asking Temporal for the session's turn: %w", err)
	}
	info := d.GetWorkflowExecutionInfo()
	if info.GetStatus() != enumspb.WORKFLOW_EXECUTION_STATUS_RUNNING {
		return "", nil
	}
	return info.GetExecution().GetRunId(), nil
}

// runningLimit is how many sessions RunningSessions examines, in Temporal and in the journal each.
const runningLimit = 20

// RunningSessions returns the IDs of the sessions, among the 20 latest, that have a running or waiting turn. If only
// the journal fails, it returns the sessions that Temporal knows with the error.
//
// Errors: ErrUnreachable, and those of the journal.
func (c *Client) RunningSessions(ctx context.Context) ([]string, error) {
	candidates, err := c.runningCandidates(ctx)
	var found []string
	for _, session := range candidates {
		running, err := c.Running(ctx, session)
		if err != nil {
			return nil, err
		}
		if running {
			found = append(found, session)
		}
	}
	return found, err
}

// runningCandidates returns the sessions that may have a running turn. It combines Temporal's list, which lags
// slightly, with the journal's, which lacks turns that no worker has begun. If only the journal fails, it returns
// Temporal's sessions with the error.
func (c *Client) runningCandidates(ctx context.Context) ([]string, error) {
	if c.temporal == nil {
		return nil, ErrUnreachable
	}
	listed, err := retryRequest(ctx, c, func(ctx context.Context) (*workflowservice.ListWorkflowExecutionsResponse,
		error) {
		return c.temporal.ListWorkflow(ctx, &workflowservice.ListWorkflowExecutionsRequest{
			PageSize: runningLimit,
			Query: fmt.Sprintf("WorkflowType = '%s' AND ExecutionStatus = 'Running' AND TaskQueue = %s",
				workflows.TurnWorkflow, strconv.Quote(c.options.TaskQueue)),
		})
	})
	if err != nil {
		return nil, fmt.Errorf("listing the running turns: %w", err)
	}
	var found []string
	for _, e := range listed.GetExecutions() {
		if session, own := workflows.SessionOf(c.options.Tenant, e.GetExecution().GetWorkflowId()); own {
			found = append(found, session)
		}
	}
	if c.journal == nil {
		return found, nil
	}
	recent, err := c.journal.Sessions(ctx, runningLimit)
	for _, s := range recent {
		if !s.LastTurn.State.Terminal() && !slices.Contains(found, s.ID) {
			found = append(found, s.ID)
		}
	}
	return found, err
}

// Stop stops the session's running turn, and the subagents in the background that this or an earlier turn has called.
// It returns as soon as Temporal has accepted the stop. If a worker runs, the turn ends within moments; Wait returns
// its result. Everything done so far is kept. A client without a journal stops only the running turn, which then stops
// the subagents.
//
// Errors: ErrNotRunning, ErrUnreachable, and those of the journal.
func (c *Client) Stop(ctx context.Context, session string) error {
	return c.endAll(ctx, session, func(ctx context.Context, run string) error {
		return c.temporal.CancelWorkflow(ctx, c.WorkflowID(session), run)
	})
}

// Terminate ends the session's running turn at once, even if no worker runs. It is for a turn that does not end after
// Stop: messages that the turn has accepted and not used are lost, a tool call in progress continues, and the journal
// shows the turn as running until the session's next turn closes it. Subagents in the background are stopped.
//
// Errors: ErrNotRunning, ErrUnreachable, and those of the journal.
func (c *Client) Terminate(ctx context.Context, session string) error {
	return c.endAll(ctx, session, func(ctx context.Context, run string) error {
		return c.temporal.TerminateWorkflow(ctx, c.WorkflowID(session), run, "stopped by force")
	})
}

// endAll stops the session's subagents in the background and then ends its running turn with request. The subagents
// come first, because the answer of one could begin another turn. endAll returns ErrNotRunning only if there was
// neither a turn nor a subagent to stop.
func (c *Client) endAll(ctx context.Context, session string, request func(ctx context.Context, run string) error) error {
	if c.temporal == nil {
		return ErrUnreachable
	}
	stopped, subagentsErr := c.stopSubagents(ctx, session)
	err := c.end(ctx, session, request)
	// If a turn was running, an error about subagents does not matter: a turn that ends stops them, too.
	if errors.Is(err, ErrNotRunning) && (stopped || subagentsErr != nil) {
		return subagentsErr
	}
	return err
}

// stopSubagents stops the session's subagents in the background, and reports whether there are any. Without a journal,
// the client does not know them.
func (c *Client) stopSubagents(ctx context.Context, session string) (any bool, err error) {
	if c.journal == nil {
		return false, nil
	}
	names, err := c.journal.StopSubagents(ctx, session)
	for _, name := range names {
		id := workflows.BackgroundID(c.options.Tenant, name)
		cancelled := c.retry(ctx, ErrUnreachable, func(ctx context.Context) error {
			return c.temporal.CancelWorkflow(ctx, id, "")
		})
		if cancelled != nil && !errors.Is(cancelled, ErrNotRunning) {
			err = errors.Join(err, fmt.Errorf("stopping a subagent: %w", cancelled))
		}
	}
	return len(names) > 0, err
}

// end ends the session's running turn. request asks Temporal to cancel or terminate a run; end retries it. All attempts
// name the same run, because the reply to one may be lost, and the next attempt must not end a turn that has started
// since.
func (c *Client) end(ctx context.Context, session string, request func(ctx context.Context, run string) error) error {
	for last := ""; ; {
		// Temporal accepts the cancellation of a run that has ended, so end must find out itself whether a turn is running.
		run, err := c.runningRun(ctx, session)
		switch {
		case err != nil:
			return err
		case run == "", run == last: // no run, or the one that has just ended
			return ErrNotRunning
		}
		last = run
		mayHaveEnded := false // an earlier attempt failed, but Temporal may have carried it out
		err = c.retry(ctx, ErrUnreachable, func(ctx context.Context) error {
			err := request(ctx, run)
			gone := errors.Is(asClientError(err), ErrNotRunning)
			if mayHaveEnded && gone {
				return nil
			}
			mayHaveEnded = mayHaveEnded || err != nil && !gone
			return err
		})
		switch {
		case err == nil:
			return nil
		case !errors.Is(err, ErrNotRunning): // otherwise the turn may have continued in a new run
			return fmt.Errorf("stopping the turn: %w", err)
		}
	}
}

// ForkInput names a session to fork.
type ForkInput struct {
	Session string
	// At is the number of the last message to share, from 1; 0 means all messages that the journal has.
	At int64
	// ID is the new session's; empty means a random one.
	ID string
}

// Fork creates a session that shares another session's messages up to a point. The other session does not change.
//
// Errors: ErrNotFound, ErrExists, ErrForkPoint, ErrInvalid.
func (c *Client) Fork(ctx context.Context, in ForkInput) (journal.SessionRecord, error) {
	if c.journal == nil {
		return journal.SessionRecord{}, ErrNoJournal
	}
	if in.ID == "" {
		in.ID = NewSessionID()
	}
	if err := turn.CheckSession(in.ID); err != nil {
		return journal.SessionRecord{}, temporalconn.WithKind(ErrInvalid, err)
	}
	if in.At == 0 {
		rec, err := c.journal.Session(ctx, in.Session)
		if err != nil {
			return rec, err
		}
		in.At = rec.Head.Seq
	}
	rec, err := c.journal.Fork(ctx, journal.ForkInput{Session: in.Session, At: in.At, ID: in.ID, Time: time.Now()})
	if errors.Is(err, journal.ErrExists) {
		err = temporalconn.WithKind(ErrExists, err)
	}
	return rec, err
}
