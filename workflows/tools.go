package workflows

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	enumspb "go.temporal.io/api/enums/v1"
	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/workflow"

	"github.com/everturn/everturn/workflows/turn"
)

// maxCallAttempts bounds the attempts of one call. If a worker dies, a new attempt finds in the journal what the last
// one did, and a repeatable tool runs again.
const maxCallAttempts = 5

// callState is the state of one call from proposal to receipt.
type callState struct {
	call           turn.CallProposal
	decision       turn.Decision
	attempt        int                        // the last attempt
	busy           time.Duration              // working time of earlier attempts, including waits for the server
	elicited       int                        // the number of elicitations of its server so far
	responses      []turn.ElicitationResponse // responses to the latest elicitations
	respondsTo     int                        // the attempt that returned them
	reached        int                        // the attempts that may have reached the tool, and whose ends are unknown
	dependsOnState bool                       // the call depends on the state that its stateful server keeps for the turn
	owningCall     string                     // the call that created this state
	queue          string                     // the task queue of the worker with the call's open connection; empty: any
	outcome        turn.CallOutcome
	receipt        CallResult
	err            error
}

// Repeats and maxRepeats are the minimum and maximum number of attempts of a repeatable call whose outcome stays
// unknown. Repeats holds even after the call's time is over, and maxRepeats while it lasts.
const (
	Repeats    = 3
	maxRepeats = 20
)

// callTool runs a step's calls and passes their results on in request order.
func (r *run) callTool(ctx workflow.Context, p turn.CallTool) turn.Phase {
	approvals, err := r.approvals(ctx, p.Calls)
	if errors.Is(err, errMoves) {
		return p
	}
	if err != nil {
		return p.Done(r.resultOf(err), nil)
	}
	states := make([]*callState, len(p.Calls))
	for i, c := range p.Calls {
		states[i] = &callState{call: c, decision: approvals[c.ID], outcome: turn.CallOutcome{CallID: c.ID}}
	}
	r.runCalls(ctx, states)
	results := make([]turn.CallOutcome, len(states))
	receipts := make([]CallResult, len(states))
	for i, cs := range states {
		results[i], receipts[i] = cs.outcome, cs.receipt
		if err == nil {
			err = cs.err
		}
	}
	if ctx.Err() != nil {
		return p.Done(r.resultOf(ctx.Err()), results)
	}
	r.count(receipts, approvals)
	if err != nil {
		return p.Done(r.resultOf(err), results)
	}
	if stop := r.afterToolErrors(receipts); stop != nil {
		return p.Done(*stop, results)
	}
	return p.BuildPrompt(results)
}

// runCalls runs calls in parallel, up to MaxParallelCalls at a time. A suspended call does not count until it
// continues.
func (r *run) runCalls(ctx workflow.Context, states []*callState) {
	r.agents = r.newStepAgents(ctx, states)
	r.worked = 0
	wg, slots := workflow.NewWaitGroup(ctx), workflow.NewSemaphore(ctx, int64(r.progress.Config.Limits.MaxParallelCalls))
	for _, c := range states {
		wg.Add(1)
		workflow.Go(ctx, func(ctx workflow.Context) {
			defer wg.Done()
			for again := true; again; again = r.resume(ctx, c) {
				if slots.Acquire(ctx, 1) != nil { // stopped before it got a slot
					return
				}
				if ctx.Err() == nil {
					c.outcome, c.receipt, c.err = r.oneCall(ctx, c)
				}
				slots.Release(1)
			}
		})
	}
	wg.Wait(ctx)
	r.agents.settle(&r.progress.Counters)
}

// count adds a step's calls to the turn's counters. A step counts as an error if none of its calls succeeded, unless
// users denied all of them.
func (r *run) count(receipts []CallResult, approvals map[string]turn.Decision) {
	c := &r.progress.Counters
	c.ToolCalls += len(receipts)
	c.Busy += r.worked
	succeeded := false
	for _, receipt := range receipts {
		if receipt.Used != nil {
			used := *receipt.Used
			used.Time = 0 // which Busy has
			c.Subagents = c.Subagents.Add(used)
		}
		succeeded = succeeded || receipt.Outcome == turn.OutcomeOK
	}
	switch {
	case succeeded:
		c.ConsecutiveErrors, c.Reprompts = 0, 0
	case !allDenied(receipts, approvals):
		c.ConsecutiveErrors++
	}
}

// allDenied reports whether users denied every call.
func allDenied(receipts []CallResult, approvals map[string]turn.Decision) bool {
	for _, receipt := range receipts {
		if decision, asked := approvals[receipt.CallID]; !asked || decision.Allowed {
			return false
		}
	}
	return true
}

