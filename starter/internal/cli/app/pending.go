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

// NoteWait tells the user why the session's running turn waits, as Temporal knows it, and reports whether it does. The
// journal may be what the turn waits for.
func (t *TurnClient) NoteWait(ctx context.Context, session string) bool {
	if !t.Online || t.quiet {
		return false
	}
	d, err := t.conn.DescribeWorkflowExecution(ctx, t.Client.WorkflowID(session), "")
	if err != nil {
		return false
	}
	for _, pending := range d.GetPendingActivities() {
		if why := describeWait(pending); why != "" {
			t.App.Note("the turn waits: %s", why)
			return true
		}
	}
	return false
}

// describeWait says why an activity is tried again, and when; "" if no attempt of it has failed with a known code.
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
