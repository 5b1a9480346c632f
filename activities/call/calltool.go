package call

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/temporal"

	"github.com/everturn/everturn/activities/attempt"
	"github.com/everturn/everturn/internal/expiry"
	"github.com/everturn/everturn/journal"
	"github.com/everturn/everturn/workflows"
	"github.com/everturn/everturn/workflows/plan"
	"github.com/everturn/everturn/workflows/turn"
)

// CallTool claims one call, runs it, settles it and returns its receipt. The journal decides whether the call may run:
// a settled call does not run again, and neither does a call whose claim an earlier attempt left open, unless its tool
// is repeatable.
func (r *Runner) CallTool(ctx context.Context, in workflows.CallInput) (workflows.CallResult, error) {
	if r.elsewhere.Tools != "" && in.Tool.Queue == "" { // this worker runs calls only of tools with a queue of their own
		if attempt.IsLocal(ctx) { // it cannot go to another worker; the turn began on one that runs calls
			return workflows.CallResult{}, r.attempts.Failure(ctx,
				turn.NewError(turn.CodeToolNotSent, nil, "this worker calls no tools"))
		}
		return workflows.CallResult{}, workflows.Elsewhere(r.queues)
	}
	detached, clock, end, err := r.attempts.Begin(ctx, in.Turn, in.Step, in.Call.ID)
	defer end()
	var res workflows.CallResult
	if err == nil {
		// The call and its waits get what is left of the turn's time, but no less than a second.
		left := max(in.Budget-clock.Before, time.Second)
		in.Timeout, in.TotalTimeout = min(in.Timeout, left), min(in.TotalTimeout, left)
		var elicitor *elicitor
		if in.Tool.ElicitationTimeout > 0 && activity.IsActivity(ctx) && !attempt.IsLocal(ctx) {
			elicitor = r.elicitor(ctx, in, clock)
		}
		res, err = r.callTool(detached, in, clock, elicitor)
	}
	if err == nil {
		res.Busy = clock.Busy()
		if in.Tool.SessionAffinity { // the turn's later calls of the server come to this worker, too
			res.StickyQueue = r.home
		}
		return res, nil
	}
	if err = r.redirect(detached, in, err); temporal.IsApplicationError(err) { // the call goes to another worker
		return workflows.CallResult{}, err
	}
	err = r.callFailure(detached, in, clock, err)
	r.showRetry(detached, in, err)
	return workflows.CallResult{}, err
}

// callTool claims the call and returns its receipt: at once if the call is settled or must not run again, and otherwise
// after running it. Its result is then settled, or the call is suspended if its server needs a response. If the outcome
// of a repeatable call is unknown or an error and the workflow will attempt it again, callTool settles nothing and
// returns an error. It also returns an error if a later attempt has the call.
func (r *Runner) callTool(ctx context.Context, in workflows.CallInput, clock *attempt.Clock,
	elicitor *elicitor) (workflows.CallResult, error) {
	call, tool, record, err := r.claim(ctx, in, nil)
	if err != nil {
		return workflows.CallResult{}, err
	}
	in.Tool = tool
	switch record.Claim {
	case journal.ClaimSettled:
		return r.receipt(in, record), nil
	case journal.ClaimStale:
		return workflows.CallResult{}, turn.NewError(turn.CodeToolOutcomeUnknown, journal.ErrStale,
			"a later attempt has this call")
	case journal.ClaimTaken: // an earlier attempt may have run the call, and the tool is not repeatable
		return r.settleCall(ctx, in, turn.ToolResult{Outcome: turn.OutcomeUnknown, Text: unknownText})
	}
	if in.ElicitationAttempt != 0 && in.ElicitationAttempt != record.Suspended {
		// An earlier attempt delivered the responses and got new elicitations, but the workflow did not get its result.
		in.Responses = nil
	}
	recorded := make(chan struct{})
	defer close(recorded)
	result, err := r.run(ctx, in, call, record.Continuation, clock, elicitor, recorded)
	switch {
	case err != nil:
		return workflows.CallResult{}, err
	case len(result.Elicitations) > 0 && record.Suspended != 0 &&
		bytes.Equal(result.Continuation, record.Continuation): // the same elicitations as before
		return r.repeatElicitations(ctx, in, record.Suspended, result)
	case len(result.Elicitations) > 0:
		if err := r.suspend(ctx, in, result); err != nil {
			return workflows.CallResult{}, reachedError{err}
		}
		return r.suspendedResult(in, in.Attempt, result), nil
	case result.Outcome == turn.OutcomeUnknown && repeats(in, clock) && !result.Detached &&
		!temporal.IsCanceledError(context.Cause(ctx)):
		// The workflow attempts the call again, unless the call still runs (Detached) or the turn was stopped. The claim
		// stays, because the journal grants a repeatable call to a later attempt in spite of it, and counts both attempts.
		// If this worker stops, the later attempt runs on another one.
		return workflows.CallResult{}, turn.NewError(turn.CodeToolOutcomeUnknown, nil, result.Text)
	case result.Outcome == turn.OutcomeError && in.RetryIfError && !elicitor.hasAsked() &&
		!temporal.IsCanceledError(context.Cause(ctx)):
		// The claim stays here, too: the workflow sets RetryIfError for repeatable calls only.
		return workflows.CallResult{}, turn.NewError(turn.CodeToolFailed, nil, turn.Truncate(result.Text, turn.ResultPreview))
	}
	res, err := r.settleCall(ctx, in, result)
	if err != nil {
		return res, reachedError{err}
	}
	return res, nil
}

