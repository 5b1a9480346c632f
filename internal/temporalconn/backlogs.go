package temporalconn

import (
	"context"
	"fmt"
	"strings"
	"time"

	enumspb "go.temporal.io/api/enums/v1"
	taskqueuepb "go.temporal.io/api/taskqueue/v1"
	"go.temporal.io/api/workflowservice/v1"
	"go.temporal.io/sdk/client"
)

// Backlog is the number of tasks of one type that wait in a task queue, and the age of the oldest one. Both are the
// server's estimates.
type Backlog struct {
	TaskType string // workflow or activity
	Tasks    int64
	Age      time.Duration
}

// Backlogs returns the backlogs of a task queue: one for workflow tasks and one for activity tasks.
func Backlogs(ctx context.Context, c client.Client, namespace, queue string) (list []Backlog, err error) {
	for _, kind := range []enumspb.TaskQueueType{enumspb.TASK_QUEUE_TYPE_WORKFLOW, enumspb.TASK_QUEUE_TYPE_ACTIVITY} {
		got, err := c.WorkflowService().DescribeTaskQueue(ctx, &workflowservice.DescribeTaskQueueRequest{
			Namespace: namespace, TaskQueue: &taskqueuepb.TaskQueue{Name: queue}, TaskQueueType: kind, ReportStats: true,
		})
		if err != nil {
			return nil, fmt.Errorf("reading the backlog of task queue %s: %w", queue, err)
		}
		list = append(list, Backlog{TaskType: strings.ToLower(kind.String()),
			Tasks: got.GetStats().GetApproximateBacklogCount(), Age: got.GetStats().GetApproximateBacklogAge().AsDuration()})
	}
	return list, nil
}
