package workflows

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/workflow"

	"github.com/everturn/everturn/workflows/turn"
)

const (
	// localCap bounds Begin and Finish as local activities; past it the same function runs as a regular one.
	localCap = 2 * time.Second
	// heartbeat is how long a silent activity is waited for: what a worker's death costs. Cancellation travels with it.
	heartbeat = 5 * time.Second
	// inferAttempts bounds attempts of one inference, crashes of workers included. Failures of the provider are bounded
	// by the activity itself, through the journal.
	inferAttempts = 25
	// storeAttempts and storePatience bound Begin and Finish while the journal is unavailable.
	storeAttempts = 25
	storePatience = 10 * time.Minute
	// stopPatience bounds Begin while the journal is unavailable and the turn is to stop. It is longer than one attempt
	// waits for a locked journal, 10 s.
	stopPatience = 15 * time.Second

	takeSummary = "take the message"
)

// An inference may wait for a locked journal before it asks (10 s, as a write does by itself), and settles as a call does.
// Given up by the server while it is being settled, it would be asked for again, and paid.
const inferRoom = 10*time.Second + SettleWithin + CallRoom

// A dispatch of a call spends its time in three parts, each of which ends in time by itself: the journal finds and claims
// the call, the tool runs, and the journal settles it, or takes its claim back where nothing was sent. CallTool holds to
// these bounds, and the activity's deadline is their sum with room: a call that the server gives up while it is being
// settled would be dispatched again, and told that its outcome is unknown.
const (
	ClaimWithin = 4 * time.Second // a dispatch after this one waits again
	// SettleWithin is at least how long a settlement waits for the journal: no other attempt can do it. It waits for as
	// long as its activity may run if that is longer.
	SettleWithin = time.Minute
	CallRoom     = 5 * time.Second // a tool that ends late, a busy machine, the way to the server and back
)

// CallDeadline is how long one dispatch of a call may take whose tool is given so much time.
func CallDeadline(tool time.Duration) time.Duration {
	return ClaimWithin + tool + SettleWithin + CallRoom
}

// maxRecorded bounds an activity's recorded input, in bytes: over 2 MiB the server fails the workflow task for ever.
const maxRecorded = 1900 << 10

// waitForServer lets Temporal's server wait on behalf of a call that was not sent: that costs no worker's slot and no
// history. The activity says when to try again (NextRetryDelay) and when its time is over. After a timeout, or an error that
// the SDK reports in place of the activity's, the call may have been sent: the server must not retry it. The workflow
// dispatches it again, and the ledger decides. The type of a plain Go error is empty. Intervals and attempts bound what is
// not listed.
var waitForServer = &temporal.RetryPolicy{
	InitialInterval: time.Second, BackoffCoefficient: 2, MaximumInterval: 10 * time.Second, MaximumAttempts: 1000,
	NonRetryableErrorTypes: slices.Concat(nonRetryable, allCodesBut(turn.CodeToolNotSent),
		[]string{"TemporalTimeout:StartToClose", "TemporalTimeout:Heartbeat", "", "wrapError", "PanicError"}),
}

// allCodesBut lists the codes of errors except one. A worker of another version may mark an error as retryable.
func allCodesBut(retried turn.Code) (types []string) {
	for _, c := range turn.Codes() {
		if c != retried {
			types = append(types, string(c))
		}
	}
	return types
}

// nonRetryable are errors that the server would otherwise retry: a result over the payload limit would be paid again
// and again.
var nonRetryable = []string{"payloadSizeError"}

// begin takes the message into the session. A message that was acknowledged is taken even where the turn is stopped
// before that: it gets its one answer, and who reads the turn's stream an end. Only a journal that stays away for
// stopPatience after the stop keeps it from that; the turn is then cancelled without a trace in the journal.
func (r *run) begin(ctx workflow.Context, m Message) (out BeginResult, err error) {
	in := BeginInput{
		Session: r.session, Tenant: r.in.Tenant, Turn: r.turnID, WorkflowID: r.id, RunID: r.runID,
		Agent: r.in.Agent, Message: m, Limits: r.in.Limits,
	}
	taking, giveUp := workflow.NewDisconnectedContext(ctx)
	defer giveUp()
	out, err = callLocal(localOnce(taking, takeSummary), Activities.Begin, in)
	if err == nil || !slowStore(err) {
		return out, err
	}
	taken := again(taking, Activities.Begin, in, takeSummary)
	if workflow.Await(ctx, taken.IsReady) != nil { // stopped; nothing of this is in the history of a turn that is not
		waiting, enough := workflow.NewDisconnectedContext(ctx)
		defer enough()
		if ok, _ := workflow.AwaitWithTimeout(waiting, stopPatience, taken.IsReady); !ok {
			giveUp()
		}
	}
	err = taken.Get(ctx, &out)
	if ctx.Err() != nil && (slowStore(err) || temporal.IsCanceledError(err)) {
		err = ctx.Err() // the server does not retry an attempt that is to be cancelled
	}
	return out, err
}

func (r *run) finish(ctx workflow.Context, e turn.Result, late []Message) (FinishResult, error) {
	in := FinishInput{
		Session: r.session, Tenant: r.in.Tenant, Turn: r.turnID, Results: r.progress.Pending,
		Messages: late, Ending: e, Counters: r.progress.Counters,
	}
	if !r.begun {
		in.Opening = r.refused
	}
	return journalled(ctx, Activities.Finish, in, "settle the turn: "+string(e.Reason))
}

