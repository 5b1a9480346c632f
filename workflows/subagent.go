package workflows

import (
	"errors"
	"fmt"
	"strings"
	"time"

	enumspb "go.temporal.io/api/enums/v1"
	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/workflow"

	"github.com/everturn/everturn/workflows/turn"
)

// maxSubagents bounds the inline subagents of a turn that run at the same time. The turn waits for an inline subagent,
// unlike for one that works in the background.
const maxSubagents = 4

// stepAgents holds the allowances of the subagents that a step calls.
type stepAgents struct {
	turn.Shares
	slots workflow.Semaphore // limits inline subagents to maxSubagents at a time
	// before is Counters.Granted before the step, and granted is the sum of what the step has granted to subagents in the
	// background.
	before, granted turn.Spending
}

// newStepAgents divides what is left of the turn's limits between the subagents that a step calls. It returns nil if
// the step calls none. While the step runs, Counters.Granted includes the whole shares of the subagents in the
// background.
func (r *run) newStepAgents(ctx workflow.Context, states []*callState) *stepAgents {
	inline, background := 0, 0
	for _, cs := range states {
		switch tool, ok := r.progress.Config.Find(cs.Call.Tool); {
		case !ok || tool.Activity != turn.ActivityAgent:
		case cs.Call.Background:
			background++
		default:
			inline++
		}
	}
	if inline+background == 0 {
		return nil
	}
	c := &r.progress.Counters
	a := &stepAgents{
		Shares: turn.SharesOf(r.progress.Config.Limits, *c, len(states), inline, background), before: c.Granted,
		slots: workflow.NewSemaphore(ctx, maxSubagents),
	}
	for range background { // so that the step's other calls cannot use these shares
		c.Granted = c.Granted.Add(a.Background.All())
	}
	return a
}

// countGranted replaces the shares that newStepAgents has added to Counters.Granted by what the step has granted: a
// call that was denied, for example, has granted nothing. It is called when the step's calls have ended.
func (a *stepAgents) countGranted(c *turn.Counters) {
	if a != nil {
		c.Granted = a.before.Add(a.granted)
	}
}

// runSubagent runs a call of an agent's tool: it claims the call, runs the agent's turn as a child workflow, and
// settles the call with the turn's answer. The subagent's session and the ID of its message derive from the call, so a
// turn that was reset gets the answer of the subagent that it started before the reset.
func (r *run) runSubagent(ctx workflow.Context, c *callState, tool turn.Tool) (CallResult, error) {
	if c.Call.Background {
		return r.runInBackground(ctx, c, tool)
	}
	if err := r.agents.slots.Acquire(ctx, 1); err != nil {
		return CallResult{}, ctx.Err()
	}
	defer r.agents.slots.Release(1)
	if err := r.checkTime(c); err != nil {
		return CallResult{}, err
	}
	share := r.agents.Inline
	// Calls of the step that have ended meanwhile have used working time.
	share.Time = min(share.Time, turn.Remaining(r.progress.Config.Limits, r.workedSoFar()))
	if !share.Enough() {
		return CallResult{}, nothingLeft()
	}
	began := r.worked // when the share was computed: what other calls use from here on is used at the same time
	in, begun, err := r.claimAgent(ctx, c, tool, share)
	if err != nil || begun.Outcome != "" { // the call was settled before a reset
		return begun, err
	}
	var busy time.Duration
	busy, in.Problem = in.runAgent(ctx, *begun.Message, false)
	r.addWork(began, busy)
	settleCtx := ctx
	if ctx.Err() != nil { // the subagent was cancelled with the turn and has ended: settle the call nevertheless
		var cancel workflow.CancelFunc
		settleCtx, cancel = workflow.NewDisconnectedContext(ctx)
		defer cancel()
	}
	return runJournal(settleCtx, Activities.SettleSubagent, in, "settle "+summary(in))
}

// claimAgent runs BeginSubagent, which claims a call of an agent's tool and grants share to its subagent. It returns
// the activity's input and its result, which has an outcome if the call is settled already.
func (r *run) claimAgent(ctx workflow.Context, c *callState, tool turn.Tool,
	share turn.Allowance) (in CallInput, begun CallResult, err error) {
	c.Attempt++
	in = r.callInput(c, tool)
	in.Granted = share
	begun, err = runJournal(ctx, Activities.BeginSubagent, in, summary(in))
	if err == nil && begun.Outcome == "" && begun.Message == nil {
		err = temporal.NewApplicationError("the call of the agent has no task", string(turn.CodeInternal))
	}
	return in, begun, err
}

// nothingLeft returns the error of a call whose subagent would get too small an allowance for a turn.
func nothingLeft() error {
	return temporal.NewApplicationError("not enough is left of the turn's max_steps, max_tokens, max_cost_usd or "+
		"turn_timeout for an agent", string(turn.CodePolicyDenied))
}

