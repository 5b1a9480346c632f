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
	// localCap bounds a local activity that writes to the journal, such as Begin or Finish. After that the same function
	// runs as a regular activity.
	localCap = 2 * time.Second
	// heartbeat is the heartbeat timeout of activities, and so the delay that a dead worker costs. Cancellation reaches
	// an activity with its heartbeat.
	heartbeat = 5 * time.Second
	// inferAttempts bounds the attempts of one inference. Most of them wait for a fleet limit, for instance while the
	// provider is paused (for at most 30 days, every 15 s). The activity itself bounds failures of the provider and
	// crashes of workers, through the journal.
	inferAttempts = 200_000
	// journalAttempts bounds the attempts of an activity that waits for the journal. The activity itself bounds the wait.
	journalAttempts = 10_000
	// callAttempts bounds the attempts of a call in the same way.
	callAttempts = 5_000
	// stopTimeout bounds Begin when the journal is unavailable and the turn was stopped. It is longer than one attempt
	// waits for a locked journal, 10 s.
	stopTimeout = 15 * time.Second

	// takeSummary is the line that the Web UI shows for Begin.
	takeSummary = "take the message"
	// localPause is the first pause between attempts of a local activity. A pause that is longer than a workflow task's
	// timeout is a timer, so that the workflow task ends.
	localPause = 15 * time.Second
)

// inferRoom is the time of an inference's attempt in addition to its budget, which is for the model. Before the
// request, the attempt may wait up to BeforeModel: for a locked journal (10 s, like any write) and for memory. An
// attempt that has waited longer ends without a request and is retried. Afterwards it may wait for memory again
// (LargeWithin), and it settles as a call does. If the server timed it out meanwhile, the inference would be repeated,
// and paid for again.
const (
	inferRoom    = BeforeModel + AdmitWithin + LargeWithin + SettleWithin + CallRoom
	BeforeModel  = 10*time.Second + PromptWithin
	PromptWithin = 10 * time.Second // for memory for a large prompt; a later attempt waits again
	AdmitWithin  = 10 * time.Second // for a fleet limit; a later attempt waits again
	LargeWithin  = 10 * time.Second // for memory for a large completion
)

// An attempt of a call has three parts, each with its own bound: the journal finds and claims the call, the tool runs,
// and the journal settles the call, or releases its claim if it was not sent. CallTool keeps to these bounds, and the
// activity's deadline is their sum plus a margin. If the server timed out a call while it was being settled, the call
// would be attempted again and report an unknown outcome.
const (
	ClaimWithin = 12 * time.Second // longer than any transaction waits for a locked journal
	// SettleWithin is the minimum time that a settlement waits for the journal, because no other attempt can settle the
	// call. It waits longer if its activity may run longer: for the turn's JournalRetryFor in addition.
	SettleWithin = time.Minute
	CallRoom     = 5 * time.Second // for a tool that ends late, a busy machine, and the round trip to the server
)

// CallDeadline returns the maximum time of one attempt of a call whose tool has the given timeout.
func CallDeadline(tool time.Duration) time.Duration {
	return ClaimWithin + tool + SettleWithin + CallRoom
}

// maxRecorded bounds an activity's recorded input, in bytes. Over 2 MiB the server fails the workflow task, which is
// then retried without end.
const maxRecorded = 1900 << 10

// callRetryPolicy lets the Temporal server retry a call only if it was not sent, or if the journal was unavailable
// before the claim. Waiting on the server uses no worker slot and no history. The activity sets the time of the next
// attempt (NextRetryDelay) and ends the wait with an error that is not retryable.
//
// After a timeout, or an error that the SDK reports in place of the activity's, the call may have been sent, so the
// server must not retry it. The workflow attempts it again, and the journal decides whether it may run. The empty type
// is that of a plain Go error. The intervals and MaximumAttempts bound errors that are not listed.
var callRetryPolicy = &temporal.RetryPolicy{
	InitialInterval: time.Second, BackoffCoefficient: 2, MaximumInterval: 10 * time.Second,
	MaximumAttempts: callAttempts,
	NonRetryableErrorTypes: slices.Concat(nonRetryable, allCodesBut(turn.CodeToolNotSent, turn.CodeJournalUnavailable),
		[]string{"TemporalTimeout:StartToClose", "TemporalTimeout:Heartbeat", "", "wrapError", "PanicError"}),
}

// allCodesBut returns all error codes except the retried ones. The retry policy lists them because a worker of another
// version may mark an error as retryable.
func allCodesBut(retried ...turn.Code) (types []string) {
	for _, c := range turn.Codes() {
		if !slices.Contains(retried, c) {
			types = append(types, string(c))
		}
	}
	return types
}

