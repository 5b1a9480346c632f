package mcp

import (
	"context"
	"encoding/json"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/everturn/everturn/activities/tools/tool"
	"github.com/everturn/everturn/workflows/turn"
)

// pendingElicitation is an elicitation of a server that keeps the call open until it has the response.
type pendingElicitation struct {
	turn.Elicitation
	number   int                           // counts the call's elicitations from 1
	response chan turn.ElicitationResponse // capacity 1; written once
	done     chan struct{}                 // closed when the server gets the response or no longer waits for it
}

// handleElicitation handles elicitation/create, which a server of an older protocol sends in the middle of a call. It
// blocks until the user has responded, or until the call or ctx ends: the server then gets the action "cancel". If the
// user cannot be asked, the server gets an error, because "cancel" would claim that a user had cancelled. The request
// does not say to which call it belongs, so no user is asked if several calls are possible.
func (s *session) handleElicitation(ctx context.Context, req *sdk.ElicitRequest) (*sdk.ElicitResult, error) {
	a, number, err := s.elicitingCall()
	if err != nil {
		return nil, &jsonrpc.Error{Code: jsonrpc.CodeInternalError, Message: "The user was not asked: " + err.Error()}
	}
	q, err := s.elicitation("1", req.Params)
	if err != nil {
		s.owner.log.Info("refused an elicitation of an MCP server", "server", s.owner.id(), "reason", err)
		text := "The user was not asked: " + s.owner.clean(err.Error(), 400)
		return nil, &jsonrpc.Error{Code: jsonrpc.CodeInvalidParams, Message: text}
	}
	response, err := a.elicit(ctx, q, number)
	if err != nil { // the call ended, was cancelled, or its time was up
		return &sdk.ElicitResult{Action: string(turn.ElicitationCancel)}, nil
	}
	return responseOf(response), nil
}

// elicitingCall returns the call to which an elicitation of the server belongs, and the elicitation's number within the
// call. It fails if no call or several calls are possible, or if the call has sent too many elicitations. If several
// are possible, it logs a warning for each of them, once per call.
func (s *session) elicitingCall() (a *attempt, number int, err error) {
	a, ambiguous, err := s.attempts.onlyCandidate()
	if err == nil {
		number = int(a.elicitations.Add(1))
		err = s.link.meter.countElicitation(number)
	}
	for _, candidate := range ambiguous {
		req := candidate.req
		s.owner.log.Warn("refused an elicitation of an MCP server; the user was not asked", "server", s.owner.id(),
			"tool", req.Tool, "session", req.Session, "turn", req.Turn, "call", req.CallID, "reason", err)
	}
	return a, number, err
}

// elicit passes an elicitation to the suspended call and returns the user's response. It waits until an attempt of the
// call receives the elicitation, after those before it, and then for the response. This time does not count against the
// call's timeout. elicit fails if ctx or the attempt ends first.
func (a *attempt) elicit(ctx context.Context, q turn.Elicitation, number int) (turn.ElicitationResponse, error) {
	defer a.deadline.hold()()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(a.waitCtx, cancel)()
	e := &pendingElicitation{
		Elicitation: q, number: number, response: make(chan turn.ElicitationResponse, 1), done: make(chan struct{}),
	}
	defer close(e.done)
	select {
	case a.suspended.elicitations <- e:
	case <-ctx.Done():
		return turn.ElicitationResponse{}, context.Cause(ctx)
	}
	select {
	case r := <-e.response:
		return r, nil
	case <-ctx.Done():
		return turn.ElicitationResponse{}, context.Cause(ctx)
	}
}

// responseOf converts a response to the SDK's type.
func responseOf(r turn.ElicitationResponse) *sdk.ElicitResult {
	out := &sdk.ElicitResult{Action: string(r.Action)}
	if r.Action == turn.ElicitationAccept && len(r.Content) > 0 {
		_ = json.Unmarshal(r.Content, &out.Content) // acceptResponses has parsed it before
	}
	return out
}