// The first and the longest pause before the next try to start a subagent whose session has a running turn. The pauses
// double.
const (
	firstSubagentPause = 2 * time.Second
	maxSubagentPause   = time.Minute
)

// subagent returns the ID of the session of the subagent that the call runs.
func (in CallInput) subagent() string { return turn.SubagentSession(in.Turn, in.Call.ID) }

// agent returns the name of the agent that the call runs.
func (in CallInput) agent() string { return strings.TrimPrefix(in.Tool.ID, turn.AgentTools) }

// maxAgentCall bounds a DeliverInput.Call, in bytes of JSON.
const maxAgentCall = 16 << 10

// checkCall rejects a DeliverInput.Call that is too large or cannot come from a turn: its session or tenant is not that
// of the delivery, or its tool is not an agent's.
func (in DeliverInput) checkCall() *turn.Error {
	call := in.Call
	if err := checkSize("call", call, maxAgentCall); err != nil {
		return err
	}
	if call.Turn == "" || call.Call.ID == "" || turn.CheckSession(call.subagent()) != nil || call.Session != in.Session ||
		call.Tenant != in.Tenant || !strings.HasPrefix(call.Tool.ID, turn.AgentTools) {
		return invalid("the delivery names no call of an agent by its session")
	}
	return checkAgent(call.agent())
}

// subagentPriority returns the priority of the workflow that runs the subagent, which is that of its caller's
// activities. background is that of the caller's turn.
func (in CallInput) subagentPriority(background bool) temporal.Priority {
	p := Priority(in.Tenant, background)
	p.PriorityKey--
	return p
}

// runAgent runs the subagent's turn, which begins with the message task, as a child workflow and waits until it has
// ended. asks is Input.Asks. It returns the turn's working time and, if the turn failed or was stopped, the reason; the
// journal has the answer. If the subagent still runs because the caller's turn was reset, runAgent waits for its end
// and starts it again: that run finds the message in the journal and repeats its answer.
func (in CallInput) runAgent(ctx workflow.Context, task Message, asks bool) (busy time.Duration, problem string) {
	session, id := in.subagent(), WorkflowID(in.Tenant, in.subagent())
	// If the caller's workflow closes while the subagent runs, the server cancels the subagent, which settles its own
	// turn.
	ctx = workflow.WithChildOptions(ctx, workflow.ChildWorkflowOptions{
		WorkflowID:            id,
		ParentClosePolicy:     enumspb.PARENT_CLOSE_POLICY_REQUEST_CANCEL,
		WorkflowIDReusePolicy: enumspb.WORKFLOW_ID_REUSE_POLICY_ALLOW_DUPLICATE,
		WaitForCancellation:   true,
		Priority:              in.subagentPriority(task.Background),
		StaticSummary:         Summary(in.agent() + " for " + in.Session),
		TypedSearchAttributes: temporal.NewSearchAttributes(AttrSession.ValueSet(session), AttrAgent.ValueSet(in.agent()),
			AttrState.ValueSet(string(turn.StateRunning))),
	})
	for pause := firstSubagentPause; ; pause = min(2*pause, maxSubagentPause) {
		var result Result
		err := workflow.ExecuteChildWorkflow(ctx, TurnWorkflow, Input{
			Version: WireVersion, Session: session, Tenant: in.Tenant, Message: &task, Agent: in.agent(), Asks: asks,
			Caller: turn.Caller{Session: in.Session, Turn: in.Turn, Call: in.Call.ID},
		}).Get(ctx, &result)
		if err == nil {
			return result.Busy, ""
		}
		var running *temporal.ChildWorkflowExecutionAlreadyStartedError
		if !errors.As(err, &running) {
			return detailsOf(err).Busy, turn.Truncate(err.Error(), turn.ResultPreview)
		}
		if workflow.Sleep(ctx, pause) != nil {
			cancelCtx, done := workflow.NewDisconnectedContext(ctx)
			defer done()
			requestCancel(cancelCtx, id) // the subagent is no child of this run, so the server does not cancel it
			return 0, "it was stopped"
		}
	}
}

// requestCancel requests the cancellation of the workflow with this ID. A failure is only logged.
func requestCancel(ctx workflow.Context, id string) {
	if err := workflow.RequestCancelExternalWorkflow(ctx, id, "").Get(ctx, nil); err != nil {
		workflow.GetLogger(ctx).Warn("a workflow could not be stopped", "workflow", id, "error", err)
	}
}

// maxBackground bounds the subagents that a turn starts in the background.
const maxBackground = 4

// BackgroundID returns the ID of the workflow that runs the turn of a subagent in the background and sends its answer
// to the caller's session.
func BackgroundID(tenant, session string) string {
	return WorkflowID(tenant, turn.SubagentAnswerID(session))
}

