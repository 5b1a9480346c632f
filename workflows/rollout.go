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
// deployment's current version when it continues in a new run. It does so between turns, when its history is long, and
// while it waits for approvals or an answer: nothing of it runs then. The server tells a run of a new version only in a
// workflow task, so a rollout sends the signal Nudge to the turns that wait.

// NudgeSignal is a signal without an effect of its own: it gives a waiting turn the workflow task in which it moves.
const NudgeSignal = "Nudge"

// errMoves ends a wait for decisions because the turn continues on another version of the worker.
var errMoves = errors.New("the turn moves to another version of the worker")

// nextRun returns the error that continues a workflow in a new run, on the current version of the worker.
func nextRun(ctx workflow.Context, workflowType string, in any) error {
	takeNudges(ctx)
	return workflow.NewContinueAsNewErrorWithOptions(ctx, workflow.ContinueAsNewErrorOptions{
		InitialVersioningBehavior: workflow.ContinueAsNewVersioningBehaviorAutoUpgrade,
	}, workflowType, in)
}

// targetChanged reports whether a new run would begin on another version of the worker. It is false in a run's first
// workflow task: a server that reports a change by mistake would otherwise make each run start another one.
func targetChanged(ctx workflow.Context) bool {
	info := workflow.GetInfo(ctx)
	return info.GetTargetWorkerDeploymentVersionChanged() && info.GetCurrentHistoryLength() > firstTask
}

// firstTask is the length of the history in a run's first workflow task: it has been started, and the task scheduled
// and started.
const firstTask = 3

// mayMove reports whether the turn can continue in a new run while it waits for these requests. The attempts of calls
// with elicitations are part of this run, so their turns stay.
func (r *run) mayMove(ctx workflow.Context, open []turn.Request) bool {
	elicits := slices.ContainsFunc(open, func(req turn.Request) bool { return req.Kind == turn.RequestElicitation })
	return !elicits && targetChanged(ctx) && workflow.AllHandlersFinished(ctx)
}

// keepProposal keeps the proposal whose requests the turn waits for. The next run resumes with it, and the journal has the
// requests and the decisions made so far.
func (r *run) keepProposal(p turn.Proposal, expiresAt time.Time) {
	r.progress.Waiting = &turn.Waiting{Proposal: p, ExpiresAt: expiresAt, Requests: r.requests.open(),
		MessagesBefore: r.requests.messagesBefore}
}

// resumePhase returns the phase with which a continued run begins.
func (r *run) resumePhase() turn.Phase {
	phase := turn.Resume(&r.progress)
	r.phase = phase.Name()
	if p := r.progress.Waiting; p != nil {
		r.expiresAt, r.progress.Waiting = p.ExpiresAt, nil
	}
	return phase
}

// waitFor returns how long new requests wait. Those of a turn that moved keep the time at which they expire.
func (r *run) waitFor(ctx workflow.Context, configured time.Duration) time.Duration {
	at := r.expiresAt
	if r.expiresAt = (time.Time{}); at.IsZero() {
		return configured
	}
	return max(at.Sub(workflow.Now(ctx)), time.Millisecond)
}

// takeNudges takes the signals that a run has got, which the SDK would otherwise report as lost.
func takeNudges(ctx workflow.Context) {
	for nudges := workflow.GetSignalChannel(ctx, NudgeSignal); nudges.ReceiveAsync(nil); {
	}
}

// ReadyWorkflow is the workflow type that checks a version of the worker before it becomes current.
const ReadyWorkflow = "Ready"

// readyWithin bounds the check of a worker, with its wait for a task.
const readyWithin = 20 * time.Second

// Ready runs the readiness check of a worker as an activity of the same version.
func Ready(ctx workflow.Context) error {
	ctx = workflow.WithActivityOptions(ctx, workflow.ActivityOptions{
		ScheduleToCloseTimeout: readyWithin, RetryPolicy: &temporal.RetryPolicy{MaximumAttempts: 1},
		Summary: "check that this version can run turns",
	})
	return workflow.ExecuteActivity(ctx, ReadyActivity).Get(ctx, nil)
}

// ReadyActivity is the activity type of the check.
const ReadyActivity = "CheckReady"
