package temporalconn

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	enumspb "go.temporal.io/api/enums/v1"
	"go.temporal.io/api/serviceerror"
	"go.temporal.io/api/workflowservice/v1"
	"go.temporal.io/sdk/client"
)

// Worker is the part of a worker process that polls one task queue.
type Worker struct {
	Identity  string `json:"identity"`
	Host      string `json:"host"`
	TaskQueue string `json:"task_queue"`
	// Deployment and BuildID are empty for a worker without a version.
	Deployment string    `json:"deployment,omitempty"`
	BuildID    string    `json:"build_id,omitempty"`
	State      string    `json:"state"` // running or shutting_down
	StartedAt  time.Time `json:"started_at"`
}

// Workers returns the workers that poll a task queue or one derived from it. It reads the heartbeats that each worker
// sends once a minute, so a killed worker is listed for some minutes, unless it ran on this machine. The error is
// config.ErrInvalid if the server does not list workers.
func Workers(ctx context.Context, c client.Client, namespace, queue string) (list []Worker, err error) {
	for token := []byte(nil); ; {
		got, err := c.WorkflowService().ListWorkers(ctx, &workflowservice.ListWorkersRequest{
			Namespace: namespace, NextPageToken: token,
		})
		var missing *serviceerror.Unimplemented
		switch {
		case errors.As(err, &missing):
			return nil, invalid("this Temporal server does not list workers: a server of version 1.30 or newer does, the " +
				"development server does not")
		case err != nil:
			return nil, fmt.Errorf("listing the workers: %w", err)
		}
		for _, w := range got.GetWorkers() {
			identity, _, _ := strings.Cut(w.GetWorkerIdentity(), journalSeparator)
			mine := w.GetTaskQueue() == queue || strings.HasPrefix(w.GetTaskQueue(), queue+"-")
			if !mine || w.GetStatus() == enumspb.WORKER_STATUS_SHUTDOWN || hasEnded(identity) {
				continue
			}
			list = append(list, Worker{
				Identity: identity, Host: w.GetHostName(), TaskQueue: w.GetTaskQueue(),
				Deployment: w.GetDeploymentVersion().GetDeploymentName(), BuildID: w.GetDeploymentVersion().GetBuildId(),
				State: stateOf(w.GetStatus()), StartedAt: w.GetStartTime().AsTime(),
			})
		}
		if token = got.GetNextPageToken(); len(token) == 0 {
			slices.SortFunc(list, func(a, b Worker) int {
				return cmp.Or(cmp.Compare(a.Identity, b.Identity), cmp.Compare(a.TaskQueue, b.TaskQueue))
			})
			return list, nil
		}
	}
}

// stateOf returns Worker.State for the server's status.
func stateOf(s enumspb.WorkerStatus) string {
	if s == enumspb.WORKER_STATUS_SHUTTING_DOWN {
		return "shutting_down"
	}
	return "running"
}
