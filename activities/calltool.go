package activities

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"go.temporal.io/sdk/temporal"

	"github.com/everturn/everturn/internal/expiry"
	"github.com/everturn/everturn/journal"
	"github.com/everturn/everturn/journal/record"
	"github.com/everturn/everturn/workflows"
	"github.com/everturn/everturn/workflows/plan"
	"github.com/everturn/everturn/workflows/turn"
)

// CallTool claims one call, runs it, settles it and returns its receipt. The journal's record decides: a settled call
// does not run again, and a call that an earlier attempt left open does not either, unless its tool is repeatable.
func (a *Activities) CallTool(ctx context.Context, in workflows.CallInput) (workflows.CallResult, error) {
	switch {
	case a.elsewhere.Tools == "", in.Tool.Queue != "":
	case local(ctx): // the turn began on a worker that calls tools
		return workflows.CallResult{}, a.failure(ctx, turn.Errorf(turn.CodeToolNotSent, nil, "this worker calls no tools"))
	default:
		return workflows.CallResult{}, workflows.Elsewhere(a.queues)
	}
	ctx = withWork(ctx, in.Turn, in.Step, in.Call.ID)
	clock := startClock(ctx)
	defer clock.stop()
	if !local(ctx) { // a local activity past its cap runs on beside the next attempt; the first to settle counts
		leave, err := a.running.enter(ctx, in.Turn+"/"+in.Call.ID)
		if err != nil {
			return workflows.CallResult{}, a.callFailure(ctx, in, clock,
				turn.Errorf(turn.CodeWorkerUnavailable, err, "the previous attempt is still running"))
		}
		defer leave()
	}
	ctx, release := a.detachFromAttempt(withClock(ctx, clock), in.Turn)
	defer release()
	res, err := a.callTool(ctx, withinBudget(in, clock.before), clock)
	if err = a.redirect(ctx, in, err); temporal.IsApplicationError(err) {
		return workflows.CallResult{}, err
	}
	res.Busy = clock.busy()
	err = a.callFailure(ctx, in, clock, err)
	a.showRetry(ctx, in, err)
	return res, err
}

func (a *Activities) callTool(ctx context.Context, in workflows.CallInput, clock *clock) (workflows.CallResult, error) {
	call, tool, claim, err := a.claim(ctx, in, nil)
	in.Tool = tool
	if err != nil {
		return workflows.CallResult{}, err
	}
	switch claim.State {
	case journal.ClaimSettled:
		return a.receipt(in, claim.Record), nil
	case journal.ClaimStale:
		return workflows.CallResult{}, turn.Errorf(turn.CodeToolOutcomeUnknown, journal.ErrStale,
			"a later attempt has this call")
	case journal.ClaimTaken:
		return a.settleCall(ctx, in, turn.ToolResult{Outcome: turn.OutcomeUnknown, Text: unknownText})
	}
	if in.ElicitationAttempt != 0 && in.ElicitationAttempt != claim.Record.Suspended {
		in.Responses = nil // the previous attempt delivered them and got new elicitations, but its end was lost
	}
	kept := make(chan struct{})
	defer close(kept)
	result, err := a.run(ctx, in, call, claim.Record.Continuation, clock, kept)
	switch {
	case err != nil:
		return workflows.CallResult{}, err
	case len(result.Elicitations) > 0 && claim.Record.Suspended != 0 &&
		bytes.Equal(result.Continuation, claim.Record.Continuation):
		return a.repeatElicitations(ctx, in, claim.Record.Suspended, result)
	case len(result.Elicitations) > 0:
		res, err := a.suspend(ctx, in, result)
		return res, mayHaveRun(err)
	case result.Outcome == turn.OutcomeUnknown && repeats(in, clock) && !result.Detached &&
		!temporal.IsCanceledError(context.Cause(ctx)):
		// The claim stays: a later attempt of a repeatable call is granted anyway, and the journal counts both. It
		// runs on another worker if this one stops.
		return workflows.CallResult{}, turn.Errorf(turn.CodeToolOutcomeUnknown, nil, result.Text)
	}
	res, err := a.settleCall(ctx, in, result)
	return res, mayHaveRun(err)
}

