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

// callTool runs a step's calls in parallel and hands their results on in request order.
func (r *run) callTool(ctx workflow.Context, p turn.CallTool) turn.Phase {
	approvals, err := r.approvals(ctx, p.Calls)
	if err != nil {
		return p.Done(r.ending(err), nil)
	}
	results := make([]turn.Settled, len(p.Calls))
	receipts := make([]CallResult, len(p.Calls))
	var stop *turn.Ending
	wg, slots := workflow.NewWaitGroup(ctx), workflow.NewSemaphore(ctx, int64(r.progress.Pins.Limits.MaxParallelCalls))
	for i, c := range p.Calls {
		wg.Add(1)
		workflow.Go(ctx, func(ctx workflow.Context) {
			defer wg.Done()
			if err := slots.Acquire(ctx, 1); err == nil {
				defer slots.Release(1)
			}
			if r.atOnce() && ctx.Err() != nil { // stopped before its turn came
				results[i] = turn.Settled{Call: c}
				return
			}
			settled, receipt, err := r.oneCall(ctx, c, approvals[c.ID])
			results[i], receipts[i] = settled, receipt
			if err != nil && stop == nil {
				e := r.ending(err)
				stop = &e
			}
		})
	}
	wg.Wait(ctx)
	if ctx.Err() != nil {
		return p.Done(r.ending(ctx.Err()), results)
	}
	r.count(receipts, approvals)
	if stop == nil {
		stop = r.afterToolErrors(receipts)
	}
	if stop != nil {
		return p.Done(*stop, results)
	}
	return p.BuildPrompt(results)
}

