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
	// localCap bounds a local activity that writes to the journal, such as Begin and Finish. After that the same
	// function runs as a regular activity.
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
	// callAttempts bounds those of a call in the same way.
	callAttempts = 5_000
	// stopTimeout bounds Begin when the journal is unavailable and the turn was stopped. It is longer than one attempt
	// waits for a locked journal, 10 s.
	stopTimeout = 15 * time.Second

	takeSummary = "take the message"
	// localPause is the first pause between attempts of a local activity. A pause that is longer than a workflow task's
	// timeout is a timer, so that the workflow task ends.
	localPause = 15 * time.Second
)

// inferRoom is the time of an inference besides its budget. Before it starts, an inference may wait for a locked
// journal (10 s, like any write) and for memory. If it has waited longer, for an earlier attempt on its worker for
// instance, it is retried. Afterwards it may wait for memory again, and settles as a call does. If the server timed it
// out meanwhile, it would be repeated, and paid for again.
const (
	inferRoom    = BeforeModel + AdmitWithin + LargeWithin + SettleWithin + CallRoom
	BeforeModel  = 10*time.Second + PromptWithin
	PromptWithin = 10 * time.Second // a later attempt waits again
	AdmitWithin  = 10 * time.Second // for a fleet limit; a later attempt waits again
	LargeWithin  = 10 * time.Second
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

// callRetryPolicy lets the Temporal server wait on behalf of a call that was not sent, which uses no worker slot and no
// history, and likewise on behalf of a call that waits for the journal to claim it. The activity says when to try again
// (NextRetryDelay) and when its time is over. After a timeout, or an error
// that the SDK reports in place of the activity's, the call may have been sent, so the server must not retry it; the
// workflow attempts it again, and the journal decides. The type of a plain Go error is empty. The intervals and
// MaximumAttempts bound errors that are not listed.
var callRetryPolicy = &temporal.RetryPolicy{
	InitialInterval: time.Second, BackoffCoefficient: 2, MaximumInterval: 10 * time.Second,
	MaximumAttempts: callAttempts,
	NonRetryableErrorTypes: slices.Concat(nonRetryable, allCodesBut(turn.CodeToolNotSent, turn.CodeJournalUnavailable),
		[]string{"TemporalTimeout:StartToClose", "TemporalTimeout:Heartbeat", "", "wrapError", "PanicError"}),
}

// allCodesBut returns all error codes except some. The retry policy lists them because a worker of another version may
// mark an error as retryable.
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

// begin appends the message to the session. It does so even if the turn is stopped first, because the message was
// acknowledged: it gets one answer, and the turn's stream gets an end. The only exception is a journal that stays
// unavailable for stopTimeout after the stop; the turn is then cancelled and leaves no trace in the journal.
func (r *run) begin(ctx workflow.Context, m Message) (out BeginResult, err error) {
	in := BeginInput{Limits: r.in.Limits, OutputSchema: r.in.OutputSchema, BeginInput: turn.BeginInput{
		Session: r.session, Tenant: r.in.Tenant, Turn: r.turnID, WorkflowID: r.id, RunID: r.runID, Agent: r.in.Agent,
		Message: m,
	}}
	taking, giveUp := workflow.NewDisconnectedContext(ctx)
	defer giveUp()
	out, err = callLocal(localOptions(taking, takeSummary), Activities.Begin, in)
	if err == nil || !journalUnavailable(err) {
		return out, err
	}
	taken := runRegular(taking, Activities.Begin, in, takeSummary)
	if workflow.Await(ctx, taken.IsReady) != nil { // stopped; this adds no event to the history of other turns
		waiting, enough := workflow.NewDisconnectedContext(ctx)
		defer enough()
		if ok, _ := awaitWithin(waiting, stopTimeout, "stop although the journal is unavailable", taken.IsReady); !ok {
			giveUp()
		}
	}
	err = taken.Get(ctx, &out)
	if ctx.Err() != nil && (journalUnavailable(err) || temporal.IsCanceledError(err)) {
		err = ctx.Err() // the server does not retry an attempt after a cancellation
	}
	return out, err
}

func (r *run) finish(ctx workflow.Context, e turn.Result, late []Message) (FinishResult, error) {
	in := FinishInput{Tenant: r.in.Tenant, FinishInput: turn.FinishInput{
		Session: r.session, Turn: r.turnID, Outcomes: r.progress.Pending, Messages: late, Result: e,
		Counters: r.progress.Counters,
	}}
	if !r.begun {
		in.Opening = r.refused
	}
	return runJournal(ctx, Activities.Finish, in, "settle the turn: "+string(e.Reason))
}

// runJournal runs a short write to the journal, and repeats it if the journal is slow or unavailable.
func runJournal[In, Out any](ctx workflow.Context, act func(Activities, context.Context, In) (Out, error), in In,
	summary string) (Out, error) {
	out, err := callLocal(localOptions(ctx, summary), act, in)
	if err == nil || !journalUnavailable(err) {
		return out, err
	}
	future := runRegular(ctx, act, in, summary)
	if workflow.Await(ctx, future.IsReady) != nil { // stopped: Finish writes to the journal next
		return out, ctx.Err()
	}
	err = future.Get(ctx, &out)
	return out, err
}

// runRegular repeats a short write after the journal was unavailable. It uses a regular activity, which lets the
// workflow task end. If the input is too large to be recorded, it uses a local activity, which records no input. After
// a cancellation it still waits for the attempt in progress, which may succeed.
func runRegular[In, Out any](ctx workflow.Context, act func(Activities, context.Context, In) (Out, error), in In,
	summary string) workflow.Future {
	patient := &temporal.RetryPolicy{
		InitialInterval: 500 * time.Millisecond, BackoffCoefficient: 2, MaximumInterval: 30 * time.Second,
		MaximumAttempts: journalAttempts, NonRetryableErrorTypes: nonRetryable,
	}
	if encoded, err := json.Marshal(in); err != nil || len(encoded) > maxRecorded {
		patient.InitialInterval = localPause
		return workflow.ExecuteLocalActivity(workflow.WithLocalActivityOptions(ctx, workflow.LocalActivityOptions{
			// Without ScheduleToCloseTimeout, StartToCloseTimeout would bound all attempts together.
			ScheduleToCloseTimeout: turn.MaxRetryFor, StartToCloseTimeout: localCap, RetryPolicy: patient, Summary: summary,
		}), activityName(act), in)
	}
	return workflow.ExecuteActivity(workflow.WithActivityOptions(ctx, workflow.ActivityOptions{
		StartToCloseTimeout: 30 * time.Second, RetryPolicy: patient, WaitForCancellation: true, Summary: summary,
	}), activityName(act), in)
}

func localOptions(ctx workflow.Context, summary string) workflow.Context {
	return workflow.WithLocalActivityOptions(ctx, workflow.LocalActivityOptions{
		ScheduleToCloseTimeout: localCap, RetryPolicy: &temporal.RetryPolicy{MaximumAttempts: 1}, Summary: summary,
	})
}

func journalUnavailable(err error) bool {
	var timeout *temporal.TimeoutError
	return errors.As(err, &timeout) || code(err) == turn.CodeJournalUnavailable
}

func (r *run) infer(ctx workflow.Context, plan turn.PromptSpec) (InferResult, error) {
	cfg, c := r.progress.Config, r.progress.Counters
	budget := turn.Remaining(cfg.Limits, c)
	options := inferOptions(budget+cfg.JournalRetryFor, fmt.Sprintf("%s · step %d", turn.Truncate(plan.Model, 80), c.Step))
	options.Priority = r.priority(c.Step <= 1)
	for n := 1; ; n++ {
		options.TaskQueue = r.progress.Config.Queues.Inference
		res, err := call(workflow.WithActivityOptions(ctx, options), Activities.Infer, InferInput{
			Session: r.session, Turn: r.turnID, Step: c.Step, Expect: r.progress.Head,
			Outcomes: r.progress.Pending, Messages: r.progress.Merging, Prompt: plan, Budget: budget,
			Tenant: cfg.Tenant, Provider: cfg.Provider, Background: cfg.Background,
			Subagents: c.Subagents.Cost + c.Granted.Cost,
		})
		if n == maxCallAttempts || !r.moved(err) {
			return res, err
		}
	}
}

// localCall runs a call as a local activity. Its goroutine may outlive LocalActivityCap. Its settlement then either
// loses to that of the next attempt, or stands and the next attempt finds it.
func (r *run) localCall(ctx workflow.Context, in CallInput) (CallResult, error) {
	ctx = workflow.WithLocalActivityOptions(ctx, workflow.LocalActivityOptions{
		ScheduleToCloseTimeout: turn.LocalActivityCap,
		RetryPolicy:            &temporal.RetryPolicy{MaximumAttempts: 1},
		Summary:                summary(in),
	})
	return callLocal(ctx, Activities.CallTool, in)
}

// regularCall runs a call as an activity on a sticky queue. If that is empty, it runs on the queue of the tool's server
// or of all tools.
func (r *run) regularCall(ctx workflow.Context, in CallInput, sticky string) (CallResult, error) {
	queue, startWithin := sticky, stickyTimeout
	switch {
	case sticky != "":
	case in.Tool.Queue != "":
		queue, startWithin = in.Tool.Queue, in.Budget
	default:
		queue, startWithin = r.progress.Config.Queues.Tools, 0
	}
	ctx = workflow.WithActivityOptions(ctx, workflow.ActivityOptions{
		TaskQueue: queue, ScheduleToStartTimeout: startWithin,
		StartToCloseTimeout: CallDeadline(max(in.Timeout, in.TotalTimeout)) + r.progress.Config.JournalRetryFor,
		HeartbeatTimeout:    heartbeat,
		WaitForCancellation: true,
		RetryPolicy:         callRetryPolicy,
		Priority:            r.priority(false),
		Summary:             summary(in),
	})
	return call(ctx, Activities.CallTool, in)
}

// summary is the line that the Web UI shows for a call. The server accepts at least 200 bytes.
func summary(in CallInput) string {
	line := in.Tool.ID + " " + in.Call.Arguments
	if in.Attempt > 1 {
		line = fmt.Sprintf("%s (attempt %d)", line, in.Attempt)
	}
	return turn.Truncate(line, 200)
}

// inferOptions returns the options of an inference's activity.
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
