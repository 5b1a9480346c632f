package mcp

import (
	"context"
	"encoding/json"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/everturn/everturn/activities/tools/tool"
	"github.com/everturn/everturn/workflows/turn"
)

// pendingElicitation is an elicitation whose server keeps its call open.
type pendingElicitation struct {
	turn.Elicitation
	number   int                           // counts the call's elicitations from 1
	response chan turn.ElicitationResponse // capacity 1; written once
	over     chan struct{}                 // closed when the server has the response or no longer waits for one
}

// elicited is the handler of elicitation/create. The protocol does not say which call a request belongs to: if several
// calls are possible, the server gets an error and no user is asked. "Cancel" would claim that a user had cancelled.
func (s *session) elicited(ctx context.Context, req *sdk.ElicitRequest) (*sdk.ElicitResult, error) {
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
	if err != nil {
		return &sdk.ElicitResult{Action: string(turn.ElicitationCancel)}, nil
	}
	return responseOf(response), nil
}

// elicitingCall returns the call that the server's elicitation belongs to, and the elicitation's number. If that is
// ambiguous, it logs one warning for each of the calls in doubt.
func (s *session) elicitingCall() (a *attempt, number int, err error) {
	a, doubted, err := s.attempts.onlySuspendable()
	if err == nil {
		number = int(a.elicitations.Add(1))
		err = s.link.meter.elicited(number)
	}
	for _, d := range doubted {
		s.owner.log.Warn("refused an elicitation of an MCP server; the user was not asked", "server", s.owner.id(),
			"tool", d.req.Tool, "session", d.req.Session, "turn", d.req.Turn, "call", d.req.CallID, "reason", err)
	}
	return a, number, err
}

// elicit waits until an attempt returns the elicitation, and then for the response. The call's clock stands still
// meanwhile. A call takes its elicitations one after the other.
func (a *attempt) elicit(ctx context.Context, q turn.Elicitation, number int) (turn.ElicitationResponse, error) {
	defer a.deadline.hold()()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(a.waiting, cancel)()
	e := &pendingElicitation{
		Elicitation: q, number: number, response: make(chan turn.ElicitationResponse, 1), over: make(chan struct{}),
	}
	defer close(e.over)
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

// responseOf returns a response in the protocol's form.
func responseOf(r turn.ElicitationResponse) *sdk.ElicitResult {
	out := &sdk.ElicitResult{Action: string(r.Action)}
	if r.Action == turn.ElicitationAccept && len(r.Content) > 0 {
		_ = json.Unmarshal(r.Content, &out.Content) // accept has parsed it before
	}
	return out
}

// callSuspendable runs a call that its server may suspend with an elicitation, or continues one.
func (h *Host) callSuspendable(
	ctx context.Context, c *connector, req turn.ToolRequest, k continuation,
) (turn.ToolResult, error) {
	call := h.suspended.find(req, k)
	over, ok := func() {}, false
	if call != nil {
		over, ok = call.enter(&req)
	}
	switch {
	case ok:
	case k.Suspended != "" && !req.Repeatable: // the call was abandoned since resume found it
		return lostCall(req, gone), nil
	default:
		if k.Suspended != "" {
			k = continuation{}
		}
		if call = h.startSuspendable(ctx, c, req, k); call == nil {
			return turn.ToolResult{}, notCalledError(req.Tool, errHostClosed)
		}
		over, _ = call.enter(&req)
	}
	call.respond(k)
	result, err := call.wait(ctx)
	if result.Held {
		h.suspended.put(call)
	} else {
		h.suspended.remove(call)
		over = call.release
	}
	if req.Kept == nil || !h.running.start(func() { awaitEither(req.Kept, c.ctx.Done()); over() }) {
		over()
	}
	return result, err
}

// startSuspendable starts a call in a goroutine of its own, which outlives ctx while the call is suspended. It returns
// nil if the host is closed.
func (h *Host) startSuspendable(ctx context.Context, c *connector, req turn.ToolRequest,
	k continuation) *suspendedCall {
	ctx, cancel := context.WithCancelCause(context.WithoutCancel(ctx))
	call := h.suspended.create(req, cancel)
	own := req
	own.Kept = call.kept
	if req.Progress != nil {
		own.Progress = call.progress
	}
	if req.Late != nil {
		own.Late = call.late
	}
	run := func() (turn.ToolResult, error) {
		return (&attempt{c: c, req: own, continuation: k, suspended: call}).run(ctx)
	}
	if !h.running.start(func() { call.run(c, req, run) }) {
		cancel(nil)
		return nil
	}
	return call
}

// run runs the call. A panic ends it as unknown.
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

// Await waits for a call that Call has suspended in this process. It returns when the call has ended, when its server
// has the response or no longer waits for one, or when Await is called again for the same call. If ctx is cancelled,
// the call is cancelled too; if the deadline of ctx passes, the call is not. A suspended call that no caller awaits or
// continues is cancelled after a minute.
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
	case <-e.over:
	case <-replaced:
	case <-ctx.Done():
		if !timeIsUp(ctx) {
			call.cancel(context.Canceled)
			<-call.done
		}
	}
}

// lostCall returns the result of a call that was sent and can get no response.
func lostCall(req turn.ToolRequest, why string) turn.ToolResult {
	e := tool.Ending{Stage: tool.StageSent, By: tool.EndedByLoss, Repeatable: req.Repeatable}
	return tool.Unknown(req.Tool, e, why)
}

// gone is why a call is lost whose suspendedCall is not in this process.
const gone = "the connection on which its server waited for a response is gone"