// count books what a step's calls took. A step counts as an error where none of its calls succeeded, unless a person did
// not want them.
func (r *run) count(receipts []CallResult, approvals map[string]turn.Ruling) {
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
func unwanted(receipts []CallResult, approvals map[string]turn.Ruling) bool {
	for _, receipt := range receipts {
		if ruling, asked := approvals[receipt.CallID]; !asked || ruling.Allowed {
			return false
		}
	}
	return true
}

// afterToolErrors applies a policy that ends the turn at a tool's error.
func (r *run) afterToolErrors(receipts []CallResult) *turn.Ending {
	for _, receipt := range receipts {
		if receipt.Outcome != turn.OutcomeError && receipt.Outcome != turn.OutcomeUnknown {
			continue
		}
		message := fmt.Sprintf("%s ended with outcome %s: %s", receipt.Tool, receipt.Outcome, receipt.Preview)
		switch r.progress.Pins.Policy.OnToolError {
		case turn.DecideFail:
			return &turn.Ending{State: turn.StateFailed, Reason: turn.FinishFailed, Code: turn.CodeToolFailed, Answer: r.progress.Said, Message: message}
		case turn.DecideInterrupt:
			e := r.interrupted(message)
			return &e
		}
	}
	return nil
}

// oneCall takes one call from proposal to receipt. Policy and people may settle it without a dispatch.
func (r *run) oneCall(ctx workflow.Context, c turn.CallProposal, ruling turn.Ruling) (turn.Settled, CallResult, error) {
	settled := turn.Settled{Call: c}
	tool, ok := r.progress.Pins.Find(c.Tool)
	if !ok { // the activity has checked this; a proposal of an older worker may not have been
		settled.Outcome, settled.Text = turn.OutcomeDenied, "there is no tool "+c.Tool
		return settled, CallResult{Outcome: turn.OutcomeDenied}, nil
	}
	if why := r.refuse(c, tool, ruling); why != "" {
		settled.Outcome, settled.Text = turn.OutcomeDenied, why
		return settled, CallResult{CallID: c.ID, Outcome: settled.Outcome, Tool: c.Tool}, nil
	}
	receipt, err := r.dispatch(ctx, c, tool, ruling)
	if err != nil && r.atOnce() && ctx.Err() != nil {
		return settled, receipt, ctx.Err() // stopped: the ledger knows whether it was claimed
	}
	if outcome := r.outcomeOf(err); outcome != "" {
		// Nothing is in the ledger but perhaps an open claim; the journal prefers what it has.
		settled.Outcome, settled.Text = outcome, told(outcome, err)
		return settled, CallResult{CallID: c.ID, Outcome: outcome, Tool: c.Tool, Preview: settled.Text}, nil
	}
	if receipt.Tool != "" {
		r.noteTool(c.Tool)
	}
	return settled, receipt, err
}

// told is what the model is told of a call that ended with an error.
func told(outcome turn.Outcome, err error) string {
	if outcome == turn.OutcomeUnknown {
		return "Outcome unknown: " + message(err) + ". The call may or may not have taken effect, and it was not repeated. Check before you try again."
	}
	return message(err)
}

// refuse says why a call may not run: by policy, or by a person's word. Empty means that it may.
func (r *run) refuse(c turn.CallProposal, tool turn.Tool, ruling turn.Ruling) string {
	permission, why := r.permission(c)
	if r.progress.Pins.Version < 2 { // weighed here, and there was nobody to ask
		permission, why = r.progress.Pins.Policy.Permit(tool, nil)
		if permission == turn.Ask {
			return why + ", and nobody can be asked in this session; do not try again"
		}
	}
	switch {
	case permission == turn.Deny:
		return why + "; do not try again"
	case permission == turn.Ask && !ruling.Allowed:
		return refusal(ruling)
	}
	return ""
}

// refusal tells the model what a person, or nobody, said.
func refusal(ruling turn.Ruling) string {
	if ruling.Verdict == turn.VerdictExpired {
		return "not run: it needs a person's approval, and nobody gave it in time; do not try again unless the user asks for it"
	}
	text := "not run: the user denied it"
	if ruling.Reason != "" {
		text += ": " + ruling.Reason
	}
	return text + "; do not try again unless the user asks for it"
}

// dispatch runs the call in its lane, and again as long as the ledger has to be asked what became of it.
func (r *run) dispatch(ctx workflow.Context, c turn.CallProposal, tool turn.Tool, ruling turn.Ruling) (CallResult, error) {
	var err error
	for attempt := 1; attempt <= maxDispatches; attempt++ {
		in := r.callInput(c, tool, attempt)
		in.Approved = ruling.Allowed
		var receipt CallResult
		if tool.Lane == turn.LaneQuick && attempt == 1 {
			receipt, err = r.quickCall(ctx, in)
		} else {
			receipt, err = r.regularCall(ctx, in)
		}
		if err == nil || !r.dispatchAgain(err) || r.atOnce() && ctx.Err() != nil {
			return receipt, err
		}
	}
	return CallResult{}, err
}

// dispatchAgain says that the ledger knows more than this error: a dispatch that was lost or timed out, or one that
// provably never reached its tool.
func (r *run) dispatchAgain(err error) bool {
	switch code(err) {
	case turn.CodeToolNotSent, turn.CodeStoreUnavailable:
		return true
	}
	return r.lost(err)
}

// lost reports that an error is the end of a dispatch, and not what CallTool made of its call. The server says so when a
// worker dies; the SDK does when it fails to report what the activity returned, which happens while a worker stops.
func (r *run) lost(err error) bool {
	if err == nil || temporal.IsCanceledError(err) {
		return false
	}
	var timeout *temporal.TimeoutError
	return errors.As(err, &timeout) || r.progress.Pins.Version > 5 && !code(err).Known()
}

// outcomeOf maps an error of a call that is over to what the model is told. Empty means that the turn cannot go on.
func (r *run) outcomeOf(err error) turn.Outcome {
	switch code(err) {
	case turn.CodeToolNotSent, turn.CodeToolDrift:
		return turn.OutcomeError
	case turn.CodeInvalidAction, turn.CodePolicyDenied:
		return turn.OutcomeDenied
	case turn.CodeToolOutcomeUnknown:
		return turn.OutcomeUnknown
	}
	if r.lost(err) {
		return turn.OutcomeUnknown
	}
	return ""
}

func (r *run) callInput(c turn.CallProposal, tool turn.Tool, attempt int) CallInput {
	l := r.progress.Pins.Limits
	timeout := tool.Timeout
	if timeout == 0 {
		timeout = l.ToolTimeout
	}
	return CallInput{
		Version: WireVersion, Session: r.session, Turn: r.turnID, Step: r.progress.Counters.Step, Call: c, Tool: tool,
		Profile: r.progress.Pins.Profile, Attempt: attempt, Timeout: min(timeout, turn.Remaining(l, r.progress.Counters)),
	}
}

// noteTool remembers a tool for the search attributes, once.
func (r *run) noteTool(id string) {
	for _, t := range r.progress.Tools {
		if t == id {
			return
		}
	}
	if len(r.progress.Tools) < maxToolsShown {
		r.progress.Tools = append(r.progress.Tools, id)
	}
}