// reachedError is an error of a call that may have reached its tool, such as a failed write of its result.
type reachedError struct{ error }

func (e reachedError) Unwrap() error { return e.error }

func mayHaveRun(err error) error {
	if err == nil {
		return nil
	}
	return reachedError{err}
}

// claimTries is how often an attempt tries to claim its call before it leaves the worker to wait for the journal.
const claimTries = 3

// claim finds the call in the journal and claims it, within workflows.ClaimWithin.
func (a *Activities) claim(ctx context.Context, in workflows.CallInput,
	subagent *journal.Subagent) (call turn.ToolCall, tool turn.Tool, claim journal.Claim, err error) {
	defer rest(ctx)()
	ctx, cancel := context.WithTimeout(ctx, workflows.ClaimWithin)
	defer cancel()
	for n := 1; ; n++ {
		call, tool, claim, err = a.claimOnce(ctx, in, subagent)
		known := errors.As(err, new(*journal.AwayError)) // to be away: it is not asked again here
		if !unavailable(err) || known || n == claimTries || !awaitJournal(ctx, err, 50*time.Millisecond) {
			return call, tool, claim, err
		}
	}
}

func (a *Activities) claimOnce(ctx context.Context, in workflows.CallInput,
	subagent *journal.Subagent) (call turn.ToolCall, tool turn.Tool, claim journal.Claim, err error) {
	if call, err = a.requested(ctx, in); err != nil {
		return call, tool, claim, err
	}
	tool, ask, err := a.authorize(ctx, in, call)
	if err != nil {
		return call, tool, claim, err
	}
	// A repetition must name the same claim, in case the first one was committed and its reply lost.
	name := fmt.Sprintf("claim %s/%s/%d", in.Turn, in.Call.ID, in.Attempt)
	at, again := a.times.Get(name)
	if !again {
		at = time.Now()
		a.times.Add(name, at)
	}
	claim, err = a.journal.ClaimCall(ctx, journal.ClaimInput{
		Turn: in.Turn, Step: in.Step, Call: call, Attempt: in.Attempt, Repeatable: tool.Repeatable,
		Approved: in.CheckApproval || ask, Worker: a.worker, At: at, Subagent: subagent,
	})
	if err == nil {
		a.times.Remove(name)
	}
	return call, tool, claim, err
}

// unknownText is what the model reads about a call that died with its worker.
const unknownText = "Outcome unknown: the worker died while this call ran. It may or may not have taken effect, and " +
	"it was not repeated. Check before you try again."

// requested finds the call in the completion that asked for it: the workflow carries only a preview of its arguments.
func (a *Activities) requested(ctx context.Context, in workflows.CallInput) (turn.ToolCall, error) {
	m, err := a.stepMessage(ctx, journal.StepKey{Turn: in.Turn, Step: in.Step})
	if err != nil {
		return turn.ToolCall{}, fmt.Errorf("reading the call %s: %w", in.Call.ID, behind(err))
	}
	for _, c := range m.ToolCalls {
		if c.ID != in.Call.ID {
			continue
		}
		if in.CheckApproval && record.HashOf([]byte(c.Arguments)) != in.Call.ArgumentsHash {
			return turn.ToolCall{}, turn.Errorf(turn.CodeToolDrift, nil,
				"the call's arguments differ from the approved ones; it was not run")
		}
		return c, nil
	}
	return turn.ToolCall{}, turn.Errorf(turn.CodeInternal, nil,
		"the journal does not have call "+in.Call.ID+" of this turn")
}