// afterToolErrors applies a policy that ends the turn after a tool error.
func (r *run) afterToolErrors(receipts []CallResult) *turn.Result {
	for _, receipt := range receipts {
		if receipt.Outcome != turn.OutcomeError && receipt.Outcome != turn.OutcomeUnknown {
			continue
		}
		message := fmt.Sprintf("%s ended with outcome %s: %s", receipt.Tool, receipt.Outcome, receipt.Preview)
		switch r.progress.Config.Policy.OnToolError {
		case turn.ErrorFail:
			return &turn.Result{State: turn.StateFailed, Reason: turn.FinishFailed, Code: turn.CodeToolFailed,
				Answer: r.progress.LastText, Message: message}
		case turn.ErrorInterrupt:
			e := r.interruptedResult(message)
			return &e
		}
	}
	return nil
}

// oneCall takes one call from proposal to receipt. Policy or a decision may settle it without an attempt.
func (r *run) oneCall(ctx workflow.Context, cs *callState) (turn.CallOutcome, CallResult, error) {
	c := cs.call
	settled := turn.CallOutcome{CallID: c.ID}
	tool, ok := r.progress.Config.Find(c.Tool)
	if !ok { // the activity has checked that the tool exists
		settled.Outcome, settled.Text = turn.OutcomeDenied, "there is no tool "+c.Tool
		return settled, CallResult{Outcome: turn.OutcomeDenied}, nil
	}
	if c.Code != "" { // no approval was requested, and none is needed
		settled.Outcome, settled.Code, settled.Text = turn.OutcomeError, c.Code, c.Why
		return settled, CallResult{CallID: c.ID, Outcome: settled.Outcome, Tool: c.Tool, Preview: c.Why}, nil
	}
	if why := denyReason(c, cs.decision); why != "" {
		settled.Outcome, settled.Text = turn.OutcomeDenied, why
		return settled, CallResult{CallID: c.ID, Outcome: settled.Outcome, Tool: c.Tool}, nil
	}
	receipt, err := r.perform(ctx, cs, tool)
	if err != nil && ctx.Err() != nil {
		return settled, receipt, ctx.Err() // stopped: the journal knows whether the call was claimed
	}
	if outcome := outcomeOf(err); outcome != "" {
		// The journal has at most an open claim of this call. If it has an outcome, that outcome stands.
		settled.Outcome, settled.Code, settled.Text = outcome, knownCode(code(err)), modelText(cs, tool, outcome, err)
		if (cs.reached > 0 || cs.elicited > 0) && outcome != turn.OutcomeUnknown { // an earlier attempt may have done something
			settled.Outcome, settled.Code, settled.Text = turn.OutcomeUnknown, turn.CodeToolOutcomeUnknown, reachedText(cs, err)
		}
		return settled, CallResult{CallID: c.ID, Outcome: settled.Outcome, Tool: c.Tool, Preview: settled.Text}, nil
	}
	if receipt.Tool != "" {
		r.noteTool(c.Tool)
	}
	return settled, receipt, err
}

// perform attempts a call, or runs the turn of the agent that it calls, if the turn has time left for it.
func (r *run) perform(ctx workflow.Context, c *callState, tool turn.Tool) (CallResult, error) {
	if tool.Activity == turn.ActivityAgent {
		return r.runSubagent(ctx, c, tool)
	}
	if err := r.checkTime(c); err != nil {
		return CallResult{}, err
	}
	return r.attemptCall(ctx, c, tool)
}

// denyReason returns why policy or a user's decision forbids a call, or an empty string if the call may run.
func denyReason(c turn.CallProposal, decision turn.Decision) string {
	switch {
	case c.Permission == turn.Allow, c.Permission == turn.Ask && decision.Allowed:
		return ""
	case c.Permission == turn.Ask:
		return denialText(decision)
	}
	if c.Retry {
		return c.Why
	}
	return c.Why + "; do not try again"
}

// attemptCall runs the call, and attempts it again as long as its fate must be looked up in the journal.
func (r *run) attemptCall(ctx workflow.Context, c *callState, tool turn.Tool) (receipt CallResult, err error) {
	settle, err := r.awaitOwner(ctx, tool)
	if err != nil {
		return CallResult{}, err
	}
	defer func() { settle(receipt, err) }()
	r.recordDependence(c, tool)
	for n := 1; ; n++ {
		c.attempt++
		in, began := r.callInput(c, tool), r.worked
		if tool.Activity == turn.ActivityLocal && c.attempt == 1 {
			receipt, err = r.localCall(ctx, in)
		} else {
			receipt, err = r.regularCall(ctx, in, cmp.Or(c.queue, r.stickyQueue(tool)))
		}
		if n < maxCallAttempts && r.moved(err) {
			continue
		}
		if queue := workerOf(err); n < maxCallAttempts && queue != "" {
			c.queue = queue
			continue
		}
		err = checkElsewhere(checkKey(err))
		if err == nil || attemptLost(err) {
			c.queue = ""
		}
		if mayHaveRun(err) {
			c.reached++
		}
		err = checkHosted(tool, r.checkStateLost(c, tool, err))
		c.busy += r.addWork(began, cmp.Or(receipt.Busy, workingTime(err)))
		if err == nil || !c.attemptAgain(tool, err, n) || ctx.Err() != nil {
			return receipt, err
		}
	}
}

