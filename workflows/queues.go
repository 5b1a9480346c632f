package workflows

import (
	"go.temporal.io/sdk/temporal"

	"github.com/everturn/everturn/workflows/turn"
)

// Inferences and tool calls run on the turn's own task queue, or on queues that Begin names if its worker lacks their
// roles. A turn may outlive that choice: the worker that began it had all roles, and its queue is now polled by workers
// that only run turns. Such a worker answers with the queues to use instead.

const elsewhereType = "elsewhere"

// Elsewhere returns the error of a worker that gets an activity whose role it lacks. The turn schedules the activity
// again, to the given queues.
func Elsewhere(queues turn.Queues) error {
	return temporal.NewApplicationErrorWithOptions(
		"the worker of this task queue does not have the role for this (worker.roles); the turn sends it to another queue",
		elsewhereType, temporal.ApplicationErrorOptions{NonRetryable: true, Details: []any{queues}})
}

// moved adopts the task queues of an error that Elsewhere made. It reports whether an activity that failed with err may
// be attempted again.
func (r *run) moved(err error) bool {
	queues, ok := movedTo(err)
	if ok {
		r.progress.Config.Queues = queues
	}
	return ok
}

// movedTo returns the task queues of an error that Elsewhere made; ok is false for every other error.
func movedTo(err error) (queues turn.Queues, ok bool) {
	app := failureOf(err)
	ok = app != nil && app.Type() == elsewhereType && app.Details(&queues) == nil
	return queues, ok
}

const onWorkerType = "elsewhere_worker"

// OnWorker returns the error of a worker that lacks the tool of a call, or has it in another version. The turn schedules
// the call again, to the task queue of a worker that has it.
func OnWorker(queue string) error {
	return temporal.NewApplicationErrorWithOptions("the worker does not have this tool; the turn sends the call to one that has",
		onWorkerType, temporal.ApplicationErrorOptions{NonRetryable: true, Details: []any{queue}})
}

// workerOf returns the task queue of an error that OnWorker made; empty for every other error.
func workerOf(err error) (queue string) {
	app := failureOf(err)
	if app == nil || app.Type() != onWorkerType || app.Details(&queue) != nil {
		return ""
	}
	return queue
}

// checkElsewhere explains the error of a call that was sent from worker to worker until its attempts were used up.
func checkElsewhere(err error) error {
	if c := code(err); c != elsewhereType && c != onWorkerType {
		return err
	}
	return temporal.NewApplicationError("not sent: no worker that took the call could run it", string(turn.CodeToolNotSent))
}

// checkHosted explains the error of a call that no worker took from the queue of the tool's server.
func checkHosted(tool turn.Tool, err error) error {
	if tool.Queue == "" || !neverStarted(err) {
		return err
	}
	return temporal.NewApplicationError("not sent: no worker polled task queue "+turn.Truncate(tool.Queue, 200)+
		", so none hosts the tool's server (worker.server_queues)", string(turn.CodeToolNotSent))
}

// keyErrorType is codec.KeyErrorType: no worker that took the activity could decrypt its input, and so none ran it.
const keyErrorType = "EncryptionKey"

// checkKey explains the error of a call that the server retried until its attempts were used up.
func checkKey(err error) error {
	if code(err) != keyErrorType {
		return err
	}
	return temporal.NewApplicationError("not sent: the worker that hosts the tool lacks the key of this turn's encryption",
		string(turn.CodeToolNotSent))
}