// nonRetryable are the types of errors that the server would otherwise retry. Repeating a result over the payload limit
// would be paid for every time.
var nonRetryable = []string{"payloadSizeError"}

// begin runs Begin, which appends the message to the session. It does so even if the turn is cancelled first, because
// the message was acknowledged and its turn must have an end in the journal. The only exception is a journal that stays
// unavailable for stopTimeout after the cancellation: the turn then leaves no trace in the journal.
func (r *run) begin(ctx workflow.Context, m Message) (out BeginResult, err error) {
	in := BeginInput{Limits: m.Limits, OutputSchema: m.OutputSchema, Context: m.Context, BeginInput: turn.BeginInput{
		Session: r.session, Tenant: r.in.Tenant, Turn: r.turnID, WorkflowID: r.id, RunID: r.runID, Agent: m.Agent,
		Caller: r.in.Caller, Message: m,
	}}
	beginCtx, cancelBegin := workflow.NewDisconnectedContext(ctx)
	defer cancelBegin()
	out, err = callLocal(localOptions(beginCtx, takeSummary), Activities.Begin, in)
	if err == nil || !journalUnavailable(err) {
		return out, err
	}
	begun := runRegular(beginCtx, Activities.Begin, in, takeSummary)
	if workflow.Await(ctx, begun.IsReady) != nil { // cancelled; only then is there a timer in the history
		timerCtx, cancelTimer := workflow.NewDisconnectedContext(ctx)
		defer cancelTimer()
		if ok, _ := awaitWithin(timerCtx, stopTimeout, "stop although the journal is unavailable", begun.IsReady); !ok {
			cancelBegin()
		}
	}
	err = begun.Get(ctx, &out)
	if ctx.Err() != nil && (journalUnavailable(err) || temporal.IsCanceledError(err)) {
		err = ctx.Err() // the server does not retry an attempt after a cancellation
	}
	return out, err
}

// finish runs Finish, which settles the turn with result e and appends the unmerged messages to its transcript.
func (r *run) finish(ctx workflow.Context, e turn.Result, unmerged []Message) (FinishResult, error) {
	in := FinishInput{Tenant: r.in.Tenant, FinishInput: turn.FinishInput{
		Session: r.session, Turn: r.turnID, Outcomes: r.progress.Pending, Messages: unmerged, Result: e,
		Counters: r.progress.Counters,
	}}
	if !r.begun { // Finish opens the turn in the journal first
		in.Opening, in.Caller = r.refused, r.in.Caller
	}
	return runJournal(ctx, Activities.Finish, in, "settle the turn: "+string(e.Reason))
}

// runJournal runs an activity that makes a short write to the journal. It runs it as a local activity first, and with
// runRegular if the journal is slow or unavailable. If ctx is cancelled, it returns at once, and the journal may or may
// not have the write.
func runJournal[In, Out any](ctx workflow.Context, act func(Activities, context.Context, In) (Out, error), in In,
	summary string) (Out, error) {
	out, err := callLocal(localOptions(ctx, summary), act, in)
	if err == nil || !journalUnavailable(err) {
		return out, err
	}
	future := runRegular(ctx, act, in, summary)
	if workflow.Await(ctx, future.IsReady) != nil { // cancelled: Finish writes to the journal next
		return out, ctx.Err()
	}
	err = future.Get(ctx, &out)
	return out, err
}

// runRegular starts an activity that makes a short write to the journal, and retries it while the journal is
// unavailable. It uses a regular activity, which lets the workflow task end. If the input is too large for the history,
// it uses a local activity, which does not record its input. The returned future becomes ready when the activity ends;
// if a regular activity is cancelled, the attempt in progress ends first and may succeed.
func runRegular[In, Out any](ctx workflow.Context, act func(Activities, context.Context, In) (Out, error), in In,
	summary string) workflow.Future {
	retry := &temporal.RetryPolicy{
		InitialInterval: 500 * time.Millisecond, BackoffCoefficient: 2, MaximumInterval: 30 * time.Second,
		MaximumAttempts: journalAttempts, NonRetryableErrorTypes: nonRetryable,
	}
	if encoded, err := json.Marshal(in); err != nil || len(encoded) > maxRecorded {
		retry.InitialInterval = localPause
		return workflow.ExecuteLocalActivity(workflow.WithLocalActivityOptions(ctx, workflow.LocalActivityOptions{
			// Without ScheduleToCloseTimeout, StartToCloseTimeout would bound all attempts together.
			ScheduleToCloseTimeout: turn.MaxRetryFor, StartToCloseTimeout: localCap, RetryPolicy: retry, Summary: summary,
		}), activityName(act), in)
	}
	return workflow.ExecuteActivity(workflow.WithActivityOptions(ctx, workflow.ActivityOptions{
		StartToCloseTimeout: 30 * time.Second, RetryPolicy: retry, WaitForCancellation: true, Summary: summary,
	}), activityName(act), in)
}