// journalled runs a short write to the journal, and again where the journal is slow or away.
func journalled[In, Out any](ctx workflow.Context, act func(Activities, context.Context, In) (Out, error), in In, summary string) (Out, error) {
	out, err := callLocal(localOnce(ctx, summary), act, in)
	if err == nil || !slowStore(err) {
		return out, err
	}
	future := again(ctx, act, in, summary)
	if workflow.Await(ctx, future.IsReady) != nil { // stopped: Finish is to have the journal next
		return out, ctx.Err()
	}
	err = future.Get(ctx, &out)
	return out, err
}

// again runs a short write for which the journal was not there, with patience: as a regular activity, which lets the
// workflow task end. An input that is too large to be recorded is tried again as a local activity, which records none.
// Where it is cancelled an attempt that is under way is waited for: it may get through.
func again[In, Out any](ctx workflow.Context, act func(Activities, context.Context, In) (Out, error), in In, summary string) workflow.Future {
	patient := &temporal.RetryPolicy{
		InitialInterval: 500 * time.Millisecond, BackoffCoefficient: 2, MaximumInterval: 30 * time.Second,
		MaximumAttempts: storeAttempts, NonRetryableErrorTypes: nonRetryable,
	}
	if encoded, err := json.Marshal(in); err != nil || len(encoded) > maxRecorded {
		return workflow.ExecuteLocalActivity(workflow.WithLocalActivityOptions(ctx, workflow.LocalActivityOptions{
			// Without the first the second would bound all attempts together.
			ScheduleToCloseTimeout: storePatience, StartToCloseTimeout: localCap, RetryPolicy: patient, Summary: summary,
		}), activityName(act), in)
	}
	return workflow.ExecuteActivity(workflow.WithActivityOptions(ctx, workflow.ActivityOptions{
		StartToCloseTimeout: 30 * time.Second, RetryPolicy: patient, WaitForCancellation: true, Summary: summary,
	}), activityName(act), in)
}

func localOnce(ctx workflow.Context, summary string) workflow.Context {
	return workflow.WithLocalActivityOptions(ctx, workflow.LocalActivityOptions{
		ScheduleToCloseTimeout: localCap, RetryPolicy: &temporal.RetryPolicy{MaximumAttempts: 1}, Summary: summary,
	})
}

func slowStore(err error) bool {
	var timeout *temporal.TimeoutError
	return errors.As(err, &timeout) || code(err) == turn.CodeStoreUnavailable
}

func (r *run) infer(ctx workflow.Context, plan turn.Plan) (InferResult, error) {
	cfg, c := r.progress.Config, r.progress.Counters
	budget := turn.Remaining(cfg.Limits, c)
	ctx = workflow.WithActivityOptions(ctx, inferOptions(budget, fmt.Sprintf("%s · step %d", turn.Truncate(plan.Model, 80), c.Step)))
	return call(ctx, Activities.Infer, InferInput{
		Session: r.session, Turn: r.turnID, Step: c.Step, Expect: r.progress.Head,
		Results: r.progress.Pending, Messages: r.progress.Merging, Plan: plan, Budget: budget, RetryMax: cfg.RetryMax,
	})
}

// quickCall runs a call inside the workflow task. Its goroutine may outlive the cap; its settlement then loses against
// that of the next dispatch, or wins and is found by it.
func (r *run) quickCall(ctx workflow.Context, in CallInput) (CallResult, error) {
	ctx = workflow.WithLocalActivityOptions(ctx, workflow.LocalActivityOptions{
		ScheduleToCloseTimeout: turn.LocalActivityCap,
		RetryPolicy:            &temporal.RetryPolicy{MaximumAttempts: 1},
		Summary:                summary(in),
	})
	return callLocal(ctx, Activities.CallTool, in)
}

// regularCall runs a call as an activity, on any worker where home is empty.
func (r *run) regularCall(ctx workflow.Context, in CallInput, home string) (CallResult, error) {
	if in.Resume {
		in.OwningCall = r.progress.OwningCalls[server(in.Tool)]
	}
	patience := time.Duration(0)
	if home != "" {
		patience = homePatience
	}
	ctx = workflow.WithActivityOptions(ctx, workflow.ActivityOptions{
		TaskQueue: home, ScheduleToStartTimeout: patience,
		StartToCloseTimeout: CallDeadline(max(in.Timeout, in.TotalTimeout) + in.Hold),
		HeartbeatTimeout:    heartbeat,
		WaitForCancellation: true,
		RetryPolicy:         waitForServer,
		Summary:             summary(in),
	})
	return call(ctx, Activities.CallTool, in)
}

// summary is the line that the Web UI shows for a call. The server takes 200 bytes of it for certain.
func summary(in CallInput) string {
	line := in.Tool.ID + " " + in.Call.Arguments
	if in.Attempt > 1 {
		line = fmt.Sprintf("%s (dispatch %d)", line, in.Attempt)
	}
	return turn.Truncate(line, 200)
}

// inferOptions returns the options of an activity that asks a model.
func inferOptions(budget time.Duration, summary string) workflow.ActivityOptions {
	return workflow.ActivityOptions{
		StartToCloseTimeout: budget + inferRoom,
		HeartbeatTimeout:    heartbeat,
		WaitForCancellation: true,
		RetryPolicy: &temporal.RetryPolicy{
			InitialInterval: 200 * time.Millisecond, BackoffCoefficient: 2, MaximumInterval: 10 * time.Second,
			MaximumAttempts: inferAttempts, NonRetryableErrorTypes: nonRetryable,
		},
		Summary: summary,
	}
}
