package workflows

import (
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

// flight is the state of one call from proposal to receipt.
type flight struct {
	call    turn.CallProposal
	ruling  turn.Decision
	attempt int                        // the last dispatch
	busy    time.Duration              // working time of failed dispatches, including waits for the server
	asked   int                        // the number of elicitations of its server so far
	replies []turn.ElicitationResponse // responses to the latest elicitations
	answers int                        // the dispatch that returned them
	reached bool                       // a dispatch may have reached the tool, and its end is unknown
	resumes bool                       // the call depends on the state that its stateful server keeps for the turn
	owner   string                     // the call that created this state
	settled turn.CallOutcome
	receipt CallResult
	err     error
}

// Repeats and maxRepeats are the minimum and maximum number of dispatches of a repeatable call whose outcome stays
// unknown. Repeats holds even after the call's time is over, and maxRepeats while it lasts.
const (
	Repeats    = 3
	maxRepeats = 20
)

// callTool runs a step's calls and passes their results on in request order. A call with open elicitations waits for
// the decisions and then continues.
func (r *run) callTool(ctx workflow.Context, p turn.CallTool) turn.Phase {
	approvals, err := r.approvals(ctx, p.Calls)
	if err != nil {
		return p.Done(r.ending(err), nil)
	}
	flights := make([]*flight, len(p.Calls))
	for i, c := range p.Calls {
		flights[i] = &flight{call: c, ruling: approvals[c.ID], settled: turn.CallOutcome{CallID: c.ID}}
	}
	for open := flights; len(open) > 0 && err == nil && ctx.Err() == nil; {
		r.fly(ctx, open)
		if open = asking(flights); len(open) > 0 && ctx.Err() == nil {
			err = r.inquire(ctx, open)
		}
	}
	results := make([]turn.CallOutcome, len(flights))
	receipts := make([]CallResult, len(flights))
	for i, f := range flights {
		results[i], receipts[i] = f.settled, f.receipt
		if err == nil {
			err = f.err
		}
	}
	if ctx.Err() != nil {
		return p.Done(r.ending(ctx.Err()), results)
	}
	r.count(receipts, approvals)
	if err != nil {
		return p.Done(r.ending(err), results)
	}
	if stop := r.afterToolErrors(receipts); stop != nil {
		return p.Done(*stop, results)
	}
	return p.BuildPrompt(results)
}

// fly runs calls in parallel, up to MaxParallelCalls at a time.
func (r *run) fly(ctx workflow.Context, flights []*flight) {
	wg, slots := workflow.NewWaitGroup(ctx), workflow.NewSemaphore(ctx, int64(r.progress.Config.Limits.MaxParallelCalls))
	for _, f := range flights {
		wg.Add(1)
		workflow.Go(ctx, func(ctx workflow.Context) {
			defer wg.Done()
			if err := slots.Acquire(ctx, 1); err == nil {
				defer slots.Release(1)
			}
			if ctx.Err() != nil { // stopped before it got a slot
				return
			}
			f.settled, f.receipt, f.err = r.oneCall(ctx, f)
		})
	}
	wg.Wait(ctx)
}

// count adds a step's calls to the turn's counters. A step counts as an error if none of its calls succeeded, unless
// users denied all of them.
func (r *run) count(receipts []CallResult, approvals map[string]turn.Decision) {
	c := &r.progress.Counters
	c.ToolCalls += len(receipts)
	var longest time.Duration
	succeeded := false
	for _, receipt := range receipts {
		longest = max(longest, receipt.Busy)
		succeeded = succeeded || receipt.Outcome == turn.OutcomeOK
	}
	c.Busy += longest
	switch {
	case succeeded:
		c.ConsecutiveErrors, c.Reprompts = 0, 0
	case !unwanted(receipts, approvals):
		c.ConsecutiveErrors++
	}
}

// unwanted reports whether users denied every call.
func unwanted(receipts []CallResult, approvals map[string]turn.Decision) bool {
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
			return &turn.Result{State: turn.StateFailed, Reason: turn.FinishFailed, Code: turn.CodeToolFailed, Answer: r.progress.LastText, Message: message}
		case turn.ErrorInterrupt:
			e := r.interrupted(message)
			return &e
		}
	}
	return nil
}

// oneCall takes one call from proposal to receipt. Policy or a decision may settle it without a dispatch.
func (r *run) oneCall(ctx workflow.Context, f *flight) (turn.CallOutcome, CallResult, error) {
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
	if why := refuse(c, f.ruling); why != "" {
		settled.Outcome, settled.Text = turn.OutcomeDenied, why
		return settled, CallResult{CallID: c.ID, Outcome: settled.Outcome, Tool: c.Tool}, nil
	}
	receipt, err := r.dispatch(ctx, f, tool)
	if err != nil && ctx.Err() != nil {
		return settled, receipt, ctx.Err() // stopped: the journal knows whether the call was claimed
	}
	if outcome := outcomeOf(err); outcome != "" {
		// The journal has at most an open claim of this call. If it has an outcome, that outcome stands.
		settled.Outcome, settled.Code, settled.Text = outcome, known(code(err)), told(outcome, err)
		if (f.reached || f.asked > 0) && outcome != turn.OutcomeUnknown { // an earlier dispatch may have done something
			settled.Outcome, settled.Code, settled.Text = turn.OutcomeUnknown, turn.CodeToolOutcomeUnknown, toldOpen(f, err)
		}
		return settled, CallResult{CallID: c.ID, Outcome: settled.Outcome, Tool: c.Tool, Preview: settled.Text, Busy: receipt.Busy}, nil
	}
	if receipt.Tool != "" {
		r.noteTool(c.Tool)
	}
	return settled, receipt, err
}

