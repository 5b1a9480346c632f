package engine

import (
	"crypto/rand"
	"time"

	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/interceptor"
	"go.temporal.io/sdk/worker"
	"go.temporal.io/sdk/workflow"

	"github.com/everturn/everturn/activities"
	"github.com/everturn/everturn/config"
	"github.com/everturn/everturn/workflows"
)

// heartbeatThrottle is the shortest time between two heartbeats of an activity. The server reports cancellation in its
// response to a heartbeat.
const heartbeatThrottle = 2 * time.Second

// newWorker registers everything that a worker runs: the workflows for turns and deliveries, each with the activities
// of its port.
func newWorker(c client.Client, cfg config.Config, acts *activities.Activities, deliveries *activities.Deliveries, intercept []interceptor.WorkerInterceptor) worker.Worker {
	worker.SetStickyWorkflowCacheSize(cfg.Worker.StickyCache) // process-wide; the SDK ignores it once a worker runs
	w := worker.New(c, cfg.Temporal.TaskQueue, workerOptions(cfg, intercept))
	w.RegisterWorkflowWithOptions(workflows.Turn, workflow.RegisterOptions{Name: workflows.TurnWorkflow})
	w.RegisterActivity(acts)
	w.RegisterWorkflowWithOptions(workflows.Deliver, workflow.RegisterOptions{Name: workflows.DeliverWorkflow})
	w.RegisterActivity(deliveries)
	w.RegisterDynamicWorkflow(workflows.Unknown, workflow.DynamicRegisterOptions{})
	return w
}

func workerOptions(cfg config.Config, intercept []interceptor.WorkerInterceptor) worker.Options {
	return worker.Options{
		MaxConcurrentActivityExecutionSize:      cfg.Worker.MaxConcurrentActivities,
		MaxConcurrentLocalActivityExecutionSize: cfg.Worker.MaxConcurrentActivities,
		MaxConcurrentWorkflowTaskExecutionSize:  cfg.Worker.MaxConcurrentTurns,
		WorkerStopTimeout:                       cfg.Worker.DrainTimeout,
		MaxHeartbeatThrottleInterval:            heartbeatThrottle,
		Interceptors:                            intercept,
	}
}

// homeQueue returns a task queue that no other worker polls, for calls that must come back to this process: to servers
// with session affinity, and suspended calls of servers that may send elicitations in the middle of a call. It is empty
// if there are no such servers. The queue ends with the process, as the servers' state does.
func homeQueue(cfg config.Config) string {
	for _, s := range cfg.MCP.Servers {
		if s.SessionAffinity != "" || s.ElicitationTimeout > 0 {
			return cfg.Temporal.TaskQueue + "-home-" + rand.Text()
		}
	}
	return ""
}

// newHome returns a worker that polls a home queue, for tool calls only. It runs twice as many activities as the main
// worker, because a suspended call needs one to keep it open and another one to continue it.
func newHome(c client.Client, cfg config.Config, queue string, acts *activities.Activities, intercept []interceptor.WorkerInterceptor) worker.Worker {
	options := workerOptions(cfg, intercept)
	options.DisableWorkflowWorker = true
	options.MaxConcurrentActivityExecutionSize *= 2
	w := worker.New(c, queue, options)
	w.RegisterActivity(acts)
	return w
}
