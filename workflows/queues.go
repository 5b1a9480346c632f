package workflows

import (
	"go.temporal.io/sdk/temporal"

	"github.com/everturn/everturn/workflows/turn"
)

// Inferences and tool calls run on the turn's own task queue, or on the queues that Begin returns if its worker lacks
// the roles for them. The roles of the workers can change while a turn runs. A worker that gets an activity and lacks
// its role therefore fails it with the error of Elsewhere, which names the queues to use.

// elsewhereType is the type of the errors of Elsewhere.
const elsewhereType = "elsewhere"

// Elsewhere returns the error of a worker that gets an activity whose role it lacks. The turn schedules the activity
// again, to the given queues.
func Elsewhere(queues turn.Queues) error {
	return temporal.NewApplicationErrorWithOptions(
		"the worker of this task queue does not have the role for this (worker.roles); the turn sends it to another queue",
		elsewhereType, temporal.ApplicationErrorOptions{NonRetryable: true, Details: []any{queues}})
}

// adoptQueues sets the turn's task queues to those of an error of Elsewhere. It reports whether err is such an error:
// the activity did not run and can be scheduled again.
func (r *run) adoptQueues(err error) bool {
	queues, ok := queuesOf(err)
	if ok {
		r.progress.Config.Queues = queues
	}
	return ok
}

// queuesOf returns the task queues in an error of Elsewhere; ok is false for every other error.
func queuesOf(err error) (queues turn.Queues, ok bool) {
	app := failureOf(err)
	ok = app != nil && app.Type() == elsewhereType && app.Details(&queues) == nil
	return queues, ok
}

// onWorkerType is the type of the errors of OnWorker.
const onWorkerType = "elsewhere_worker"

// OnWorker returns the error of a worker that lacks the tool of a call, or has it in another version. The turn
// schedules the call again, to the task queue of a worker that has it.
func OnWorker(queue string) error {
	return temporal.NewApplicationErrorWithOptions("the worker does not have this tool; the turn sends the call to one that has",
		onWorkerType, temporal.ApplicationErrorOptions{NonRetryable: true, Details: []any{queue}})
}

// workerOf returns the task queue in an error of OnWorker, and "" for every other error.
func workerOf(err error) (queue string) {
	app := failureOf(err)
	if app == nil || app.Type() != onWorkerType || app.Details(&queue) != nil {
		return ""
	}
	return queue
}

// explainRedirected replaces an error of Elsewhere or OnWorker that remains after the last attempt of a call, by one
// that tells the model that the call was not sent. It returns every other error unchanged.
func explainRedirected(err error) error {
	if c := code(err); c != elsewhereType && c != onWorkerType {
		return err
	}
	return temporal.NewApplicationError("not sent: no worker that took the call could run it", string(turn.CodeToolNotSent))
}

// explainUnhosted replaces the timeout of a call that no worker took from the queue of the tool's server, by an error
// that names the queue. It returns every other error unchanged.
func explainUnhosted(tool turn.Tool, err error) error {
	if tool.Queue == "" || !neverStarted(err) {
		return err
	}
	return temporal.NewApplicationError("not sent: no worker polled task queue "+turn.Truncate(tool.Queue, 200)+
		", so none hosts the tool's server (worker.roles)", string(turn.CodeToolNotSent))
}

// keyErrorType is the type of the error of a worker that cannot decrypt an activity's input, and so does not run it. It
// equals codec.KeyErrorType.
const keyErrorType = "EncryptionKey"

// explainKeyError replaces the error of a call whose input no worker could decrypt, by one that says that the call was
// not sent. It returns every other error unchanged.
func explainKeyError(err error) error {
	if code(err) != keyErrorType {
		return err
	}
	return temporal.NewApplicationError("not sent: the worker that hosts the tool lacks the key of this turn's encryption",
		string(turn.CodeToolNotSent))
}
