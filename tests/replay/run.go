package replay

import (
	"errors"
	"fmt"
	"io"
	"log/slog"
	"strings"

	enumspb "go.temporal.io/api/enums/v1"
	historypb "go.temporal.io/api/history/v1"
	"go.temporal.io/sdk/interceptor"
	"go.temporal.io/sdk/log"
	"go.temporal.io/sdk/worker"
	"go.temporal.io/sdk/workflow"

	"github.com/everturn/everturn/workflows"
)

// Run replays the history of one run on the current code. changes wrap that code: each is a way in which code may be
// incompatible. Run returns ErrNondeterministic if the code does not fit the history.
//
// The replayer is a worker in everything that matters to a replay: the workflows under their names, the default data
// and failure converters and the default panic policy, worker.BlockWorkflow. TestTheReplayerIsLikeTheWorker checks that
// the engine matches.
func Run(events []*historypb.HistoryEvent, changes ...interceptor.WorkerInterceptor) error {
	started := begun(events)
	if started == nil {
		return fmt.Errorf("replaying a history: its first event is not that of a run's start")
	}
	seen := &witness{}
	replayer, err := worker.NewWorkflowReplayerWithOptions(worker.WorkflowReplayerOptions{
		// around the changes, so that it sees their effects
		Interceptors: append([]interceptor.WorkerInterceptor{seen}, changes...),
	})
	if err != nil {
		return fmt.Errorf("making a replayer: %w", err)
	}
	replayer.RegisterWorkflowWithOptions(workflows.Turn, workflow.RegisterOptions{Name: workflows.TurnWorkflow})
	replayer.RegisterWorkflowWithOptions(workflows.Deliver, workflow.RegisterOptions{Name: workflows.DeliverWorkflow})
	replayer.RegisterWorkflowWithOptions(workflows.Compact, workflow.RegisterOptions{Name: workflows.CompactWorkflow})
	quiet := log.NewStructuredLogger(slog.New(slog.NewTextHandler(io.Discard, nil)))
	err = replayer.ReplayWorkflowHistoryWithOptions(quiet, &historypb.History{Events: events},
		worker.ReplayWorkflowHistoryOptions{
			// The run keeps its own ID, which the code compares with the session's.
			OriginalExecution: workflow.Execution{ID: started.GetWorkflowId(), RunID: started.GetOriginalExecutionRunId()},
		})
	if err == nil || strings.Contains(err.Error(), otherEnd) { // the latter contains two whole events: report it briefly
		if differs := seen.compare(events); differs != nil {
			err = fmt.Errorf("%w: %w", ErrNondeterministic, differs)
		}
	} else if strings.Contains(err.Error(), mismatch) {
		err = fmt.Errorf("%w: %w", ErrNondeterministic, err)
	}
	if err != nil {
		return fmt.Errorf("replaying %s: %w", started.GetWorkflowId(), err)
	}
	return nil
}

// ErrNondeterministic reports that neither this code nor a compatible version made the history.
var ErrNondeterministic = errors.New("nondeterministic")

// Parts of the SDK's errors: Temporal's code for such a mismatch, which begins each error found during the run, and its
// message for a different ending.
const (
	mismatch = "TMPRL1100"
	otherEnd = "doesn't return the same result as the last event"
)

func begun(events []*historypb.HistoryEvent) *historypb.WorkflowExecutionStartedEventAttributes {
	if len(events) == 0 || events[0].GetEventType() != enumspb.EVENT_TYPE_WORKFLOW_EXECUTION_STARTED {
		return nil
	}
	return events[0].GetWorkflowExecutionStartedEventAttributes()
}