// runInBackground starts a Deliver workflow that runs the agent's turn and sends its answer to the caller's session. It
// settles the call as soon as the workflow has started. The turn continues meanwhile and may end first, so the whole
// allowance of the subagent counts against the turn's limits at once.
func (r *run) runInBackground(ctx workflow.Context, c *callState, tool turn.Tool) (CallResult, error) {
	switch share := r.agents.Background; {
	case !share.Enough():
		return CallResult{}, nothingLeft()
	case len(r.progress.Background) >= maxBackground:
		return CallResult{}, temporal.NewApplicationError(fmt.Sprintf("the turn has called %d agents in the background, "+
			"which is the maximum", maxBackground), string(turn.CodePolicyDenied))
	}
	// Before the first wait, because other calls of the step check the number, too.
	r.progress.Background = append(r.progress.Background, turn.SubagentSession(r.turnID, c.Call.ID))
	in, begun, err := r.claimAgent(ctx, c, tool, r.agents.Background)
	if err != nil {
		return CallResult{}, err
	}
	r.agents.granted = r.agents.granted.Add(begun.Granted.All())
	if begun.Outcome != "" {
		return begun, nil
	}
	// With ctx, the cancellation of the turn would cancel the delivery directly; stopBackground does that instead.
	disconnected, _ := workflow.NewDisconnectedContext(ctx)
	childCtx := workflow.WithChildOptions(disconnected, workflow.ChildWorkflowOptions{
		WorkflowID:            BackgroundID(in.Tenant, in.subagent()),
		ParentClosePolicy:     enumspb.PARENT_CLOSE_POLICY_ABANDON,
		WorkflowIDReusePolicy: enumspb.WORKFLOW_ID_REUSE_POLICY_REJECT_DUPLICATE,
		Priority:              in.subagentPriority(begun.Message.Background),
		StaticSummary:         Summary(in.agent() + " for " + in.Session + ", in the background"),
	})
	err = workflow.ExecuteChildWorkflow(childCtx, DeliverWorkflow, DeliverInput{
		Version: WireVersion, Session: in.Session, Tenant: in.Tenant, Agent: r.progress.Config.Agent, Message: *begun.Message,
		Call: &in,
	}).GetChildWorkflowExecution().Get(ctx, nil)
	var started *temporal.ChildWorkflowExecutionAlreadyStartedError
	switch {
	case ctx.Err() != nil:
		return CallResult{}, ctx.Err()
	case err != nil && !errors.As(err, &started): // a delivery that exists was started before a reset
		return CallResult{}, err
	}
	in.Started = true
	return runJournal(ctx, Activities.SettleSubagent, in, "settle "+summary(in))
}

// stopBackground requests the cancellation of the subagents in the background that have these sessions. A cancelled
// turn calls it twice: first with its own subagents, which it can stop even if the journal is unavailable, and then
// with those of the session's earlier turns, which Finish reports.
func (r *run) stopBackground(ctx workflow.Context, sessions []string) {
	for _, session := range sessions {
		requestCancel(ctx, BackgroundID(r.in.Tenant, session))
	}
}

// answer runs the turn of a background subagent, which begins with the message task, to its end, settles its call, and
// returns the message with the answer for the caller's session. If ctx is cancelled, it settles the call and returns
// the cancellation.
func (in CallInput) answer(ctx workflow.Context, task Message) (Message, error) {
	_, in.Problem = in.runAgent(ctx, task, true)
	if ctx.Err() != nil {
		in.Problem = "it was stopped"
	}
	in.Deliver = true
	settleCtx, cancel := workflow.NewDisconnectedContext(ctx) // a cancelled subagent's call is settled, too
	defer cancel()
	receipt, err := runJournal(settleCtx, Activities.SettleSubagent, in, "settle "+summary(in))
	switch {
	case ctx.Err() != nil:
		return Message{}, ctx.Err()
	case err != nil:
		return Message{}, err
	case receipt.Message == nil:
		return Message{}, temporal.NewNonRetryableApplicationError("the agent has left no answer",
			string(turn.CodeInternal), nil)
	}
	return *receipt.Message, nil
}

// detailsOf returns the Result in the details of the error of a failed or cancelled turn. It returns an empty Result if
// the error has none.
func detailsOf(err error) (result Result) {
	var failed *temporal.ApplicationError
	var cancelled *temporal.CanceledError
	switch {
	case errors.As(err, &failed) && failed.HasDetails():
		err = failed.Details(&result)
	case errors.As(err, &cancelled) && cancelled.HasDetails():
		err = cancelled.Details(&result)
	}
	if err != nil {
		return Result{}
	}
	return result
}
