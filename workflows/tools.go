package workflows

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"go.temporal.io/sdk/workflow"

	"github.com/everturn/everturn/workflows/turn"
)

// maxCallAttempts bounds the attempts of one call, unless its tool is repeatable. If a worker dies, the next attempt
// reads in the journal what the last attempt did, and a repeatable tool runs again.
const maxCallAttempts = 5

// callState is the state of one call from proposal to receipt. Of CallInput it has what later attempts get from earlier
// ones, such as the call itself, the number of the latest attempt (0 before the first) and its elicitations' responses.
type callState struct {
	CallInput
	permit   turn.Permit
	decision turn.Decision
	busy     time.Duration   // working time of earlier attempts, including waits for the server
	running  workflow.Future // the latest attempt, if the user can be asked for its server; nil after it
	elicited int             // the number of elicitations of its server so far
	held     []ElicitInput   // those of the attempt under way that are to be opened
	reached  int             // the number of attempts that may have reached the tool and ended unknown
	retried  int             // the number of attempts that ended with an error of the tool and were repeated
	queue    string          // the task queue of the worker that must run the call; empty: any
	// handedOut means that the call waits for the result of a client, and ended that nothing of it is left to do.
	handedOut, ended bool
	outcome          turn.CallOutcome
	receipt          CallResult
	err              error
}

// Repeats and maxRepeats are the minimum and maximum number of attempts of a repeatable call whose outcome stays
// unknown. Repeats holds even after the call's time is over, and maxRepeats while it lasts.
const (
	Repeats    = 3
	maxRepeats = 20
)

// callTool waits for the approvals of a step's calls and runs the calls. The next phase gets their results, in the
// order in which the model requested the calls.
func (r *run) callTool(ctx workflow.Context, p turn.CallTool) turn.Phase {
	approvals, err := r.approvals(ctx, p.Proposal)
	if errors.Is(err, errMoves) { // Turn continues in a new run, because r.progress.Waiting is set
		return p
	}
	if err != nil {
		return p.Done(r.resultOf(err), nil)
	}
	states := make([]*callState, len(p.Proposal.Calls))
	for i, c := range p.Proposal.Calls {
		states[i] = &callState{CallInput: CallInput{Call: c, Attempt: r.attempt}, permit: p.Proposal.Permits[c.ID],
			decision: approvals[c.ID],
			outcome:  turn.CallOutcome{CallID: c.ID}}
	}
	r.attempt = 0
	r.runCalls(ctx, states)
	results := make([]turn.CallOutcome, len(states)) // for the transcript
	receipts := make([]CallResult, len(states))      // for the counters and the policy
	retried := 0
	for i, cs := range states {
		results[i], receipts[i] = cs.outcome, cs.receipt
		retried = max(retried, cs.retried)
		if err == nil || errors.Is(err, errMoves) && cs.err != nil {
			err = cs.err
		}
	}
	if ctx.Err() != nil {
		return p.Done(r.resultOf(ctx.Err()), results)
	}
	if errors.Is(err, errMoves) { // the next run makes the step's calls again
		r.progress.Counters.Busy += r.worked
		r.keepProposal(p.Proposal, time.Time{})
		for _, cs := range states {
			r.progress.Waiting.Attempt = max(r.progress.Waiting.Attempt, cs.Attempt)
		}
		return p
	}
	r.count(receipts, approvals, retried)
	if err != nil {
		return p.Done(r.resultOf(err), results)
	}
	if stop := r.afterToolErrors(receipts); stop != nil {
		return p.Done(*stop, results)
	}
	if exceeded := r.countRepeats(states); exceeded != nil {
		return p.Done(r.limitResult(exceeded), results)
	}
	return p.BuildPrompt(results)
}

