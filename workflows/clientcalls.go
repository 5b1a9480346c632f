package workflows

import (
	"cmp"
	"slices"
	"time"

	"go.temporal.io/sdk/workflow"

	"github.com/everturn/everturn/workflows/turn"
)

// A call of a client tool is suspended like one whose server elicits: its first attempt claims the call and hands it
// out, the turn opens a request for the result, and another attempt records the result that a client has sent.

// handsOut reports whether the call is that of a client tool.
func (r *run) handsOut(c *callState) bool {
	tool, _ := r.progress.Config.Find(c.Call.Tool)
	return tool.Activity == turn.ActivityClient
}

// awaitResult waits until a client sends the result of a call, or until the request for it expires. Then it lets an
// attempt record the result, even if the turn is stopped meanwhile: the client was told that its result counts. It sets
// c.outcome, c.receipt and c.err, to errMoves if the turn should continue in a new run.
func (r *run) awaitResult(ctx workflow.Context, c *callState) {
	request := r.resultRequest(ctx, c)
	within := time.Duration(0)
	if !request.ExpiresAt.IsZero() {
		within = max(request.ExpiresAt.Sub(workflow.Now(ctx)), time.Millisecond) // 0 means never
	}
	c.handedOut = true
	_, c.err = r.request(ctx, []turn.Request{request}, within, nil)
	decision, _ := r.requests.decision(request.ID)
	if c.err != nil && (ctx.Err() == nil || decision.Response == nil) {
		return // handedOut stays set: with errMoves, other calls of the step may wait, too
	}
	c.handedOut = false
	c.Responses = []turn.ElicitationResponse{decision.ResponseTo(turn.Elicitation{})}
	c.ElicitationAttempt = cmp.Or(c.receipt.ElicitationAttempt, c.Attempt)
	c.elicited++
	ctx, cancel := workflow.NewDisconnectedContext(ctx)
	defer cancel()
	c.outcome, c.receipt, c.err = r.oneCall(ctx, c)
}

// resultRequest returns the request for the result of a call. If an earlier run of the turn opened it, it keeps its
// expiry.
func (r *run) resultRequest(ctx workflow.Context, c *callState) turn.Request {
	request := turn.Request{
		ID: turn.ResultRequest(c.Call.ID), Kind: turn.RequestResult, Step: r.progress.Counters.Step, Tool: c.Call.Tool,
		Arguments: c.Call.Arguments, ArgumentsHash: c.Call.ArgumentsHash, Call: c.Call.ID,
		ExpiresAt: expiry(ctx, r.progress.Config.Approvals.Expiry),
	}
	if opened, moved := r.requests.find(request.ID); moved {
		request.ExpiresAt = opened.ExpiresAt
	}
	return request
}

// onlyHandedOut reports whether all calls of the step that have not ended wait for the results of clients. The next run
// of the turn can then make the calls again: the journal has those that have ended. A step that calls agents stays,
// because the run has what it has granted to them.
func (r *run) onlyHandedOut() bool {
	return r.agents == nil && !slices.ContainsFunc(r.calls, func(c *callState) bool { return !c.handedOut && !c.ended })
}
