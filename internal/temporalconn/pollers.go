package temporalconn

import (
	"context"
	"fmt"
	"strings"
	"time"

	enumspb "go.temporal.io/api/enums/v1"
	"go.temporal.io/sdk/client"
)

// maxPollAge is the longest time since the last poll of a worker that still runs: a poll lasts up to a minute (the
// server's matching.longPollExpirationInterval), and the next one follows immediately.
const maxPollAge = 70 * time.Second

// Poller is a worker that polls a task queue, or did so about a minute ago or less.
type Poller struct {
	Identity string
	// Journal is the ID of the worker's journal, and Settings the hash of what turns take from its configuration (see
	// config.Config.Settings). Both are empty if its identity does not contain them.
	Journal, Settings string
	// Deployment and BuildID are the worker's version; both are empty for a worker without one.
	Deployment, BuildID string
}

// Pollers returns the workers that poll the task queue for workflow tasks. It leaves out workers of this machine that
// have ended; the server lists them for some minutes.
func Pollers(ctx context.Context, c client.Client, queue string) ([]Poller, error) {
	return pollers(ctx, c, queue, enumspb.TASK_QUEUE_TYPE_WORKFLOW)
}

// ActivityPollers returns the workers that poll the task queue for activity tasks, as Pollers does for workflow
// tasks.
func ActivityPollers(ctx context.Context, c client.Client, queue string) ([]Poller, error) {
	return pollers(ctx, c, queue, enumspb.TASK_QUEUE_TYPE_ACTIVITY)
}

// pollers does the work of Pollers and ActivityPollers.
func pollers(ctx context.Context, c client.Client, queue string, kind enumspb.TaskQueueType) (list []Poller,
	err error) {
	got, err := c.DescribeTaskQueue(ctx, queue, kind)
	if err != nil {
		return nil, fmt.Errorf("listing the workers of task queue %s: %w", queue, err)
	}
	for _, p := range got.GetPollers() {
		identity, mark, _ := strings.Cut(p.GetIdentity(), journalSeparator)
		if time.Since(p.GetLastAccessTime().AsTime()) < maxPollAge && !hasEnded(identity) {
			journal, settings, _ := strings.Cut(mark, settingsSeparator)
			version := p.GetDeploymentOptions()
			if version.GetWorkerVersioningMode() != enumspb.WORKER_VERSIONING_MODE_VERSIONED {
				version = nil
			}
			list = append(list, Poller{Identity: identity, Journal: journal, Settings: settings,
				Deployment: version.GetDeploymentName(), BuildID: version.GetBuildId()})
		}
	}
	return list, nil
}

// Host returns the name of the machine in a worker's identity, which is PID@HOST.
func Host(identity string) string {
	_, host, _ := strings.Cut(identity, "@")
	return host
}
