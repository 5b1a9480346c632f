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

// Run replays the history of one run on the code as it is, which the changes are put around: each is a way in which
// code may be incompatible. The error is ErrNondeterministic where the code does not fit the history.
//
// The replayer is a worker in all that matters to a replay: the workflows under their names, the default data and failure
// converters and the default panic policy, BlockWorkflow. TestTheReplayerIsLikeTheWorker holds the engine to that.
func Run(events []*historypb.HistoryEvent, changes ...interceptor.WorkerInterceptor) error {
	started := begun(events)
	if started == nil {
		return fmt.Errorf("replaying a history: its first event is not that of a run's start")
	}
	seen := &witness{}
	replayer, err := worker.NewWorkflowReplayerWithOptions(worker.WorkflowReplayerOptions{
		Interceptors: append([]interceptor.WorkerInterceptor{seen}, changes...), // around the changes, so that it sees what they make
	})
	if err != nil {
		return fmt.Errorf("making a replayer: %w", err)
	}
	replayer.RegisterWorkflowWithOptions(workflows.Turn, workflow.RegisterOptions{Name: workflows.TurnWorkflow})
	replayer.RegisterWorkflowWithOptions(workflows.Deliver, workflow.RegisterOptions{Name: workflows.DeliverWorkflow})
	quiet := log.NewStructuredLogger(slog.New(slog.NewTextHandler(io.Discard, nil)))
	err = replayer.ReplayWorkflowHistoryWithOptions(quiet, &historypb.History{Events: events}, worker.ReplayWorkflowHistoryOptions{
		// Under its own ID, with which the session's is compared.
		OriginalExecution: workflow.Execution{ID: started.GetWorkflowId(), RunID: started.GetOriginalExecutionRunId()},
	})
	if err == nil || strings.Contains(err.Error(), otherEnd) { // the latter comes with two whole events: say it in short
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

// ErrNondeterministic says that the code is not the one that made the history, nor one that is compatible with it.
var ErrNondeterministic = errors.New("nondeterministic")

// What the SDK's errors say: Temporal's code for such a mismatch, which begins each that is found under way, and its
// words for another ending.
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