// refuse returns why policy or a user's decision forbids a call, or an empty string if the call may run.
func refuse(c turn.CallProposal, decision turn.Decision) string {
	switch {
	case c.Permission == turn.Allow, c.Permission == turn.Ask && decision.Allowed:
		return ""
	case c.Permission == turn.Ask:
		return refusal(decision)
	}
	return c.Why + "; do not try again"
}

// dispatch runs the call, and dispatches it again as long as its fate must be looked up in the journal.
func (r *run) dispatch(ctx workflow.Context, f *flight, tool turn.Tool) (receipt CallResult, err error) {
	settle, err := r.home(ctx, tool)
	if err != nil {
		return CallResult{}, err
	}
	defer func() { settle(receipt, err); delete(r.holding, f.call.ID) }()
	defer func() { receipt.Busy += f.busy }()
	r.rely(f, tool)
	for n := 1; ; n++ {
		f.attempt++
		if tool.ElicitationTimeout > 0 {
			r.holding[f.call.ID] = f.attempt
		}
		in := r.callInput(f, tool)
		if tool.Activity == turn.ActivityLocal && f.attempt == 1 {
			receipt, err = r.quickCall(ctx, in)
		} else {
			receipt, err = r.regularCall(ctx, in, r.homeOf(tool))
		}
		f.reached = f.reached || mayHaveRun(err)
		err = r.lostHome(f, tool, err)
		f.busy += spent(err)
		if err == nil || !f.dispatchAgain(tool, err, n) || ctx.Err() != nil {
			return receipt, err
		}
	}
}

// dispatchAgain reports whether another dispatch is right. It is if the last one was lost or timed out, because the
// journal knows more; if the last one certainly did not reach its tool; or if the outcome is unknown and the tool is
// repeatable. n is the number of dispatches since the call was last resumed.
func (f *flight) dispatchAgain(tool turn.Tool, err error, n int) bool {
	switch code(err) {
	case turn.CodeToolNotSent:
		if tool.Activity != turn.ActivityLocal || f.attempt > 1 {
			return false // the activity has already waited for the server
		}
	case turn.CodeStoreUnavailable:
	case turn.CodeToolOutcomeUnknown:
		return f.again(tool)
	default:
		if !lost(err) {
			return false
		}
	}
	return n < maxDispatches
}

// again reports whether a call with an unknown outcome is dispatched once more. When the call's time is over, the
// activity settles the call instead of failing.
func (f *flight) again(tool turn.Tool) bool { return tool.Repeatable && f.attempt < maxRepeats }

// mayHaveRun reports whether a dispatch that ended with err may have reached its tool.
func mayHaveRun(err error) bool {
	var app *temporal.ApplicationError
	var busy time.Duration
	var reached bool
	if errors.As(err, &app) && app.Details(&busy, &reached) == nil && reached {
		return true
	}
	return code(err) == turn.CodeToolOutcomeUnknown || lost(err) && !neverStarted(err)
}

// neverStarted reports whether no worker took the activity from its task queue in time.
func neverStarted(err error) bool {
	var timeout *temporal.TimeoutError
	return errors.As(err, &timeout) && timeout.TimeoutType() == enumspb.TIMEOUT_TYPE_SCHEDULE_TO_START
}

// spent returns the working time of a dispatch that ended with err, as reported by its activity.
func spent(err error) (busy time.Duration) {
	if err == nil {
		return 0
	}
	var failed *temporal.ApplicationError
	var timeout *temporal.TimeoutError
	switch {
	case errors.As(err, &failed) && failed.HasDetails():
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

// lost reports whether err means that the dispatch was lost, and is not CallTool's own error. The server reports such
// an error when a worker dies. The SDK does when it fails to report the activity's result, which happens while a worker
// stops.
func lost(err error) bool {
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
	case turn.CodeInvalidAction, turn.CodePolicyDenied:
		return turn.OutcomeDenied
	case turn.CodeToolOutcomeUnknown:
		return turn.OutcomeUnknown
	}
	if lost(err) {
		return turn.OutcomeUnknown
	}
	return ""
}

func (r *run) callInput(f *flight, tool turn.Tool) CallInput {
	l := r.progress.Config.Limits
	timeout, left := tool.Timeout, max(turn.Remaining(l, r.progress.Counters)-f.busy, time.Second)
	if timeout == 0 {
		timeout = l.ToolTimeout
	}
	in := CallInput{
		Session: r.session, Tenant: r.progress.Config.Tenant, Turn: r.turnID, Step: r.progress.Counters.Step, Call: f.call, Tool: tool,
		PromptConfig: r.progress.Config.PromptConfig, Attempt: f.attempt, Timeout: min(timeout, left), TotalTimeout: min(tool.TotalTimeout, left), ElicitationTimeout: tool.ElicitationTimeout,
		CheckApproval: f.ruling.Allowed, Responses: f.replies, ElicitationAttempt: f.answers, Resume: f.resumes, OwningCall: f.owner,
		RepeatIfUnknown: f.again(tool), Budget: left,
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
