package workflows

import (
	"errors"
	"slices"
	"time"

	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/workflow"

	"github.com/everturn/everturn/workflows/turn"
)

// Under a Worker Deployment a run stays on the version of the worker that began it (it is pinned). A turn moves to the
// deployment's current version when it continues in a new run: when its history is long, and while it waits for
// approvals, an answer or the results of clients, because it has no activities then. The server reports a new version to a run only in a
// workflow task, so a rollout sends the signal Nudge to waiting turns.

// NudgeSignal is a signal that gives a waiting turn a workflow task, in which the turn notices a new version. The
// signal has no other effect.
const NudgeSignal = "Nudge"

// errMoves means that a wait for decisions has ended because the turn should continue in a new run.
var errMoves = errors.New("the turn continues in a new run")

// nextRun returns the error that continues a workflow in a new run, on the current version of the worker.
func nextRun(ctx workflow.Context, workflowType string, in any) error {
	discardNudges(ctx)
	return workflow.NewContinueAsNewErrorWithOptions(ctx, workflow.ContinueAsNewErrorOptions{
		InitialVersioningBehavior: workflow.ContinueAsNewVersioningBehaviorAutoUpgrade,
	}, workflowType, in)
}

// targetChanged reports whether a new run would begin on another version of the worker. It is false in a run's first
// workflow task. Otherwise, if the server reported a change by mistake, each run would only start the next one.
func targetChanged(ctx workflow.Context) bool {
	info := workflow.GetInfo(ctx)
	return info.GetTargetWorkerDeploymentVersionChanged() && info.GetCurrentHistoryLength() > firstTask
}

// firstTask is the number of history events in a run's first workflow task: the workflow is started, and the task is
// scheduled and started.
const firstTask = 3

// mayMove reports whether the turn should continue in a new run while it waits for the open requests: on another
// version of the worker, or because its history is long. Temporal refuses every update of a run that has accepted too
// many, also those that repeat a message or a decision. A turn that waits for an elicitation stays, because the call is
// part of this run's state, and so does one whose other calls run while one waits for its result.
func (r *run) mayMove(ctx workflow.Context, open []turn.Request) bool {
	stays := slices.ContainsFunc(open, func(req turn.Request) bool {
		return req.Kind == turn.RequestElicitation || req.Kind == turn.RequestResult && !r.onlyHandedOut()
	})
	return !stays && (targetChanged(ctx) || r.historyTooLong(ctx)) && workflow.AllHandlersFinished(ctx)
}

// keepProposal stores the proposal whose requests the turn waits for in r.progress, so that the next run resumes with
// it. The journal has the decisions made so far. expiresAt is when the requests expire; zero means never.
func (r *run) keepProposal(p turn.Proposal, expiresAt time.Time) {
	r.progress.Waiting = &turn.Waiting{Proposal: p, ExpiresAt: expiresAt, Requests: r.requests.open(),
		MessagesBefore: r.requests.messagesBefore}
}

// resumePhase returns the phase with which a continued run begins. The requests of a waiting turn keep their expiry.
func (r *run) resumePhase() turn.Phase {
	phase := turn.Resume(&r.progress)
	r.phase = phase.Name()
	if p := r.progress.Waiting; p != nil {
		r.expiresAt, r.attempt, r.progress.Waiting = p.ExpiresAt, p.Attempt, nil
	}
	return phase
}

// requestTimeout returns the time until new requests expire: configured (0 means never). If an earlier run opened the
// requests, which is possible only for the first requests of a continued run, it returns what is left of their time.
func (r *run) requestTimeout(ctx workflow.Context, configured time.Duration) time.Duration {
	at := r.expiresAt
	r.expiresAt = time.Time{}
	if at.IsZero() {
		return configured
	}
	return max(at.Sub(workflow.Now(ctx)), time.Millisecond) // at least 1 ms, because 0 means never
}

// discardNudges receives the Nudge signals that the run did not need. Otherwise the SDK would report them as lost.
func discardNudges(ctx workflow.Context) {
	for nudges := workflow.GetSignalChannel(ctx, NudgeSignal); nudges.ReceiveAsync(nil); {
	}
}

// ReadyWorkflow is the workflow type that checks a version of the worker before it becomes current.
const ReadyWorkflow = "Ready"

// readyWithin bounds the check of a worker, including the time until a worker of the version takes the activity.
const readyWithin = 20 * time.Second

// Ready checks that a version of the worker can run turns. The activity that checks it runs on the same version as the
// workflow.
func Ready(ctx workflow.Context) error {
	ctx = workflow.WithActivityOptions(ctx, workflow.ActivityOptions{
		ScheduleToCloseTimeout: readyWithin, RetryPolicy: &temporal.RetryPolicy{MaximumAttempts: 1},
		Summary: "check that this version can run turns",
	})
	return workflow.ExecuteActivity(ctx, ReadyActivity).Get(ctx, nil)
}

// ReadyActivity is the activity type of the check.
const ReadyActivity = "CheckReady"