// reachedError marks the error of a call that may have reached its tool, such as a failed write of its result.
type reachedError struct{ error }

func (e reachedError) Unwrap() error { return e.error }

// claimTries is how often an attempt tries to claim its call before it leaves the worker to wait for the journal.
const claimTries = 3

// claim finds the call in the journal, checks that policy allows it, and claims it, within workflows.ClaimWithin. The
// returned call and tool are those of the journal; the workflow's input has only a preview. subagent is nil unless the
// call starts a subagent.
func (r *Runner) claim(ctx context.Context, in workflows.CallInput,
	subagent *journal.Subagent) (call turn.ToolCall, tool turn.Tool, record journal.CallRecord, err error) {
	defer attempt.PauseClock(ctx)()
	ctx, cancel := context.WithTimeout(ctx, workflows.ClaimWithin)
	defer cancel()
	for n := 1; ; n++ {
		call, tool, record, err = r.claimOnce(ctx, in, subagent)
		// During an outage that this process knows of, the activity fails at once and is retried later.
		inOutage := errors.As(err, new(*journal.AwayError))
		if err == nil || !attempt.Unavailable(err) || inOutage || n == claimTries ||
			!attempt.AwaitJournal(ctx, err, 50*time.Millisecond) {
			return call, tool, record, err
		}
	}
}

// claimOnce tries once to find the call, check it against the policy and claim it. The claim is idempotent on one
// worker, so it can be tried again if the journal's reply is lost.
func (r *Runner) claimOnce(ctx context.Context, in workflows.CallInput,
	subagent *journal.Subagent) (call turn.ToolCall, tool turn.Tool, record journal.CallRecord, err error) {
	if call, err = r.requestedCall(ctx, in); err != nil {
		return call, tool, record, err
	}
	tool, needsApproval, err := r.authorizer.Authorize(ctx, in, call)
	if err != nil {
		return call, tool, record, err
	}
	// The journal recognizes a claim that it has already committed by its time. A try after a lost reply must therefore
	// use the time of the first one.
	name := fmt.Sprintf("claim %s/%s/%d", in.Turn, in.Call.ID, in.Attempt)
	at, again := r.claimTimes.Get(name)
	if !again {
		at = time.Now()
		r.claimTimes.Add(name, at)
	}
	mustBeApproved := in.CheckApproval || needsApproval // the journal then looks for the approval
	record, err = r.journal.ClaimCall(ctx, journal.CallRecord{
		Turn: in.Turn, Step: in.Step, Call: call, Attempt: in.Attempt, Repeatable: tool.Repeatable, Worker: r.worker,
		ClaimedAt: at, Subagent: subagent,
	}, mustBeApproved, tool.Sensitive...)
	if err == nil {
		r.claimTimes.Remove(name)
	}
	return call, tool, record, err
}

// unknownText is the result of a call whose worker died while the call ran, for the model.
const unknownText = "Outcome unknown: the worker died while this call ran. It may or may not have taken effect, and " +
	"it was not repeated. Check before you try again."

// requestedCall returns the call as the model requested it, from the step's message in the journal. The workflow has
// only a preview of its arguments. If the call was approved, its arguments must be the approved ones.
func (r *Runner) requestedCall(ctx context.Context, in workflows.CallInput) (turn.ToolCall, error) {
	m, err := r.frozen.StepMessage(ctx, journal.StepKey{Turn: in.Turn, Step: in.Step})
	if err != nil {
		return turn.ToolCall{}, fmt.Errorf("reading the call %s: %w", in.Call.ID, err)
	}
	for _, c := range m.ToolCalls {
		if c.ID != in.Call.ID {
			continue
		}
		if in.CheckApproval && journal.HashOf([]byte(c.Arguments)) != in.Call.ArgumentsHash {
			return turn.ToolCall{}, turn.NewError(turn.CodeToolDrift, nil,
				"the call's arguments differ from the approved ones; it was not run")
		}
		return c, nil
	}
	return turn.ToolCall{}, turn.NewError(turn.CodeInternal, nil,
		"the journal does not have call "+in.Call.ID+" of this turn")
}