// runCalls runs calls in parallel, up to MaxParallelCalls at a time, and waits until all have ended. Their outcomes,
// receipts and errors are then in states. A call that is suspended by an elicitation does not count towards
// MaxParallelCalls until it continues.
func (r *run) runCalls(ctx workflow.Context, states []*callState) {
	r.agents = r.newStepAgents(ctx, states)
	r.worked, r.calls = 0, states
	wg, slots := workflow.NewWaitGroup(ctx), workflow.NewSemaphore(ctx, int64(r.progress.Config.Limits.MaxParallelCalls))
	for _, c := range states {
		wg.Add(1)
		workflow.Go(ctx, func(ctx workflow.Context) {
			defer func() { c.ended = true; wg.Done() }()
			for again := true; again; again = r.resume(ctx, c) {
				if slots.Acquire(ctx, 1) != nil { // the turn was cancelled before the call got a slot
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
	r.calls = nil
	r.agents.countGranted(&r.progress.Counters)
}

// count adds a step's calls to the turn's counters. A step is an error for max_consecutive_errors if none of its calls
// succeeded, unless all of them were denied approval. approvals are the users' decisions by call ID. Each of the errors
// after which a call was repeated counts, too; retried is their number for the call that was repeated most often.
func (r *run) count(receipts []CallResult, approvals map[string]turn.Decision, retried int) {
	c := &r.progress.Counters
	c.ToolCalls += len(receipts)
	c.Busy += r.worked
	succeeded, failed := false, false
	for _, receipt := range receipts {
		if receipt.Used != nil {
			used := *receipt.Used
			used.Time = 0 // Busy already includes it
			c.Subagents = c.Subagents.Add(used)
		}
		// A command that fails, such as a test, tells the model as much as one that succeeds.
		ran := receipt.Outcome == turn.OutcomeError && r.runsCommands(receipt.Tool)
		succeeded = succeeded || receipt.Outcome == turn.OutcomeOK || ran
		failed = failed || receipt.Outcome == turn.OutcomeError || receipt.Outcome == turn.OutcomeUnknown
	}
	switch {
	case succeeded:
		c.ConsecutiveErrors, c.Reprompts = 0, 0
	case failed:
		c.ConsecutiveErrors += (1 + retried) * r.progress.Config.Policy.Counted(turn.ToolError)
	case !allDenied(receipts, approvals):
		c.ConsecutiveErrors++
	}
}

// runsCommands reports whether the turn's tool with this ID runs command lines.
func (r *run) runsCommands(id string) bool {
	return slices.ContainsFunc(r.progress.Config.Tools, func(t turn.Tool) bool { return t.ID == id && t.Commands != nil })
}

// countRepeats counts how often the turn has made the step's calls with the same results in a row. It returns the
// result of a turn that ends because of that, or nil.
func (r *run) countRepeats(states []*callState) *turn.Result {
	if r.progress.Config.Version < turn.RepeatsVersion || len(states) == 0 {
		return nil
	}
	calls, results := make([]turn.ToolCall, len(states)), make([]string, len(states))
	for i, cs := range states {
		calls[i] = cs.Call
		switch {
		case cs.outcome.Outcome != "": // the workflow reports the result, not an activity
			results[i] = string(cs.outcome.Outcome) + " " + turn.HashText(cs.outcome.Text)
		case cs.receipt.ResultHash != "":
			results[i] = string(cs.receipt.Outcome) + " " + cs.receipt.ResultHash
		}
	}
	c := &r.progress.Counters
	c.Repeats = c.Repeats.After(calls, results)
	return c.Repeats.Check(calls)
}

// allDenied reports whether every call needed an approval that a user denied or that expired. A call that the policy
// denies needs none.
func allDenied(receipts []CallResult, approvals map[string]turn.Decision) bool {
	for _, receipt := range receipts {
		if decision, asked := approvals[receipt.CallID]; !asked || decision.Allowed {
			return false
		}
	}
	return true
}

// afterToolErrors returns the result with which the turn ends if a call failed and the policy ends a turn for that. It
// returns nil if the turn continues. A denied call has not failed.
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

// oneCall runs one call, unless the policy or a user's decision forbids it. The CallOutcome is for the transcript; it
// is empty except for the ID if the activity has settled the call, because the journal then has the outcome. The error
// ends the turn; a call that only failed has no error.
func (r *run) oneCall(ctx workflow.Context, cs *callState) (turn.CallOutcome, CallResult, error) {
	c := cs.Call
	settled := turn.CallOutcome{CallID: c.ID}
	tool, ok := r.progress.Config.Find(c.Tool)
	if !ok { // the activity has checked that the tool exists
		settled.Outcome, settled.Text = turn.OutcomeDenied, "there is no tool "+c.Tool
		return settled, CallResult{Outcome: turn.OutcomeDenied}, nil
	}
	if permit := cs.permit; permit.Code != "" { // the call cannot run, whatever a user would decide
		settled.Outcome, settled.Code, settled.Text = turn.OutcomeError, permit.Code, permit.Why
		return settled, CallResult{CallID: c.ID, Outcome: settled.Outcome, Tool: c.Tool, Preview: permit.Why}, nil
	}
	if why := denyReason(cs.permit, cs.decision); why != "" {
		settled.Outcome, settled.Text = turn.OutcomeDenied, why
		return settled, CallResult{CallID: c.ID, Outcome: settled.Outcome, Tool: c.Tool}, nil
	}
	receipt, err := r.perform(ctx, cs, tool)
	if err != nil && ctx.Err() != nil {
		return settled, receipt, ctx.Err() // cancelled: Finish settles the call by what the journal has of it
	}
	if outcome := outcomeOf(err); outcome != "" {
		// The next inference settles the call with this outcome. If the journal already has an outcome, that one stands.
		settled.Outcome, settled.Code, settled.Text = outcome, knownCode(code(err)), modelText(cs, tool, outcome, err)
		mayHaveEffect := cs.reached > 0 || cs.elicited > 0 // of an earlier attempt
		if mayHaveEffect && outcome != turn.OutcomeUnknown {
			settled.Outcome, settled.Code, settled.Text = turn.OutcomeUnknown, turn.CodeToolOutcomeUnknown, reachedText(cs, err)
		}
		return settled, CallResult{CallID: c.ID, Outcome: settled.Outcome, Tool: c.Tool, Preview: settled.Text}, nil
	}
	if receipt.Tool != "" { // it is empty after an error that ends the turn
		r.noteTool(c.Tool)
	}
	return settled, receipt, err
}

// perform runs a call that is allowed: the turn of a subagent if the tool is an agent, and the tool otherwise. It
// returns an error if the turn has no time left for the call.
func (r *run) perform(ctx workflow.Context, c *callState, tool turn.Tool) (CallResult, error) {
	if tool.Activity == turn.ActivityAgent {
		return r.runSubagent(ctx, c, tool)
	}
	if err := r.checkTime(c); err != nil {
		return CallResult{}, err
	}
	return r.attemptCall(ctx, c, tool)
}

// denyReason returns why policy or a user's decision forbids a call, for the model, or "" if the call may run.
func denyReason(permit turn.Permit, decision turn.Decision) string {
	switch {
	case permit.Permission == turn.Allow, permit.Permission == turn.Ask && decision.Allowed:
		return ""
	case permit.Permission == turn.Ask:
		return denialText(decision)
	case permit.Retry:
		return permit.Why
	}
	return permit.Why + "; do not try again"
}

// attemptCall attempts a call of a tool until an attempt ends it or attemptAgain returns false. A new attempt does not
// simply run the tool again: the activity first looks up in the journal what earlier attempts did.
func (r *run) attemptCall(ctx workflow.Context, c *callState, tool turn.Tool) (receipt CallResult, err error) {
	done, err := r.awaitConnection(ctx, tool)
	if err != nil {
		return CallResult{}, err
	}
	defer func() { done(receipt, err) }()
	r.recordDependence(c, tool)
	for n := 1; ; n++ { // n starts again when a suspended call continues, unlike c.Attempt
		c.Attempt++
		in, began := r.callInput(c, tool), r.worked
		in.RetryIfError = r.retriesError(c, tool)
		if tool.Activity == turn.ActivityLocal && c.Attempt == 1 {
			receipt, err = r.localCall(ctx, in)
		} else {
			receipt, err = r.regularCall(ctx, c, in, cmp.Or(c.queue, r.stickyQueue(tool)))
		}
		if n < maxCallAttempts && r.adoptQueues(err) { // the worker lacks the role
			continue
		}
		if queue := workerOf(err); (n < maxCallAttempts || c.repeatable(tool)) && queue != "" { // the worker lacks the tool
			c.queue = queue
			continue
		}
		err = explainRedirected(explainKeyError(err))
		if err == nil || attemptLost(err) { // any worker may run the next attempt
			c.queue = ""
		}
		if mayHaveRun(err) {
			c.reached++
		}
		err = explainUnhosted(tool, r.handleStateLost(c, tool, err))
		c.busy += r.addWork(began, cmp.Or(receipt.Busy, workingTime(err)))
		if code(err) == turn.CodeToolFailed && workflow.Sleep(ctx, time.Second<<c.retried) == nil {
			c.retried++
			continue
		}
		if err == nil || !c.attemptAgain(tool, err, n) || ctx.Err() != nil {
			return receipt, err
		}
	}
}

// retriesError reports whether a call is attempted again if its tool returns an error: if the policy says so and the
// turn has time left. A call that has had an elicitation is not, because its responses belong to that attempt.
func (r *run) retriesError(c *callState, tool turn.Tool) bool {
	cfg := r.progress.Config
	return c.elicited == 0 && cfg.Policy.RetriesToolError(tool, cfg.Limits, r.progress.Counters, c.retried) &&
		turn.CheckCallLimits(cfg.Limits, r.workedSoFar(), 0) == nil
}

// attemptAgain reports whether to attempt a call again whose last attempt failed with err. It returns true in three
// cases: the attempt was lost or timed out, so that only the journal has its outcome; it certainly did not reach its
// tool; or its outcome is unknown and the tool is repeatable. n is the number of attempts since the call was last
// resumed. maxCallAttempts bounds it in the first two cases, unless the tool is repeatable: a suspended worker takes
// several attempts, as long as the server waits for its polls. See repeatable for the third.
func (c *callState) attemptAgain(tool turn.Tool, err error, n int) bool {
	switch code(err) {
	case turn.CodeToolNotSent, turn.CodeJournalUnavailable:
		if tool.Activity != turn.ActivityLocal || c.Attempt > 1 {
			return false // the activity has already waited for the server or the journal
		}
	case turn.CodeWorkerUnavailable: // the attempt did nothing, because another attempt was still running
	case turn.CodeToolOutcomeUnknown:
		return c.repeatable(tool)
	default:
		return attemptLost(err) && (n < maxCallAttempts || c.repeatable(tool))
	}
	return n < maxCallAttempts
}

// repeatable reports whether a call with an unknown outcome may be attempted once more. It does not check the call's
// time: when that is over, the activity settles the call as unknown, which ends the attempts.
func (c *callState) repeatable(tool turn.Tool) bool { return tool.Repeatable && c.Attempt < maxRepeats }

// callInput returns the input of the call's next attempt. Its timeouts are at most the working time that the turn has
// left.
func (r *run) callInput(c *callState, tool turn.Tool) CallInput {
	l := r.progress.Config.Limits
	timeout, left := tool.Timeout, turn.Remaining(l, r.workedSoFar())
	if timeout == 0 {
		timeout = l.ToolTimeout
	}
	in := c.CallInput
	in.Session, in.Tenant, in.Turn, in.Step = r.session, r.progress.Config.Tenant, r.turnID, r.progress.Counters.Step
	in.Tool, in.Model, in.PromptConfig = tool, r.progress.Config.Model, r.progress.Config.PromptConfig
	in.Timeout, in.TotalTimeout, in.Budget = min(timeout, left), min(tool.TotalTimeout, left), left
	in.CheckApproval, in.RepeatIfUnknown = c.decision.Allowed, c.repeatable(tool)
	in.ServerWait = max(in.Timeout-c.busy, time.Second)
	return in
}

// noteTool adds a tool to those in the search attributes, unless it is there already or the bounds are reached.
func (r *run) noteTool(id string) {
	tools := r.progress.Tools
	fits := len(tools) < maxToolsShown && len(id)+len(strings.Join(tools, "")) <= maxToolsBytes
	if !slices.Contains(tools, id) && fits {
		r.progress.Tools = append(tools, id)
	}
}
