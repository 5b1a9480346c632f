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

// maxDispatches bounds the dispatches of one call. If a worker dies, a new dispatch finds in the journal what the last
// one did, and a repeatable tool runs again.
const maxDispatches = 5

// callState is the state of one call from proposal to receipt.
type callState struct {
	call           turn.CallProposal
	decision       turn.Decision
	attempt        int                        // the last dispatch
	busy           time.Duration              // working time of earlier dispatches, including waits for the server
	elicited       int                        // the number of elicitations of its server so far
	responses      []turn.ElicitationResponse // responses to the latest elicitations
	respondsTo     int                        // the dispatch that returned them
	reached        int                        // the dispatches that may have reached the tool, and whose ends are unknown
	dependsOnState bool                       // the call depends on the state that its stateful server keeps for the turn
	owningCall     string                     // the call that created this state
	queue          string                     // the task queue of the worker with the call's open connection; empty: any
	outcome        turn.CallOutcome
	receipt        CallResult
	err            error
}

// Repeats and maxRepeats are the minimum and maximum number of dispatches of a repeatable call whose outcome stays
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
	for i, f := range states {
		results[i], receipts[i] = f.outcome, f.receipt
		if err == nil {
			err = f.err
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
	for _, f := range states {
		wg.Add(1)
		workflow.Go(ctx, func(ctx workflow.Context) {
			defer wg.Done()
			for again := true; again; again = r.resume(ctx, f) {
				if slots.Acquire(ctx, 1) != nil { // stopped before it got a slot
					return
				}
				if ctx.Err() == nil {
					f.outcome, f.receipt, f.err = r.oneCall(ctx, f)
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
			c.Delegated = c.Delegated.Add(used)
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

// oneCall takes one call from proposal to receipt. Policy or a decision may settle it without a dispatch.
func (r *run) oneCall(ctx workflow.Context, f *callState) (turn.CallOutcome, CallResult, error) {
	c := f.call
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
	if why := denyReason(c, f.decision); why != "" {
		settled.Outcome, settled.Text = turn.OutcomeDenied, why
		return settled, CallResult{CallID: c.ID, Outcome: settled.Outcome, Tool: c.Tool}, nil
	}
	receipt, err := r.perform(ctx, f, tool)
	if err != nil && ctx.Err() != nil {
		return settled, receipt, ctx.Err() // stopped: the journal knows whether the call was claimed
	}
	if outcome := outcomeOf(err); outcome != "" {
		// The journal has at most an open claim of this call. If it has an outcome, that outcome stands.
		settled.Outcome, settled.Code, settled.Text = outcome, knownCode(code(err)), modelText(f, tool, outcome, err)
		if (f.reached > 0 || f.elicited > 0) && outcome != turn.OutcomeUnknown { // an earlier dispatch may have done something
			settled.Outcome, settled.Code, settled.Text = turn.OutcomeUnknown, turn.CodeToolOutcomeUnknown, reachedText(f, err)
		}
		return settled, CallResult{CallID: c.ID, Outcome: settled.Outcome, Tool: c.Tool, Preview: settled.Text}, nil
	}
	if receipt.Tool != "" {
		r.noteTool(c.Tool)
	}
	return settled, receipt, err
}

// perform dispatches a call, or runs the turn of the agent that it calls, if the turn has time left for it.
func (r *run) perform(ctx workflow.Context, f *callState, tool turn.Tool) (CallResult, error) {
	if tool.Activity == turn.ActivityAgent {
		return r.delegate(ctx, f, tool)
	}
	if err := r.checkTime(f); err != nil {
		return CallResult{}, err
	}
	return r.dispatch(ctx, f, tool)
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

// dispatch runs the call, and dispatches it again as long as its fate must be looked up in the journal.
func (r *run) dispatch(ctx workflow.Context, f *callState, tool turn.Tool) (receipt CallResult, err error) {
	settle, err := r.awaitOwner(ctx, tool)
	if err != nil {
		return CallResult{}, err
	}
	defer func() { settle(receipt, err) }()
	r.recordDependence(f, tool)
	for n := 1; ; n++ {
		f.attempt++
		in, began := r.callInput(f, tool), r.worked
		if tool.Activity == turn.ActivityLocal && f.attempt == 1 {
			receipt, err = r.localCall(ctx, in)
		} else {
			receipt, err = r.regularCall(ctx, in, cmp.Or(f.queue, r.stickyQueue(tool)))
		}
		if n < maxDispatches && r.moved(err) {
			continue
		}
		if queue := workerOf(err); n < maxDispatches && queue != "" {
			f.queue = queue
			continue
		}
		err = checkElsewhere(checkKey(err))
		if err == nil || dispatchLost(err) {
			f.queue = ""
		}
		if mayHaveRun(err) {
			f.reached++
		}
		err = checkHosted(tool, r.checkStateLost(f, tool, err))
		f.busy += r.addWork(began, cmp.Or(receipt.Busy, workingTime(err)))
		if err == nil || !f.dispatchAgain(tool, err, n) || ctx.Err() != nil {
			return receipt, err
		}
	}
}

// dispatchAgain reports whether another dispatch is right. It is if the last one was lost or timed out, because the
// journal knows more; if the last one certainly did not reach its tool; or if the outcome is unknown and the tool is
// repeatable. n is the number of dispatches since the call was last resumed.
func (f *callState) dispatchAgain(tool turn.Tool, err error, n int) bool {
	switch code(err) {
	case turn.CodeToolNotSent, turn.CodeStoreUnavailable:
		if tool.Activity != turn.ActivityLocal || f.attempt > 1 {
			return false // the activity has already waited for the server or the journal
		}
	case turn.CodeWorkerUnavailable:
	case turn.CodeToolOutcomeUnknown:
		return f.repeatable(tool)
	default:
		if !dispatchLost(err) {
			return false
		}
	}
	return n < maxDispatches
}

// repeatable reports whether a call with an unknown outcome may be dispatched once more. When the call's time is over,
// the activity settles the call instead of failing.
func (f *callState) repeatable(tool turn.Tool) bool { return tool.Repeatable && f.attempt < maxRepeats }

// mayHaveRun reports whether a dispatch that ended with err may have reached its tool.
func mayHaveRun(err error) bool {
	var busy time.Duration
	var reached bool
	if app := failureOf(err); app != nil && app.Details(&busy, &reached) == nil && reached {
		return true
	}
	return code(err) == turn.CodeToolOutcomeUnknown || dispatchLost(err) && !neverStarted(err)
}

// neverStarted reports whether no worker took the activity from its task queue in time.
func neverStarted(err error) bool {
	var timeout *temporal.TimeoutError
	return errors.As(err, &timeout) && timeout.TimeoutType() == enumspb.TIMEOUT_TYPE_SCHEDULE_TO_START
}

// workingTime returns the working time of a dispatch that ended with err, as reported by its activity.
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

// dispatchLost reports whether err means that the dispatch was dispatchLost, and is not CallTool's own error. The
// server reports such an error when a worker dies. The SDK does when it fails to report the activity's result, which
// happens while a worker stops.
func dispatchLost(err error) bool {
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
	case turn.CodeInvalidAction, turn.CodePolicyDenied, turn.CodeGuardExceeded:
		return turn.OutcomeDenied
	case turn.CodeToolOutcomeUnknown:
		return turn.OutcomeUnknown
	}
	if dispatchLost(err) {
		return turn.OutcomeUnknown
	}
	return ""
}

func (r *run) callInput(f *callState, tool turn.Tool) CallInput {
	l := r.progress.Config.Limits
	timeout, left := tool.Timeout, turn.Remaining(l, r.workedSoFar())
	if timeout == 0 {
		timeout = l.ToolTimeout
	}
	in := CallInput{
		Session: r.session, Tenant: r.progress.Config.Tenant, Turn: r.turnID, Step: r.progress.Counters.Step, Call: f.call,
		Tool: tool, Model: r.progress.Config.Model,
		PromptConfig: r.progress.Config.PromptConfig, Attempt: f.attempt, Timeout: min(timeout, left),
		TotalTimeout:  min(tool.TotalTimeout, left),
		CheckApproval: f.decision.Allowed, Responses: f.responses, ElicitationAttempt: f.respondsTo, Resume: f.dependsOnState,
		OwningCall:      f.owningCall,
		RepeatIfUnknown: f.repeatable(tool), Budget: left,
	}
	in.ServerWait = max(in.Timeout-f.busy, time.Second)
	return in
}

// noteTool records a tool for the search attributes, once.
func (r *run) noteTool(id string) {
	tools := r.progress.Tools
	if !slices.Contains(tools, id) && len(tools) < maxToolsShown && len(id)+len(strings.Join(tools, "")) <= maxToolsBytes {
		r.progress.Tools = append(tools, id)
	}
}
