package app

import (
	"context"
	"fmt"
	"strings"
	"time"

	workflowpb "go.temporal.io/api/workflow/v1"

	"github.com/everturn/everturn/starter/internal/ui/termsafe"
	"github.com/everturn/everturn/workflows/turn"
)

// NoteWait prints why an activity of the session's running turn is being retried, for example because the provider or
// the journal is unavailable, and reports whether it printed anything. The reason comes from Temporal, because the
// journal may be the part that is unavailable.
func (t *TurnClient) NoteWait(ctx context.Context, session string) bool {
	if !t.Online || t.quiet {
		return false
	}
	why := t.retried(ctx, session)
	if why != "" {
		t.App.Note("the turn waits: %s", why)
	}
	return why != ""
}

// retried returns why an activity of the session's running turn is being retried, or "" if none is or Temporal does not
// say so.
func (t *TurnClient) retried(ctx context.Context, session string) string {
	d, err := t.conn.DescribeWorkflowExecution(ctx, t.Client.WorkflowID(session), "")
	if err != nil {
		return ""
	}
	for _, pending := range d.GetPendingActivities() {
		if why := describeWait(pending); why != "" {
			return why
		}
	}
	return ""
}

// describeWait returns why an activity is retried, and the time of the next attempt, unless the failure's message has
// it. It returns "" if the last attempt did not fail with a turn.Code.
func describeWait(p *workflowpb.PendingActivityInfo) string {
	failure := p.GetLastFailure()
	if !turn.Code(failure.GetApplicationFailureInfo().GetType()).Known() {
		return ""
	}
	why := strings.TrimSuffix(termsafe.Line(failure.GetMessage(), 300), ".")
	if next := p.GetNextAttemptScheduleTime(); next != nil && !strings.Contains(why, "next attempt") {
		why += fmt.Sprintf("; next attempt %s", next.AsTime().Local().Format(time.TimeOnly))
	}
	return why
}
