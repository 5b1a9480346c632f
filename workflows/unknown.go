package workflows

import (
	"fmt"

	"go.temporal.io/sdk/converter"
	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/workflow"

	"github.com/everturn/everturn/workflows/turn"
)

// Unknown fails a workflow whose type the worker does not know. Without it, the SDK would retry the first workflow task
// without end, and the workflow would hold the ID of its session: no turn could begin, and a cancellation would have no
// effect.
func Unknown(ctx workflow.Context, _ converter.EncodedValues) error {
	return temporal.NewNonRetryableApplicationError(
		fmt.Sprintf("workflow type %q is unknown here: the types are %s, %s and %s", workflow.GetInfo(ctx).WorkflowType.Name,
			TurnWorkflow, DeliverWorkflow, CompactWorkflow),
		string(turn.CodeConfigInvalid), nil)
}
