package check

import (
	"time"

	enumspb "go.temporal.io/api/enums/v1"
	historypb "go.temporal.io/api/history/v1"
)

// stops checks, if the schedule leaves a worker alive to see a stop, that a stopped turn is over soon: I1 says that
// there is an answer, and the answer to a stop waits for nothing.
func (c *checker) stops() {
	if c.Run.StopWithin == 0 {
		return
	}
	for name, h := range c.Histories {
		seen, over := stopSeen(h)
		if took := over.Sub(seen); !seen.IsZero() && took > c.Run.StopWithin {
			c.breaks(I1, "run %s was over %s after a worker had seen that it was stopped", name, took.Round(time.Millisecond))
		}
	}
}

// stopSeen returns when a worker began the first task that told it of a stop, and when the run was over, by the
// server's clock. Both are zero if the run was not stopped. A task that was lost with its worker was not seen.
func stopSeen(h *historypb.History) (seen, over time.Time) {
	started := map[int64]time.Time{}
	stopped := false
	for _, e := range h.Events {
		switch e.EventType {
		case enumspb.EVENT_TYPE_WORKFLOW_EXECUTION_CANCEL_REQUESTED:
			stopped = true
		case enumspb.EVENT_TYPE_WORKFLOW_TASK_STARTED:
			if stopped {
				started[e.EventId] = e.GetEventTime().AsTime()
			}
		case enumspb.EVENT_TYPE_WORKFLOW_TASK_COMPLETED:
			at, known := started[e.GetWorkflowTaskCompletedEventAttributes().GetStartedEventId()]
			if known && seen.IsZero() {
				seen = at
			}
		}
		over = e.GetEventTime().AsTime()
	}
	return seen, over
}
