package workflows

import (
	"cmp"
	"fmt"
	"time"

	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/workflow"

	"github.com/everturn/everturn/workflows/turn"
)

// A tool call whose server sends elicitations is suspended: its attempt returns the elicitations, the turn opens a
// request for each, and the next attempt continues the call with the responses. If the server speaks the newest
// protocol, any worker can continue the call. A server of an older protocol keeps its call open (CallResult.Held), so
// only the worker with the open call can continue it; the turn watches that worker meanwhile.

// maxElicitations bounds the elicitations of one call, over all its attempts.
const maxElicitations = 32

// resume waits for the decisions on the elicitations of a suspended call, and reports whether to attempt the call
// again. It returns false at once if the call is not suspended or the turn is cancelled. It gives up a call that has
// had maxElicitations: the call's outcome is then unknown. If the wait fails, it sets c.err.
func (r *run) resume(ctx workflow.Context, c *callState) (again bool) {
	if c.err != nil || len(c.receipt.Elicitations) == 0 || ctx.Err() != nil {
		return false
	}
	if c.elicited >= maxElicitations {
		c.outcome.Outcome, c.outcome.Code = turn.OutcomeUnknown, turn.CodeToolOutcomeUnknown
		c.outcome.Text = fmt.Sprintf(
			"Outcome unknown: the tool's server has elicited user input more than %d times in this call. "+
				"The call was not continued, and may or may not have taken effect. Check before you try again.", maxElicitations)
		c.receipt = CallResult{
			CallID: c.call.ID, Tool: c.call.Tool, Outcome: turn.OutcomeUnknown, Preview: c.outcome.Text,
		}
		return false
	}
	c.err = r.elicit(ctx, c)
	return c.err == nil
}

// elicit opens requests for the elicitations in the call's receipt, up to maxElicitations for the whole call, and waits
// until all are settled. It stores the responses in c for the next attempt, and clears the receipt. An elicitation
// beyond the maximum gets the response cancel.
func (r *run) elicit(ctx workflow.Context, c *callState) error {
	within := r.elicitationExpiry(c)
	var requests []turn.Request
	for i, q := range c.receipt.Elicitations[:min(len(c.receipt.Elicitations), maxElicitations-c.elicited)] {
		requests = append(requests, turn.Request{
			ID: elicitationID(c, i+1), Kind: turn.RequestElicitation, Step: r.progress.Counters.Step, Tool: c.call.Tool,
			Call: c.call.ID, Question: turn.Truncate(q.Message, maxQuestion), Elicitation: &q, ExpiresAt: expiry(ctx, within),
		})
	}
	ended, gone := never, never
	if c.receipt.Held { // only the worker with the open call can continue it
		c.queue = c.receipt.StickyQueue
		ended, gone = r.awaitCall(ctx, c, within)
	}
	decisions, err := r.request(ctx, requests, within, ended)
	if err != nil {
		return err
	}
	if gone() { // any worker can look up in the journal how the call ended
		c.queue = ""
	}
	c.responses, c.respondsTo = nil, cmp.Or(c.receipt.ElicitationAttempt, c.attempt)
	for i, q := range c.receipt.Elicitations {
		c.responses = append(c.responses, responseTo(q, decisions[elicitationID(c, i+1)]))
	}
	c.elicited += len(requests)
	c.receipt = CallResult{}
	return nil
}

// elicitationID returns the request ID of the n-th elicitation of the call's latest attempt, counted from 1. Request
// IDs count on over all attempts.
func elicitationID(c *callState, n int) string { return fmt.Sprintf("e%s.%d", c.call.ID, c.elicited+n) }

// elicitationExpiry returns the time after which the call's elicitations expire: the configured expiry of questions, or
// the tool's ElicitationTimeout if the server keeps the call open and that is shorter. 0 means that they do not expire.
func (r *run) elicitationExpiry(c *callState) time.Duration {
	within := r.progress.Config.Approvals.QuestionExpiry
	tool, _ := r.progress.Config.Find(c.call.Tool)
	switch heldFor := tool.ElicitationTimeout; {
	case !c.receipt.Held || heldFor <= 0:
		return within
	case within <= 0:
		return heldFor
	default:
		return min(within, heldFor)
	}
}

// awaitCall starts AwaitCall, on the call's worker, for a call that its server keeps open. ended reports whether the
// activity has ended, because the call can no longer use a response. gone reports whether it has ended with an error,
// because that worker can no longer continue the call. within is the time until the call's elicitations expire.
func (r *run) awaitCall(ctx workflow.Context, c *callState, within time.Duration) (ended, gone func() bool) {
	ctx = workflow.WithActivityOptions(ctx, workflow.ActivityOptions{
		TaskQueue: c.queue, ScheduleToStartTimeout: stickyTimeout, ScheduleToCloseTimeout: CallDeadline(within),
		HeartbeatTimeout: heartbeat,
		RetryPolicy: &temporal.RetryPolicy{ // the worker may have lost only its connection to Temporal
			InitialInterval: time.Second, BackoffCoefficient: 1, NonRetryableErrorTypes: nonRetryable,
		},
		Summary: turn.Truncate("keep "+c.call.Tool+" open", 200),
	})
	in := AwaitCallInput{Turn: r.turnID, Call: c.call.ID}
	call := workflow.ExecuteActivity(ctx, activityName(Activities.AwaitCall), in)
	return call.IsReady, func() bool { return call.IsReady() && call.Get(ctx, nil) != nil }
}

// responseTo returns the response to q for the server, by the user's decision d. It is a cancel if the user did not
// respond.
func responseTo(q turn.Elicitation, d turn.Decision) turn.ElicitationResponse {
	if d.Response == nil {
		return turn.ElicitationResponse{Key: q.Key, Action: turn.ElicitationCancel}
	}
	return turn.ElicitationResponse{Key: q.Key, Action: d.Response.Action, Content: d.Response.Content}
}