// callSuspendable starts a call that its server may suspend with an elicitation, or continues the suspended call that
// the continuation k names. It returns when the call has ended or sends its next elicitation. If ctx ends first, it
// cancels the call.
func (h *Host) callSuspendable(
	ctx context.Context, c *connector, req turn.ToolRequest, k continuation,
) (turn.ToolResult, error) {
	call := h.suspended.find(req, k)
	leave, ok := func() {}, false
	if call != nil {
		leave, ok = call.enter(&req)
	}
	switch {
	case ok: // the suspended call continues
	case k.Suspended != "" && !req.Repeatable: // the call was abandoned since resume found it
		return lostCall(req, connectionGone), nil
	default:
		if k.Suspended != "" { // a repeatable call that was abandoned begins again
			k = continuation{}
		}
		if call = h.startSuspendable(ctx, c, req, k); call == nil {
			return turn.ToolResult{}, notCalledError(req.Tool, errHostClosed)
		}
		leave, _ = call.enter(&req)
	}
	call.respond(k)
	result, err := call.wait(ctx)
	if result.Held {
		h.suspended.put(call)
	} else {
		h.suspended.remove(call)
		leave = call.release
	}
	// Until the caller has stored the result (req.Kept), the attempt stays a user of a suspended call, and the memory of
	// a final result stays reserved.
	if req.Kept == nil || !h.running.start(func() { awaitEither(req.Kept, c.ctx.Done()); leave() }) {
		leave()
	}
	return result, err
}

// startSuspendable starts a call in a goroutine of its own, which does not end with ctx, so that the call outlives the
// attempt that started it. Progress and late results go to the latest attempt. It returns nil if the host is closed.
func (h *Host) startSuspendable(ctx context.Context, c *connector, req turn.ToolRequest,
	k continuation) *suspendedCall {
	ctx, cancel := context.WithCancelCause(context.WithoutCancel(ctx))
	call := h.suspended.create(req, cancel)
	inner := req
	inner.Kept = call.kept
	if req.Progress != nil {
		inner.Progress = call.progress
	}
	if req.Late != nil {
		inner.Late = call.late
	}
	run := func() (turn.ToolResult, error) {
		return (&attempt{connector: c, req: inner, continuation: k, suspended: call}).run(ctx)
	}
	if !h.running.start(func() { call.run(c, req, run) }) {
		cancel(nil)
		return nil
	}
	return call
}

// run runs body, which makes the call, and records the call's result. If body panics, the outcome is unknown.
func (call *suspendedCall) run(c *connector, req turn.ToolRequest, body func() (turn.ToolResult, error)) {
	defer close(call.done)
	var panicked error
	defer func() {
		if panicked != nil {
			call.result, call.err = lostCall(req, panicked.Error()), nil
		}
	}()
	defer c.recoverPanic(req.Tool, &panicked)
	call.result, call.err = body()
}

// Await waits for a call that Call has suspended in this process: until the call has ended, its server has the response
// or no longer waits for it, or Await is called again for the same call. It returns at once if the host has no such
// call, or if the call waits for no response. If ctx is cancelled, Await cancels the call; if the deadline of ctx
// passes, it does not. A suspended call that no caller awaits or continues is cancelled after a minute.
func (h *Host) Await(ctx context.Context, turnID, callID string) {
	call := h.suspended.get(turnID + ":" + callID)
	if call == nil {
		return
	}
	e, replaced := call.watch()
	if e == nil {
		return
	}
	leave, ok := call.enter(nil)
	if !ok {
		return
	}
	defer leave()
	select {
	case <-call.done:
	case <-e.done:
	case <-replaced:
	case <-ctx.Done():
		if !timeIsUp(ctx) {
			call.cancel(context.Canceled)
			<-call.done
		}
	}
}

// lostCall returns the result of a call that was sent and whose response can no longer arrive: outcome unknown. why is
// the end of a sentence about the call.
func lostCall(req turn.ToolRequest, why string) turn.ToolResult {
	e := tool.Ending{Stage: tool.StageSent, By: tool.EndedByLoss, Repeatable: req.Repeatable}
	return tool.Unknown(req.Tool, e, why)
}

// connectionGone is the reason for lostCall if this process does not have the suspended call.
const connectionGone = "the connection on which its server waited for a response is gone"