// run calls the tool within its time limit. continuation is nil unless the call was suspended before. The caller closes
// recorded when it no longer needs the result: it has settled the call, or failed to. An error means that nothing
// reached the tool; run has then released the claim, unless the error is that of the release.
func (r *Runner) run(
	ctx context.Context, in workflows.CallInput, call turn.ToolCall, continuation []byte, clock *attempt.Clock,
	elicitor *elicitor,
	recorded <-chan struct{},
) (turn.ToolResult, error) {
	if plan.Is(in.Tool.ID) {
		result, err := r.changePlan(ctx, in, call)
		if err != nil {
			err = r.releaseUnsent(ctx, in, err)
		}
		return r.presentable(result), err
	}
	begun, err := r.frozen.Turn(ctx, in.Turn)
	if err != nil {
		return turn.ToolResult{}, r.releaseUnsent(ctx, in, err)
	}
	responses, err := r.wholeResponses(ctx, in)
	if err != nil {
		return turn.ToolResult{}, r.releaseUnsent(ctx, in, err)
	}
	caller := "" // the session of the turn that called the subagent whose turn makes this call
	if turn.ReservedSession(in.Session) {
		caller = begun.Caller.Session
	}
	progress, stopProgress := r.progressWriter(ctx, in)
	defer stopProgress()
	req := turn.ToolRequest{
		Tool: in.Tool.ID, Hash: in.Tool.Hash, Arguments: json.RawMessage(call.Arguments), Timeout: in.Timeout,
		TotalTimeout: in.TotalTimeout,
		Tenant:       in.Tenant, Session: in.Session, Turn: in.Turn, Step: in.Step, CallID: in.Call.ID, Attempt: in.Attempt,
		Repeatable: in.Tool.Repeatable,
		Caller:     caller, Model: in.Model, Context: begun.Context,
		Refused: clock.Refused, Scheduled: clock.Scheduled, Kept: recorded,
		Waits: !attempt.IsLocal(ctx), Responses: responses, Continuation: continuation, Resume: in.Resume,
		OwningCall: in.OwningCall,
		Progress:   progress, Late: func(late turn.ToolResult) { r.recordLateResult(context.WithoutCancel(ctx), in, late) },
	}
	if elicitor != nil {
		req.Elicit = elicitor.elicit
	}
	// The tool host ends the call after Timeout, which progress renews up to TotalTimeout. Waits for a user do not count.
	limited, cancel := expiry.WithTimeout(ctx, max(in.Timeout, in.TotalTimeout)+in.Tool.ElicitationTimeout)
	defer cancel()
	var did workspaceEvents
	req.Workspace = did.add
	result, err := r.tools.Call(limited, req)
	if err != nil {
		return result, r.releaseUnsent(ctx, in, err)
	}
	result.Workspace = did.list()
	return r.presentable(result), nil
}

// releaseUnsent releases the claim of a call that failed with err before it reached its tool, so that the next attempt
// may run it. Otherwise the next attempt would report an unknown outcome although nothing was sent. It returns err
// without secrets, or the error of the release.
func (r *Runner) releaseUnsent(ctx context.Context, in workflows.CallInput, err error) error {
	if rerr := r.release(ctx, in); rerr != nil {
		return rerr
	}
	e := attempt.AsTurnError(err)
	return &turn.Error{Code: e.Code, Message: r.secrets.String(e.Message), Cause: e.Cause, RetryAfter: e.RetryAfter,
		Refused: e.Refused}
}

// release releases the claim of an attempt, even if ctx has ended.
func (r *Runner) release(ctx context.Context, in workflows.CallInput) error {
	_, err := attempt.RetryUntilAvailable(context.WithoutCancel(ctx), r.attempts.SettleWithin(ctx),
		func(writeCtx context.Context) (struct{}, error) {
			return struct{}{}, r.journal.ReleaseCall(writeCtx, in.Turn, in.Call.ID, in.Attempt)
		})
	return err
}

// settle records the result of an attempt in the journal.
func (r *Runner) settle(ctx context.Context, in workflows.CallInput,
	result turn.ToolResult) (journal.CallRecord, error) {
	result.Taints = in.Tool.Taints
	if result.Plan == nil && !plan.Is(in.Tool.ID) {
		result.Plan = r.planAfter(ctx, in, result)
	}
	return r.journal.SettleCall(ctx, in.Turn, in.Call.ID, in.Attempt, result, time.Now())
}

// settleCall records the result of a call and returns its receipt, which is that of the first settlement. It records
// the result even if ctx has ended; if the turn was stopped, it then returns a canceled error.
func (r *Runner) settleCall(ctx context.Context, in workflows.CallInput,
	result turn.ToolResult) (workflows.CallResult, error) {
	record, err := attempt.RetryUntilAvailable(context.WithoutCancel(ctx), r.attempts.SettleWithin(ctx),
		func(writeCtx context.Context) (journal.CallRecord, error) {
			return r.settle(writeCtx, in, result)
		})
	if err != nil {
		return workflows.CallResult{}, err
	}
	if temporal.IsCanceledError(context.Cause(ctx)) {
		return workflows.CallResult{}, temporal.NewCanceledError()
	}
	return r.receipt(in, record), nil
}

// receipt returns what the workflow gets of a settled call: the outcome, and a preview and a hash of the result.
func (r *Runner) receipt(in workflows.CallInput, record journal.CallRecord) workflows.CallResult {
	return workflows.CallResult{
		CallID: in.Call.ID, Tool: in.Tool.ID, Outcome: record.Outcome,
		Preview:    turn.Truncate(record.Text, turn.ResultPreview),
		ResultHash: turn.HashText(record.Text)[:16], // 64 bits tell results of one turn apart
	}
}