// run calls the tool within its deadline. An error means that nothing reached the tool. The caller closes kept when the
// result is kept.
func (a *Activities) run(
	ctx context.Context, in workflows.CallInput, call turn.ToolCall, continuation []byte, clock *clock,
	kept <-chan struct{},
) (turn.ToolResult, error) {
	limited, cancel := expiry.WithTimeout(ctx, max(in.Timeout, in.TotalTimeout))
	defer cancel()
	caller, err := a.callerSession(ctx, in)
	if err != nil {
		return turn.ToolResult{}, a.releaseUnsent(ctx, in, err)
	}
	if plan.Is(in.Tool.ID) {
		result, err := a.changePlan(ctx, in, call)
		if err != nil {
			err = a.releaseUnsent(ctx, in, err)
		}
		return a.presentable(result), err
	}
	progress, noted := a.progressWriter(ctx, in)
	defer noted()
	result, err := a.tools.Call(limited, turn.ToolRequest{
		Tool: in.Tool.ID, Hash: in.Tool.Hash, Arguments: json.RawMessage(call.Arguments), Timeout: in.Timeout,
		TotalTimeout: in.TotalTimeout,
		Tenant:       in.Tenant, Session: in.Session, Turn: in.Turn, Step: in.Step, CallID: in.Call.ID, Attempt: in.Attempt,
		Repeatable: in.Tool.Repeatable,
		Caller:     caller, Model: in.Model,
		Refused: clock.refused, Scheduled: scheduled(ctx), Kept: kept,
		Waits: !local(ctx), MaySuspend: !local(ctx) && a.home != "",
		Responses: in.Responses, Continuation: continuation, Resume: in.Resume, OwningCall: in.OwningCall,
		Progress: progress, Late: func(late turn.ToolResult) { a.recordLateResult(context.WithoutCancel(ctx), in, late) },
	})
	if err != nil {
		return result, a.releaseUnsent(ctx, in, err)
	}
	return a.presentable(result), nil
}

// releaseUnsent releases the claim of a call that never reached its tool, so that the next attempt may run it.
// Otherwise the next attempt would report an unknown outcome although nothing was sent. The call's own context may
// have ended.
func (a *Activities) releaseUnsent(ctx context.Context, in workflows.CallInput, err error) error {
	if rerr := a.release(ctx, in); rerr != nil {
		return rerr
	}
	e := asTurnError(err)
	return &turn.Error{Code: e.Code, Message: a.redact(e.Message), Cause: e.Cause, RetryAfter: e.RetryAfter,
		Refused: e.Refused}
}

func (a *Activities) release(ctx context.Context, in workflows.CallInput) error {
	_, err := retryUntilAvailable(context.WithoutCancel(ctx), a.settleWithin(ctx),
		func(keep context.Context) (struct{}, error) {
			return struct{}{}, a.journal.ReleaseCall(keep, in.Turn, in.Call.ID, in.Attempt)
		})
	return err
}

// settlement returns the input with which the journal settles or suspends an attempt.
func settlement(in workflows.CallInput, result turn.ToolResult) journal.SettleInput {
	return journal.SettleInput{
		Turn: in.Turn, CallID: in.Call.ID, Attempt: in.Attempt, Result: result, Taints: in.Tool.Taints, At: time.Now(),
	}
}

// settleCall records the result of a call. The call's own context may have ended.
func (a *Activities) settleCall(ctx context.Context, in workflows.CallInput,
	result turn.ToolResult) (workflows.CallResult, error) {
	record, err := retryUntilAvailable(context.WithoutCancel(ctx), a.settleWithin(ctx),
		func(keep context.Context) (journal.CallRecord, error) {
			return a.journal.SettleCall(keep, settlement(in, result))
		})
	if err != nil {
		return workflows.CallResult{}, err
	}
	if temporal.IsCanceledError(context.Cause(ctx)) {
		return workflows.CallResult{}, temporal.NewCanceledError()
	}
	return a.receipt(in, record), nil
}

func (a *Activities) receipt(in workflows.CallInput, r journal.CallRecord) workflows.CallResult {
	return workflows.CallResult{
		CallID: in.Call.ID, Tool: in.Tool.ID,
		Outcome: r.Outcome, Preview: turn.Truncate(r.Text, turn.ResultPreview), StickyQueue: a.stickyQueue(in),
	}
}

// stickyQueue returns this process's sticky queue if the turn must come back to it, and an empty string otherwise.
func (a *Activities) stickyQueue(in workflows.CallInput) string {
	if !in.Tool.SessionAffinity {
		return ""
	}
	return a.home
}
