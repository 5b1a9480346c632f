package engine

import (
	"crypto/rand"
	"sync"
	"time"

	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/worker"
	"go.temporal.io/sdk/workflow"

	"github.com/everturn/everturn/activities"
	"github.com/everturn/everturn/config"
	"github.com/everturn/everturn/workflows"
)

// heartbeatThrottle is the shortest time between two heartbeats of an activity. The server reports cancellation in its
// response to a heartbeat.
const heartbeatThrottle = 2 * time.Second

// The numbers of polls that a worker opens when it starts and at most, for each task queue and kind of task. A Temporal
// server accepts 1,200 of a kind from all workers of a namespace together.
const (
	firstPollers = 2
	maxPollers   = 10
)

// stickyCache is the number of turns that a worker keeps in memory between their workflow tasks, including turns that
// wait for approvals. An evicted turn is rebuilt from its history when it continues. maxConcurrentTurns is the number
// of workflow tasks at the same time.
const (
	stickyCache        = 100
	maxConcurrentTurns = 100
)

// newWorkers returns a worker of the SDK for each task queue that this process polls. home is the queue that only this
// process polls, empty if it has none: see homeQueue.
func (e *Engine) newWorkers(acts *activities.Activities, home string) (out []worker.Worker) {
	if e.cfg.Worker.Has(config.RoleTurns) {
		out = append(out, e.newTurnWorker(acts))
	}
	for _, queue := range activityQueues(e.cfg) {
		out = append(out, e.newActivityWorker(queue, acts, e.cfg.Worker.MaxConcurrentActivities))
	}
	if home != "" {
		out = append(out, e.newActivityWorker(home, acts, e.cfg.Worker.MaxConcurrentActivities))
	}
	return out
}

// activityQueues returns the task queues that this worker polls only for inferences and tool calls: those of the roles
// inference and tools, and those of MCP servers.
func activityQueues(cfg config.Config) (queues []string) {
	for _, r := range []config.Role{config.RoleInference, config.RoleTools} {
		if cfg.Worker.Has(r) {
			queues = append(queues, cfg.Queue(r))
		}
	}
	for _, name := range cfg.Worker.ServerQueues() {
		queues = append(queues, cfg.ServerQueue(name))
	}
	return queues
}

// newTurnWorker returns a worker for the task queue of turns, with all workflows and their activities.
func (e *Engine) newTurnWorker(acts *activities.Activities) worker.Worker {
	worker.SetStickyWorkflowCacheSize(stickyCache) // process-wide; the SDK ignores it once a worker runs
	options := e.workerOptions()
	options.DeploymentOptions = e.deployment()
	w := worker.New(e.client, e.cfg.Temporal.TaskQueue, options)
	w.RegisterWorkflowWithOptions(workflows.Ready, workflow.RegisterOptions{Name: workflows.ReadyWorkflow})
	w.RegisterActivityWithOptions(e.checkReady, activity.RegisterOptions{Name: workflows.ReadyActivity})
	w.RegisterWorkflowWithOptions(workflows.Turn, workflow.RegisterOptions{Name: workflows.TurnWorkflow})
	w.RegisterWorkflowWithOptions(workflows.Compact, workflow.RegisterOptions{Name: workflows.CompactWorkflow})
	w.RegisterActivity(acts)
	w.RegisterWorkflowWithOptions(workflows.Deliver, workflow.RegisterOptions{Name: workflows.DeliverWorkflow})
	w.RegisterActivity(e.deliveries())
	w.RegisterDynamicWorkflow(workflows.Unknown, workflow.DynamicRegisterOptions{})
	return w
}

// deployment returns the Worker Deployment version of this worker. Turns are pinned to the version that began them.
// Only workers of turns have a version: the activities on other task queues accept inputs from all versions.
func (e *Engine) deployment() worker.DeploymentOptions {
	if e.version.Deployment == "" {
		return worker.DeploymentOptions{}
	}
	return worker.DeploymentOptions{
		UseVersioning: true, DefaultVersioningBehavior: workflow.VersioningBehaviorPinned,
		Version: worker.WorkerDeploymentVersion{DeploymentName: e.version.Deployment, BuildID: e.version.BuildID},
	}
}

// newActivityWorker returns a worker that runs only inferences and tool calls, at most maxConcurrent at the same time.
func (e *Engine) newActivityWorker(queue string, acts *activities.Activities, maxConcurrent int) worker.Worker {
	options := e.workerOptions()
	options.DisableWorkflowWorker = true
	options.MaxConcurrentActivityExecutionSize = maxConcurrent
	w := worker.New(e.client, queue, options)
	w.RegisterActivity(acts)
	return w
}

// workerOptions returns the options that all workers of this process share.
func (e *Engine) workerOptions() worker.Options {
	pollers := worker.NewPollerBehaviorAutoscaling(worker.PollerBehaviorAutoscalingOptions{
		InitialNumberOfPollers: firstPollers, MaximumNumberOfPollers: maxPollers,
	})
	return worker.Options{
		WorkflowTaskPollerBehavior: pollers, ActivityTaskPollerBehavior: pollers,
		MaxConcurrentActivityExecutionSize:      e.cfg.Worker.MaxConcurrentActivities,
		MaxConcurrentLocalActivityExecutionSize: e.cfg.Worker.MaxConcurrentActivities,
		MaxConcurrentWorkflowTaskExecutionSize:  maxConcurrentTurns,
		WorkerStopTimeout:                       e.cfg.Worker.DrainTimeout,
		MaxHeartbeatThrottleInterval:            heartbeatThrottle,
		Interceptors:                            e.options.intercept,
		OnFatalError:                            e.fail, // after it, the SDK stops the worker
	}
}

// start starts all workers. If one does not start, it stops those that have started and returns the error.
func (e *Engine) start() error {
	for i, w := range e.workers {
		if err := w.Start(); err != nil {
			stopAll(e.workers[:i])
			return err
		}
	}
	return nil
}

// stopAll stops the workers at the same time, so that each has the full drain timeout.
func stopAll(workers []worker.Worker) {
	var all sync.WaitGroup
	for _, w := range workers {
		all.Go(w.Stop)
	}
	all.Wait()
}

// homeQueue returns the name of a new task queue that only this process polls, or "" if this worker runs no calls. It
// is for calls that must go to this process: calls to servers with session affinity, and calls of tools that other
// workers of the task queue lack. The name is random, because the state of these servers ends with the process.
func homeQueue(cfg config.Config) string {
	if !cfg.Worker.Has(config.RoleTools) && len(cfg.Worker.ServerQueues()) == 0 {
		return ""
	}
	return cfg.Temporal.TaskQueue + "-home-" + rand.Text()
}
