package workflows

import (
	"errors"
	"fmt"
	"time"

	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/workflow"

	"github.com/everturn/everturn/workflows/turn"
)

// maxDispatches bounds how often one call is dispatched: what a worker's death leaves open is asked of the ledger
// again, and a repeatable tool runs again.
const maxDispatches = 5

// flight is one call on its way from proposal to receipt.
type flight struct {
	call    turn.CallProposal
	ruling  turn.Decision
	attempt int                        // the last dispatch
	busy    time.Duration              // working time of the dispatches that ended with an error, waits for the server included
	asked   int                        // what its server has asked so far
	replies []turn.ElicitationResponse // to what it asked last
	answers int                        // the dispatch that asked it
	open    bool                       // a dispatch may have reached its tool, and its end is not known
	settled turn.CallOutcome
	receipt CallResult
	err     error
}

// Repeats is the minimum number of dispatches of a repeatable call whose outcome stays unknown, and maxRepeats the maximum
// while the call's time lasts.
const (
	Repeats    = 3
	maxRepeats = 20
)

// callTool runs a step's calls and hands their results on in request order. Calls whose servers ask for something wait
// until people have said it, and go on then.
func (r *run) callTool(ctx workflow.Context, p turn.CallTool) turn.Phase {
	approvals, err := r.approvals(ctx, p.Calls)
	if err != nil {
		return p.Done(r.ending(err), nil)
	}
	flights := make([]*flight, len(p.Calls))
	for i, c := range p.Calls {
		flights[i] = &flight{call: c, ruling: approvals[c.ID], settled: turn.CallOutcome{Call: c}}
	}
	for open := flights; len(open) > 0 && err == nil; {
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

// fly runs calls in parallel, up to the turn's bound.
func (r *run) fly(ctx workflow.Context, flights []*flight) {
	wg, slots := workflow.NewWaitGroup(ctx), workflow.NewSemaphore(ctx, int64(r.progress.Config.Limits.MaxParallelCalls))
	for _, f := range flights {
		wg.Add(1)
		workflow.Go(ctx, func(ctx workflow.Context) {
			defer wg.Done()
			if err := slots.Acquire(ctx, 1); err == nil {
				defer slots.Release(1)
			}
			if ctx.Err() != nil { // stopped before its turn came
				return
			}
			f.settled, f.receipt, f.err = r.oneCall(ctx, f)
		})
	}
	wg.Wait(ctx)
}

// count books what a step's calls took. A step counts as an error where none of its calls succeeded, unless a person did
// not want them.
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

// unwanted reports whether people have denied every call.
func unwanted(receipts []CallResult, approvals map[string]turn.Decision) bool {
	for _, receipt := range receipts {
		if decision, asked := approvals[receipt.CallID]; !asked || decision.Allowed {
			return false
		}
	}
	return true
}

// afterToolErrors applies a policy that ends the turn at a tool's error.
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

// oneCall takes one call from proposal to receipt. Policy and people may settle it without a dispatch.
func (r *run) oneCall(ctx workflow.Context, f *flight) (turn.CallOutcome, CallResult, error) {
	c := f.call
	settled := turn.CallOutcome{Call: c}
	tool, ok := r.progress.Config.Find(c.Tool)
	if !ok { // the activity has checked this
		settled.Outcome, settled.Text = turn.OutcomeDenied, "there is no tool "+c.Tool
		return settled, CallResult{Outcome: turn.OutcomeDenied}, nil
	}
	if c.Code != "" { // nobody was asked, and nobody is to be
		settled.Outcome, settled.Code, settled.Text = turn.OutcomeError, c.Code, c.Why
		return settled, CallResult{CallID: c.ID, Outcome: settled.Outcome, Tool: c.Tool, Preview: c.Why}, nil
	}
	if why := refuse(c, f.ruling); why != "" {
		settled.Outcome, settled.Text = turn.OutcomeDenied, why
		return settled, CallResult{CallID: c.ID, Outcome: settled.Outcome, Tool: c.Tool}, nil
	}
	receipt, err := r.dispatch(ctx, f, tool)
	if err != nil && ctx.Err() != nil {
		return settled, receipt, ctx.Err() // stopped: the ledger knows whether it was claimed
	}
	if outcome := outcomeOf(err); outcome != "" {
		// Nothing is in the ledger but perhaps an open claim; the journal prefers what it has.
		settled.Outcome, settled.Code, settled.Text = outcome, known(code(err)), told(outcome, err)
		if (f.open || f.asked > 0) && outcome != turn.OutcomeUnknown { // the last dispatch did nothing, and that is not all of the call
			settled.Outcome, settled.Code, settled.Text = turn.OutcomeUnknown, turn.CodeToolOutcomeUnknown, toldOpen(f, err)
		}
		return settled, CallResult{CallID: c.ID, Outcome: settled.Outcome, Tool: c.Tool, Preview: settled.Text, Busy: receipt.Busy}, nil
	}
	if receipt.Tool != "" {
		r.noteTool(c.Tool)
	}
	return settled, receipt, err
}

// refuse says why a call may not run: by policy, or by a person's word. Empty means that it may.
func refuse(c turn.CallProposal, decision turn.Decision) string {
	switch {
	case c.Permission == turn.Allow, c.Permission == turn.Ask && decision.Allowed:
		return ""
	case c.Permission == turn.Ask:
		return refusal(decision)
	}
	return c.Why + "; do not try again"
}

// dispatch runs the call in its lane, and again as long as the ledger has to be asked what became of it.
func (r *run) dispatch(ctx workflow.Context, f *flight, tool turn.Tool) (receipt CallResult, err error) {
	settle, err := r.home(ctx, tool)
	if err != nil {
		return CallResult{}, err
	}
	defer func() { settle(receipt, err); delete(r.holding, f.call.ID) }()
	defer func() { receipt.Busy += f.busy }()
	for n := 1; ; n++ {
		f.attempt++
		if tool.Hold > 0 {
			r.holding[f.call.ID] = f.attempt
		}
		in := r.callInput(f, tool)
		if tool.Activity == turn.ActivityLocal && f.attempt == 1 {
			receipt, err = r.quickCall(ctx, in)
		} else {
			receipt, err = r.regularCall(ctx, in, r.homeOf(tool))
		}
		err = r.lostHome(tool, err)
		f.busy += spent(err)
		f.open = f.open || tool.Repeatable && (code(err) == turn.CodeToolOutcomeUnknown || lost(err))
		if err == nil || !f.dispatchAgain(tool, err, n) || ctx.Err() != nil {
			return receipt, err
		}
	}
}

// dispatchAgain says that another dispatch is right: the one before was lost or timed out, and the ledger knows more; it
// provably never reached its tool; or nobody knows whether it did, and the tool may be called again. n is how often it was
// dispatched so far.
func (f *flight) dispatchAgain(tool turn.Tool, err error, n int) bool {
	switch code(err) {
	case turn.CodeToolNotSent:
		if tool.Activity != turn.ActivityLocal || f.attempt > 1 {
			return false // it has waited already
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

// again reports whether a call whose outcome is unknown is dispatched once more. When the call's time is over, the activity
// settles the call instead of failing.
func (f *flight) again(tool turn.Tool) bool { return tool.Repeatable && f.attempt < maxRepeats }

// spent is the working time of a dispatch that ended with this error, as far as its activity has reported it.
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
	if err != nil { // of another kind
		return 0
	}
	return busy
}

// lost reports that an error is the end of a dispatch, and not what CallTool made of its call. The server says so when a
// worker dies; the SDK does when it fails to report what the activity returned, which happens while a worker stops.
func lost(err error) bool {
	if err == nil || temporal.IsCanceledError(err) {
		return false
	}
	var timeout *temporal.TimeoutError
	return errors.As(err, &timeout) || !code(err).Known()
}

// outcomeOf maps an error of a call that is over to what the model is told. Empty means that the turn cannot go on.
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
	_, resume := r.progress.StickyQueues[server(tool)]
	in := CallInput{
		Session: r.session, Tenant: r.progress.Config.Tenant, Turn: r.turnID, Step: r.progress.Counters.Step, Call: f.call, Tool: tool,
		PromptConfig: r.progress.Config.PromptConfig, Attempt: f.attempt, Timeout: min(timeout, left), TotalTimeout: min(tool.TotalTimeout, left), Hold: tool.Hold,
		Approved: f.ruling.Allowed, Responses: f.replies, Answers: f.answers, Resume: resume && tool.Stateful,
		Again: f.again(tool), Left: left,
	}
	in.Wait = max(in.Timeout-f.busy, time.Second)
	return in
}

// noteTool remembers a tool for the search attributes, once.
func (r *run) noteTool(id string) {
	size := len(id)
	for _, t := range r.progress.Tools {
		if t == id {
			return
		}
		size += len(t)
	}
	if size <= maxToolsBytes && len(r.progress.Tools) < maxToolsShown {
		r.progress.Tools = append(r.progress.Tools, id)
	}
}
