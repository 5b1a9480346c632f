package sessions

import (
	"context"
	"errors"
	"fmt"

	enumspb "go.temporal.io/api/enums/v1"
	"go.temporal.io/api/serviceerror"
)

// Running reports whether the session has a turn that runs or waits. Of a session that Temporal does not know, or knows no
// more, it has none.
func (c *Client) Running(ctx context.Context, session string) (bool, error) {
	d, err := c.temporal.DescribeWorkflowExecution(ctx, c.workflowID(session), "")
	var unknown *serviceerror.NotFound
	switch {
	case errors.As(err, &unknown):
		return false, nil
	case err != nil:
		return false, fmt.Errorf("looking at the session: %w", err)
	}
	return d.GetWorkflowExecutionInfo().GetStatus() == enumspb.WORKFLOW_EXECUTION_STATUS_RUNNING, nil
}