// localOptions returns a context with which a local activity writes to the journal: one attempt, bounded by localCap.
func localOptions(ctx workflow.Context, summary string) workflow.Context {
	return workflow.WithLocalActivityOptions(ctx, workflow.LocalActivityOptions{
		ScheduleToCloseTimeout: localCap, RetryPolicy: &temporal.RetryPolicy{MaximumAttempts: 1}, Summary: summary,
	})
}

// journalUnavailable reports whether an activity failed because the journal was slow or unavailable.
func journalUnavailable(err error) bool {
	var timeout *temporal.TimeoutError
	return errors.As(err, &timeout) || code(err) == turn.CodeJournalUnavailable
}

// infer runs Infer with the prompt that plan describes. If the worker lacks the inference role, it schedules the
// activity again, to the task queue that the worker names.
func (r *run) infer(ctx workflow.Context, plan turn.PromptSpec) (InferResult, error) {
	cfg, c := r.progress.Config, r.progress.Counters
	budget := turn.Remaining(cfg.Limits, c)
	subagents := c.Subagents.Add(c.Granted)
	subagents = turn.Spending{Tokens: subagents.Tokens, Cost: subagents.Cost}
	options := inferOptions(budget+cfg.JournalRetryFor, fmt.Sprintf("%s · step %d", turn.Truncate(plan.Model, 80), c.Step))
	options.Priority = r.priority(c.Step <= 1)
	for n := 1; ; n++ {
		options.TaskQueue = r.progress.Config.Queues.Inference
		res, err := call(workflow.WithActivityOptions(ctx, options), Activities.Infer, InferInput{
			Session: r.session, Turn: r.turnID, Step: c.Step, Expect: r.progress.Head,
			Outcomes: r.progress.Pending, Messages: r.progress.Merging, Prompt: plan, Budget: budget,
			Tenant: cfg.Tenant, Provider: cfg.Provider, Background: cfg.Background,
			Subagents: subagents, UsageUnknown: c.UsageUnknown,
		})
		if n == maxCallAttempts || !r.adoptQueues(err) {
			return res, err
		}
	}
}

// localCall runs a call as a local activity. The activity's goroutine may outlive LocalActivityCap and settle the call
// during the next attempt, which is regular. The first settlement stands, and the other attempt finds it in the
// journal.
func (r *run) localCall(ctx workflow.Context, in CallInput) (CallResult, error) {
	ctx = workflow.WithLocalActivityOptions(ctx, workflow.LocalActivityOptions{
		ScheduleToCloseTimeout: turn.LocalActivityCap,
		RetryPolicy:            &temporal.RetryPolicy{MaximumAttempts: 1},
		Summary:                summary(in),
	})
	return callLocal(ctx, Activities.CallTool, in)
}

// regularCall runs a call as a regular activity. home is the queue of the one worker that must run the call; if it is
// empty, any worker may, and regularCall uses the queue of the tool's server, if the server has one, or else the turn's
// queue for tools.
func (r *run) regularCall(ctx workflow.Context, c *callState, in CallInput, home string) (CallResult, error) {
	queue, startWithin := home, stickyTimeout // startWithin bounds the wait for a worker; 0: no bound
	switch {
	case home != "":
	case in.Tool.Queue != "":
		queue, startWithin = in.Tool.Queue, in.Budget
	default:
		queue, startWithin = r.progress.Config.Queues.Tools, 0
	}
	ctx = workflow.WithActivityOptions(ctx, workflow.ActivityOptions{
		TaskQueue: queue, ScheduleToStartTimeout: startWithin,
		StartToCloseTimeout: CallDeadline(max(in.Timeout, in.TotalTimeout)+in.Tool.ElicitationTimeout) +
			r.progress.Config.JournalRetryFor,
		HeartbeatTimeout:    heartbeat,
		WaitForCancellation: true,
		RetryPolicy:         callRetryPolicy,
		Priority:            r.priority(false),
		Summary:             summary(in),
	})
	return r.awaitAttempt(ctx, c, workflow.ExecuteActivity(ctx, activityName(Activities.CallTool), in))
}

// summary returns the line that the Web UI shows for a call, in at most 200 bytes, which every server accepts.
func summary(in CallInput) string {
	line := in.Tool.ID + " " + in.Call.Arguments
	if in.Attempt > 1 {
		line = fmt.Sprintf("%s (attempt %d)", line, in.Attempt)
	}
	return turn.Truncate(line, 200)
}

// inferOptions returns the options of an inference's activity. budget is what one attempt may take besides inferRoom.
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
