package replay

import (
	"errors"

	commonpb "go.temporal.io/api/common/v1"
	enumspb "go.temporal.io/api/enums/v1"
	failurepb "go.temporal.io/api/failure/v1"
	historypb "go.temporal.io/api/history/v1"
	"go.temporal.io/sdk/converter"

	"github.com/everturn/everturn/workflows"
)

// reason returns the name of a failure.
func reason(f *failurepb.Failure) string {
	switch {
	case f.GetApplicationFailureInfo() != nil:
		return f.GetApplicationFailureInfo().Type
	case f.GetCanceledFailureInfo() != nil:
		return "cancelled"
	case f.GetTimeoutFailureInfo() != nil:
		return f.GetTimeoutFailureInfo().TimeoutType.String()
	}
	return f.GetMessage()
}

// Ending returns how a run closed, the last part of its outline. It is empty if the run is open.
func Ending(events []*historypb.HistoryEvent) string {
	if len(events) == 0 {
		return ""
	}
	last := events[len(events)-1]
	switch last.EventType {
	case enumspb.EVENT_TYPE_WORKFLOW_EXECUTION_COMPLETED:
		var res workflows.Result
		if err := decode(last.GetWorkflowExecutionCompletedEventAttributes().GetResult(), &res); err != nil {
			return "completed with something else: " + err.Error()
		}
		return "completed: " + string(res.FinishReason)
	case enumspb.EVENT_TYPE_WORKFLOW_EXECUTION_FAILED:
		return "failed: " + reason(last.GetWorkflowExecutionFailedEventAttributes().GetFailure())
	case enumspb.EVENT_TYPE_WORKFLOW_EXECUTION_CANCELED:
		return "cancelled"
	case enumspb.EVENT_TYPE_WORKFLOW_EXECUTION_CONTINUED_AS_NEW:
		return "continued"
	case enumspb.EVENT_TYPE_WORKFLOW_EXECUTION_TERMINATED:
		return "terminated"
	case enumspb.EVENT_TYPE_WORKFLOW_EXECUTION_TIMED_OUT:
		return "timed out"
	}
	return ""
}

// closedByCode reports whether the workflow itself ended the run.
func closedByCode(events []*historypb.HistoryEvent) bool {
	switch events[len(events)-1].EventType {
	case enumspb.EVENT_TYPE_WORKFLOW_EXECUTION_TERMINATED, enumspb.EVENT_TYPE_WORKFLOW_EXECUTION_TIMED_OUT:
		return false
	}
	return true
}

func decode(p *commonpb.Payloads, to any) error {
	if len(p.GetPayloads()) == 0 {
		return errors.New("there is nothing")
	}
	return converter.GetDefaultDataConverter().FromPayloads(p, to)
}
