package engine

import (
	"crypto/rand"
	"time"

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
func (e *Engine) newWorker(acts *activities.Activities) worker.Worker {
	worker.SetStickyWorkflowCacheSize(e.cfg.Worker.StickyCache) // process-wide; the SDK ignores it once a worker runs
	w := worker.New(e.client, e.cfg.Temporal.TaskQueue, e.workerOptions())
	w.RegisterWorkflowWithOptions(workflows.Turn, workflow.RegisterOptions{Name: workflows.TurnWorkflow})
	w.RegisterActivity(acts)
	w.RegisterWorkflowWithOptions(workflows.Deliver, workflow.RegisterOptions{Name: workflows.DeliverWorkflow})
	w.RegisterActivity(e.deliveries())
	w.RegisterDynamicWorkflow(workflows.Unknown, workflow.DynamicRegisterOptions{})
	return w
}

func (e *Engine) workerOptions() worker.Options {
	return worker.Options{
		MaxConcurrentActivityExecutionSize:      e.cfg.Worker.MaxConcurrentActivities,
		MaxConcurrentLocalActivityExecutionSize: e.cfg.Worker.MaxConcurrentActivities,
		MaxConcurrentWorkflowTaskExecutionSize:  e.cfg.Worker.MaxConcurrentTurns,
		WorkerStopTimeout:                       e.cfg.Worker.DrainTimeout,
		MaxHeartbeatThrottleInterval:            heartbeatThrottle,
		Interceptors:                            e.options.intercept,
		OnFatalError:                            e.fail, // after it, the SDK stops the worker
	}
}

// stickyQueue returns a task queue that no other worker polls, for calls that must come back to this process: to
// servers with session affinity, and suspended calls of servers that may send elicitations in the middle of a call. It
// is empty if there are no such servers. The queue ends with the process, as the servers' state does.
func stickyQueue(cfg config.Config) string {
	for _, s := range cfg.MCP.Servers {
		if s.SessionAffinity != "" || s.Timeouts.Elicitation > 0 {
			return cfg.Temporal.TaskQueue + "-home-" + rand.Text()
		}
	}
	return ""
}

// newStickyWorker returns a worker that polls a home queue, for tool calls only. It runs twice as many activities as
// the main worker, because a suspended call needs one to keep it open and another one to continue it.
func (e *Engine) newStickyWorker(queue string, acts *activities.Activities) worker.Worker {
	options := e.workerOptions()
	options.DisableWorkflowWorker = true
	options.MaxConcurrentActivityExecutionSize *= 2
	w := worker.New(e.client, queue, options)
	w.RegisterActivity(acts)
	return w
}
