package workflows

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"go.temporal.io/sdk/workflow"

	"github.com/everturn/everturn/workflows/turn"
)

// A tool call whose server sends elicitations is suspended: its attempt returns the elicitations, the turn opens a
// request for each, and the next attempt, on any worker, continues the call with the responses. A server of an older
// protocol holds its call open instead. The attempt then sends the update Elicit, and waits until the journal has the
// decision of the request that the turn opens.

// maxElicitations bounds the elicitations of one call, over all its attempts.
const maxElicitations = 32

// resume waits for the decisions on the elicitations of a suspended call, and reports whether to attempt the call
// again. It returns false at once if the call is not suspended or the turn is cancelled. It gives up a call that has
// had maxElicitations: the call's outcome is then unknown. If the wait fails, it sets c.err. For the call of a client
// tool, see awaitResult.
func (r *run) resume(ctx workflow.Context, c *callState) (again bool) {
	if c.err != nil || len(c.receipt.Elicitations) == 0 || ctx.Err() != nil {
		return false
	}
	if r.handsOut(c) {
		r.awaitResult(ctx, c)
		return false
	}
	if c.elicited >= maxElicitations {
		c.outcome.Outcome, c.outcome.Code = turn.OutcomeUnknown, turn.CodeToolOutcomeUnknown
		c.outcome.Text = fmt.Sprintf(
			"Outcome unknown: the tool's server has elicited user input more than %d times in this call. "+
				"The call was not continued, and may or may not have taken effect. Check before you try again.", maxElicitations)
		c.receipt = CallResult{
			CallID: c.Call.ID, Tool: c.Call.Tool, Outcome: turn.OutcomeUnknown, Preview: c.outcome.Text,
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
	within := r.progress.Config.Approvals.Expiry
	var requests []turn.Request
	for i, q := range c.receipt.Elicitations[:min(len(c.receipt.Elicitations), maxElicitations-c.elicited)] {
		requests = append(requests, r.elicitationRequest(ctx, c, elicitationID(c, i+1), q, within))
	}
	decisions, err := r.request(ctx, requests, within, nil)
	if err != nil {
		return err
	}
	c.Responses, c.ElicitationAttempt = nil, cmp.Or(c.receipt.ElicitationAttempt, c.Attempt)
	for i, q := range c.receipt.Elicitations {
		c.Responses = append(c.Responses, decisions[elicitationID(c, i+1)].ResponseTo(q))
	}
	c.elicited += len(requests)
	c.receipt = CallResult{}
	return nil
}

// elicitationID returns the request ID of the n-th elicitation of the call's latest attempt, counted from 1. Request
// IDs count on over all attempts.
func elicitationID(c *callState, n int) string { return fmt.Sprintf("e%s.%d", c.Call.ID, c.elicited+n) }

// elicitationRequest returns the request with this ID for the response to q, which expires after within; 0 means never.
func (r *run) elicitationRequest(ctx workflow.Context, c *callState, id string, q turn.Elicitation,
	within time.Duration) turn.Request {
	return turn.Request{
		ID: id, Kind: turn.RequestElicitation, Step: r.progress.Counters.Step, Tool: c.Call.Tool,
		Call: c.Call.ID, Question: turn.Truncate(q.Message, maxQuestion), Elicitation: &q, ExpiresAt: expiry(ctx, within),
	}
}

// ElicitInput asks the user, for the server of a call that the server holds open. The activity of the call sends it.
type ElicitInput struct {
	Call    string `json:"call"`
	Attempt int    `json:"attempt"`
	// Elicitation is nil if the server no longer waits for the response to the call's latest elicitation.
	Elicitation *turn.Elicitation `json:"elicitation,omitempty"`
	Within      time.Duration     `json:"within,omitempty"` // how long the server waits

	request string // the ID of its request, once the workflow has accepted it
}

// maxElicitInput bounds an ElicitInput, in bytes of JSON. The MCP host bounds the parts of an elicitation more tightly.
const maxElicitInput = 128 << 10

// validateElicit rejects an elicitation that belongs to no attempt under way, or that the call may not send.
func (r *run) validateElicit(_ workflow.Context, in ElicitInput) error {
	c := r.attemptUnderWay(in)
	if c == nil {
		return rejected(turn.CodeNotWaiting, fmt.Sprintf("attempt %d of call %s is not under way", in.Attempt,
			turn.Truncate(in.Call, 40)))
	}
	tool, _ := r.progress.Config.Find(c.Call.Tool)
	switch {
	case in.Elicitation == nil:
		return nil
	case in.Within <= 0, in.Within > tool.ElicitationTimeout:
		return rejected(turn.CodeInputInvalid, fmt.Sprintf("within is %s; the maximum is the tool's elicitation timeout, %s",
			in.Within, tool.ElicitationTimeout))
	case c.elicited >= maxElicitations:
		return rejected(turn.CodeLimitExceeded, fmt.Sprintf("the call has sent %d elicitations, which is the maximum",
			maxElicitations))
	}
	if err := checkSize("elicitation", in, maxElicitInput); err != nil {
		return rejected(err.Code, err.Message)
	}
	return nil
}

// attemptUnderWay returns the call whose attempt has sent the elicitation, or nil if that attempt is not under way.
func (r *run) attemptUnderWay(in ElicitInput) *callState {
	for _, c := range r.calls {
		if c.Call.ID == in.Call && c.Attempt == in.Attempt && c.running != nil && !c.running.IsReady() {
			return c
		}
	}
	return nil
}

// interrupted reports whether the running attempt has ended, or its server has sent or withdrawn an elicitation. The
// server then waits for no earlier elicitation.
func (c *callState) interrupted() bool { return c.running.IsReady() || len(c.held) > 0 }

// abandoned reports whether the request is of an attempt under way whose server no longer waits for the response.
func (r *run) abandoned(req turn.Request) bool {
	return slices.ContainsFunc(r.calls, func(c *callState) bool {
		return c.Call.ID == req.Call && c.running != nil && c.interrupted()
	})
}

// holdElicitation handles the update Elicit: awaitAttempt then opens the request. It returns the ID of the request
// whose decision is the response, empty if in withdraws an elicitation.
func (r *run) holdElicitation(_ workflow.Context, in ElicitInput) (request string, err error) {
	c := r.attemptUnderWay(in)
	if c == nil { // the attempt has ended since the update was validated
		return "", rejected(turn.CodeNotWaiting, "the attempt has ended")
	}
	if in.Elicitation != nil {
		in.request = elicitationID(c, 1)
		c.elicited++
	}
	c.held = append(c.held, in)
	return in.request, nil
}

// awaitAttempt waits for the end of the call's attempt, and opens a request for each elicitation that the server sends
// meanwhile. A request that is open when the attempt ends, or when the server no longer waits for it, expires at once.
// If ctx is cancelled, awaitAttempt returns before the attempt has ended: see call.
func (r *run) awaitAttempt(ctx workflow.Context, c *callState, attempt workflow.Future) (out CallResult, err error) {
	c.running = attempt
	defer func() { c.running, c.held = nil, nil }()
	for {
		if workflow.Await(ctx, c.interrupted) != nil {
			return out, ctx.Err()
		}
		if attempt.IsReady() {
			err = attempt.Get(ctx, &out)
			return out, err
		}
		held := c.held[0]
		c.held = c.held[1:]
		if held.Elicitation == nil {
			continue
		}
		within := held.Within
		if expiry := r.progress.Config.Approvals.Expiry; expiry > 0 {
			within = min(within, expiry)
		}
		request := r.elicitationRequest(ctx, c, held.request, *held.Elicitation, within)
		if _, err := r.request(ctx, []turn.Request{request}, within, c.interrupted); err != nil {
			return out, err
		}
	}
}
