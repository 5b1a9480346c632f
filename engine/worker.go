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

// firstPollers is the number of polls of a worker that starts.
const firstPollers = 2

// newWorkers returns a worker of the SDK for each task queue that this process polls, home being its own: see homeQueue.
func (e *Engine) newWorkers(acts *activities.Activities, home string) (out []worker.Worker) {
	if e.cfg.Worker.Has(config.RoleTurns) {
		out = append(out, e.newTurnWorker(acts))
	}
	for _, queue := range activityQueues(e.cfg) {
		out = append(out, e.newActivityWorker(queue, acts, e.cfg.Worker.MaxConcurrentActivities))
	}
	if home != "" { // a suspended call needs an activity to keep it open and another one to continue it
		out = append(out, e.newActivityWorker(home, acts, 2*e.cfg.Worker.MaxConcurrentActivities))
	}
	return out
}

// activityQueues returns the task queues of a worker's roles other than that of its turns.
func activityQueues(cfg config.Config) (queues []string) {
	for _, r := range []config.Role{config.RoleInference, config.RoleTools} {
		if cfg.Worker.Has(r) {
			queues = append(queues, cfg.Queue(r))
		}
	}
	for _, name := range cfg.Worker.ServerQueues {
		queues = append(queues, cfg.ServerQueue(name))
	}
	return queues
}

// newTurnWorker registers the workflows for turns, compactions and deliveries, each with the activities of its port.
func (e *Engine) newTurnWorker(acts *activities.Activities) worker.Worker {
	worker.SetStickyWorkflowCacheSize(e.cfg.Worker.StickyCache) // process-wide; the SDK ignores it once a worker runs
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

// deployment returns the version on which this worker's turns stay. Inferences and calls have no version unless the
// worker of the turn runs them itself: their activities accept the inputs of other versions.
func (e *Engine) deployment() worker.DeploymentOptions {
	if e.version.Deployment == "" {
		return worker.DeploymentOptions{}
	}
	return worker.DeploymentOptions{
		UseVersioning: true, DefaultVersioningBehavior: workflow.VersioningBehaviorPinned,
		Version: worker.WorkerDeploymentVersion{DeploymentName: e.version.Deployment, BuildID: e.version.BuildID},
	}
}

// newActivityWorker returns a worker for inferences and tool calls only.
func (e *Engine) newActivityWorker(queue string, acts *activities.Activities, most int) worker.Worker {
	options := e.workerOptions()
	options.DisableWorkflowWorker = true
	options.MaxConcurrentActivityExecutionSize = most
	w := worker.New(e.client, queue, options)
	w.RegisterActivity(acts)
	return w
}

func (e *Engine) workerOptions() worker.Options {
	pollers := worker.NewPollerBehaviorAutoscaling(worker.PollerBehaviorAutoscalingOptions{
		InitialNumberOfPollers: firstPollers, MaximumNumberOfPollers: e.cfg.Worker.MaxPollers,
	})
	return worker.Options{
		WorkflowTaskPollerBehavior: pollers, ActivityTaskPollerBehavior: pollers,
		MaxConcurrentActivityExecutionSize:      e.cfg.Worker.MaxConcurrentActivities,
		MaxConcurrentLocalActivityExecutionSize: e.cfg.Worker.MaxConcurrentActivities,
		MaxConcurrentWorkflowTaskExecutionSize:  e.cfg.Worker.MaxConcurrentTurns,
		WorkerStopTimeout:                       e.cfg.Worker.DrainTimeout,
		MaxHeartbeatThrottleInterval:            heartbeatThrottle,
		Interceptors:                            e.options.intercept,
		OnFatalError:                            e.fail, // after it, the SDK stops the worker
	}
}

// start starts all workers, or none.
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

// homeQueue returns a task queue that no other worker polls, for calls that must go to this process: to servers with
// session affinity, suspended calls of servers that may send elicitations in the middle of a call, and calls of tools
// that other workers of the task queue lack. It is empty if this worker runs no calls. The queue ends with the process, as
// the servers' state does.
func homeQueue(cfg config.Config) string {
	if !cfg.Worker.Has(config.RoleTools) && len(cfg.Worker.ServerQueues) == 0 {
		return ""
	}
	return cfg.Temporal.TaskQueue + "-home-" + rand.Text()
}
