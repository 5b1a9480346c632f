package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	enumspb "go.temporal.io/api/enums/v1"
	"go.temporal.io/api/serviceerror"
	workflowpb "go.temporal.io/api/workflow/v1"
	"go.temporal.io/api/workflowservice/v1"

	"github.com/everturn/everturn/cluster"
	"github.com/everturn/everturn/config"
	"github.com/everturn/everturn/journal"
	"github.com/everturn/everturn/workflows"
)

// dialWithin is how long a command waits for a Temporal that it can do without.
const dialWithin = 3 * time.Second

// find names the turn to follow: the one that was named, or the session's last one, which Temporal may know before the
// journal does.
func (t *turnClient) find(ctx context.Context, session, turnID string) (started, error) {
	s := started{Version: workflows.WireVersion, Session: session, Turn: turnID}
	known, err := t.recall(ctx, &s)
	if err != nil {
		return s, err
	}
	over := turnID != "" && known.State.Terminal()
	if !over {
		if err := t.consult(ctx, &s, known); err != nil {
			return s, err
		}
	}
	s.Link = t.link(s)
	return s, nil
}

// recall looks the turn up in the journal. A zero record means that the journal does not have it.
func (t *turnClient) recall(ctx context.Context, s *started) (journal.TurnRecord, error) {
	if s.Turn != "" {
		row, err := t.store.Turn(ctx, s.Turn)
		switch {
		case errors.Is(err, journal.ErrNotFound):
			return journal.TurnRecord{}, nil
		case err == nil && row.Session != s.Session:
			return row, usage("turn %s belongs to session %q: use `starter attach %s --turn %s`", s.Turn, row.Session, quoted(row.Session), s.Turn)
		}
		return row, err
	}
	rec, err := t.store.Session(ctx, s.Session)
	if errors.Is(err, journal.ErrNotFound) {
		return journal.TurnRecord{}, nil
	}
	s.Turn = rec.LastTurn.ID
	return rec.LastTurn, err
}

// consult asks Temporal whether there is a later turn than the one that the journal knows. Without Temporal what the
// journal knows is enough.
func (t *turnClient) consult(ctx context.Context, s *started, known journal.TurnRecord) error {
	dialling, cancel := context.WithTimeout(ctx, dialWithin)
	defer cancel()
	if err := t.call(dialling); err != nil {
		var unreachable *cluster.Unreachable
		if known.State.Terminal() && errors.Is(err, config.ErrInvalid) {
			return nil // another folder's server has the address of ours, which is away
		}
		if known.ID == "" || !errors.As(err, &unreachable) && dialling.Err() == nil {
			return err
		}
		if !known.State.Terminal() {
			t.app.note("Temporal is away; the turn is shown as far as it goes (%v)", err)
		}
		return nil
	}
	if known.ID != "" && (s.Turn != known.ID || !known.State.Terminal()) {
		return nil
	}
	run := ""
	if known.ID == "" {
		run = s.Turn
	}
	d, err := t.client.DescribeWorkflowExecution(ctx, t.workflowID(s.Session), run)
	var unknown *serviceerror.NotFound
	var malformed *serviceerror.InvalidArgument // of an ID that is none
	switch {
	case err != nil && (errors.As(err, &unknown) || errors.As(err, &malformed)):
		return t.unknown(*s, known)
	case err != nil:
		return fmt.Errorf("asking Temporal for the session's turn: %w", err)
	case known.ID == "" || later(d.WorkflowExecutionInfo, known):
		s.Turn = d.WorkflowExecutionInfo.GetExecution().GetRunId()
	}
	return nil
}

// unknown is what a turn ends with that Temporal does not know.
func (t *turnClient) unknown(s started, known journal.TurnRecord) error {
	switch {
	case known.ID != "": // Temporal has forgotten it, and the journal has not
		return nil
	case s.Turn != "":
		return usage("session %q has no turn %q; `starter show %s` lists its turns", s.Session, s.Turn, quoted(s.Session))
	}
	return usage("Temporal knows no session %q; `starter list` lists what the journal has, and `starter show` shows it", s.Session)
}

// later reports whether a run began a turn that the journal does not have yet.
func later(run *workflowpb.WorkflowExecutionInfo, known journal.TurnRecord) bool {
	id := run.GetExecution().GetRunId()
	if id == known.ID || id == known.RunID {
		return false
	}
	return run.GetStatus() == enumspb.WORKFLOW_EXECUTION_STATUS_RUNNING || run.GetStartTime().AsTime().After(known.EndedAt)
}

// latest is the session that was used last.
func (t *turnClient) latest(ctx context.Context) (string, error) { return lastSession(ctx, t.store) }

// manyRunning is how many sessions are looked at for the one that has a turn.
const manyRunning = 20

// running is the one session that has a turn which is not over.
func (t *turnClient) running(ctx context.Context) (string, error) {
	if err := t.call(ctx); err != nil {
		return "", err
	}
	candidates, err := t.perhapsRunning(ctx)
	if err != nil {
		return "", err
	}
	var found []string
	for _, session := range candidates {
		runs, err := t.sessions.Running(ctx, session)
		if err != nil {
			return "", err
		}
		if runs {
			found = append(found, session)
		}
	}
	switch len(found) {
	case 0:
		return "", usage("no session has a turn that runs or waits; `starter list` lists the sessions")
	case 1:
		return found[0], nil
	}
	return "", usage("several sessions have a turn: name the one that is meant (%s)", line(strings.Join(found, ", "), 400))
}

// perhapsRunning are the sessions that may have a turn: those of which Temporal's list says so, which is a moment late, and
// those of which the journal does, which does not know what no worker has begun.
func (t *turnClient) perhapsRunning(ctx context.Context) ([]string, error) {
	listed, err := t.client.ListWorkflow(ctx, &workflowservice.ListWorkflowExecutionsRequest{
		Namespace: t.cfg.Temporal.Namespace, PageSize: manyRunning,
		Query: fmt.Sprintf("WorkflowType = '%s' AND ExecutionStatus = 'Running' AND TaskQueue = %s", workflows.TurnWorkflow, quotedValue(t.cfg.Temporal.TaskQueue)),
	})
	if err != nil {
		return nil, fmt.Errorf("asking Temporal which turns run: %w", err)
	}
	var found []string
	for _, e := range listed.GetExecutions() {
		if session, mine := workflows.SessionOf(t.cfg.Tenant, e.GetExecution().GetWorkflowId()); mine {
			found = append(found, session)
		}
	}
	known, err := t.store.Sessions(ctx, manyRunning)
	for _, s := range known {
		if !s.LastTurn.State.Terminal() && !slices.Contains(found, s.ID) {
			found = append(found, s.ID)
		}
	}
	return found, err
}