// attemptAgain reports whether another attempt is right. It is if the last one was lost or timed out, because the
// journal knows more; if the last one certainly did not reach its tool; or if the outcome is unknown and the tool is
// repeatable. n is the number of attempts since the call was last resumed.
func (c *callState) attemptAgain(tool turn.Tool, err error, n int) bool {
	switch code(err) {
	case turn.CodeToolNotSent, turn.CodeJournalUnavailable:
		if tool.Activity != turn.ActivityLocal || c.attempt > 1 {
			return false // the activity has already waited for the server or the journal
		}
	case turn.CodeWorkerUnavailable:
	case turn.CodeToolOutcomeUnknown:
		return c.repeatable(tool)
	default:
		if !attemptLost(err) {
			return false
		}
	}
	return n < maxCallAttempts
}

// repeatable reports whether a call with an unknown outcome may be attempted once more. When the call's time is over,
// the activity settles the call instead of failing.
func (c *callState) repeatable(tool turn.Tool) bool { return tool.Repeatable && c.attempt < maxRepeats }

// mayHaveRun reports whether an attempt that ended with err may have reached its tool.
func mayHaveRun(err error) bool {
	var busy time.Duration
	var reached bool
	if app := failureOf(err); app != nil && app.Details(&busy, &reached) == nil && reached {
		return true
	}
	return code(err) == turn.CodeToolOutcomeUnknown || attemptLost(err) && !neverStarted(err)
}

// neverStarted reports whether no worker took the activity from its task queue in time.
func neverStarted(err error) bool {
	var timeout *temporal.TimeoutError
	return errors.As(err, &timeout) && timeout.TimeoutType() == enumspb.TIMEOUT_TYPE_SCHEDULE_TO_START
}

// workingTime returns the working time of an attempt that ended with err, as reported by its activity.
func workingTime(err error) (busy time.Duration) {
	if err == nil {
		return 0
	}
	var timeout *temporal.TimeoutError
	failed := failureOf(err)
	switch {
	case failed != nil && failed.HasDetails():
		err = failed.Details(&busy)
	case errors.As(err, &timeout) && timeout.HasLastHeartbeatDetails():
		err = timeout.LastHeartbeatDetails(&busy)
	default:
		return 0
	}
	if err != nil { // the details are of another type
		return 0
	}
	return busy
}

// attemptLost reports whether err means that the attempt was lost, and is not CallTool's own error. The
// server reports such an error when a worker dies. The SDK does when it fails to report the activity's result, which
// happens while a worker stops.
func attemptLost(err error) bool {
	if err == nil || temporal.IsCanceledError(err) {
		return false
	}
	var timeout *temporal.TimeoutError
	return errors.As(err, &timeout) || !code(err).Known()
}

// outcomeOf returns the outcome of a call that ended with err, or an empty one if the turn cannot continue.
func outcomeOf(err error) turn.Outcome {
	switch code(err) {
	case turn.CodeToolNotSent, turn.CodeToolDrift, turn.CodeToolStateLost:
		return turn.OutcomeError
	case turn.CodeInvalidAction, turn.CodePolicyDenied, turn.CodeLimitExceeded:
		return turn.OutcomeDenied
	case turn.CodeToolOutcomeUnknown:
		return turn.OutcomeUnknown
	}
	if attemptLost(err) {
		return turn.OutcomeUnknown
	}
	return ""
}

func (r *run) callInput(c *callState, tool turn.Tool) CallInput {
	l := r.progress.Config.Limits
	timeout, left := tool.Timeout, turn.Remaining(l, r.workedSoFar())
	if timeout == 0 {
		timeout = l.ToolTimeout
	}
	in := CallInput{
		Session: r.session, Tenant: r.progress.Config.Tenant, Turn: r.turnID, Step: r.progress.Counters.Step, Call: c.call,
		Tool: tool, Model: r.progress.Config.Model,
		PromptConfig: r.progress.Config.PromptConfig, Attempt: c.attempt, Timeout: min(timeout, left),
		TotalTimeout:  min(tool.TotalTimeout, left),
		CheckApproval: c.decision.Allowed, Responses: c.responses, ElicitationAttempt: c.respondsTo, Resume: c.dependsOnState,
		OwningCall:      c.owningCall,
		RepeatIfUnknown: c.repeatable(tool), Budget: left,
	}
	in.ServerWait = max(in.Timeout-c.busy, time.Second)
	return in
}

// noteTool records a tool for the search attributes, once.
func (r *run) noteTool(id string) {
	tools := r.progress.Tools
	if !slices.Contains(tools, id) && len(tools) < maxToolsShown && len(id)+len(strings.Join(tools, "")) <= maxToolsBytes {
		r.progress.Tools = append(tools, id)
	}
}
