package temporalconn

import (
	"context"
	"fmt"

	enumspb "go.temporal.io/api/enums/v1"
	"go.temporal.io/sdk/client"
)

// LostVersionText returns a message for the user if the running workflow with this ID gets no answer because it is
// pinned to a version of which no worker polls. Otherwise the message is empty.
func LostVersionText(ctx context.Context, c client.Client, workflowID string) (string, error) {
	got, err := c.DescribeWorkflowExecution(ctx, workflowID, "")
	if err != nil {
		return "", err
	}
	info := got.GetWorkflowExecutionInfo()
	version := info.GetVersioningInfo().GetDeploymentVersion()
	pinned := info.GetVersioningInfo().GetBehavior() == enumspb.VERSIONING_BEHAVIOR_PINNED
	if !pinned || version.GetBuildId() == "" || info.GetStatus() != enumspb.WORKFLOW_EXECUTION_STATUS_RUNNING {
		return "", nil
	}
	pollers, err := Pollers(ctx, c, got.GetExecutionConfig().GetTaskQueue().GetName())
	if err != nil {
		return "", err
	}
	for _, p := range pollers {
		if p.Deployment == version.GetDeploymentName() && p.BuildID == version.GetBuildId() {
			return "", nil
		}
	}
	return fmt.Sprintf("the turn stays on version %s of deployment %s, and no worker of that version runs: start one, "+
		"which can be stopped after `everturn rollout drain %s`", version.GetBuildId(), version.GetDeploymentName(),
		version.GetBuildId()), nil
}
