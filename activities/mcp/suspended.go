package mcp

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"sync"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/everturn/everturn/activities/tools/tool"
	"github.com/everturn/everturn/workflows/turn"
)

// abandonAfter is how long the host keeps a suspended call that no dispatch continues and no Await waits for.
const abandonAfter = time.Minute

// suspendedCall is a call that outlives its dispatch if its server sends an elicitation in the middle of it. Each
// dispatch waits for the call's next elicitation or its end.
type suspendedCall struct {
	id           string                   // in the continuation
	key          string                   // see callKey
	elicitations chan *pendingElicitation // unbuffered: a dispatch receives them one after the other
	done         chan struct{}            // closed when the call has ended
	result       turn.ToolResult          // set before done is closed
	err          error
	cancel       context.CancelCauseFunc
	kept         chan struct{} // closed when the dispatch that received the result has stored it
	release      func()        // closes kept
	calls        *suspendedCalls

	mu       sync.Mutex
	caller   turn.ToolRequest    // the latest dispatch
	pending  *pendingElicitation // a dispatch has returned it, and no response has come
	replaced chan struct{}       // closed when another Await waits for the call
	users    int                 // dispatches and Awaits
	abandon  *time.Timer         // runs while there are no users
	over     bool                // abandoned: there can be no more users
}

func (s *suspendedCalls) create(req turn.ToolRequest, cancel context.CancelCauseFunc) *suspendedCall {
	kept := make(chan struct{})
	return &suspendedCall{
		id: rand.Text(), key: callKey(req), elicitations: make(chan *pendingElicitation), done: make(chan struct{}),
		cancel: cancel, calls: s, kept: kept, caller: req, replaced: make(chan struct{}),
		release: sync.OnceFunc(func() { close(kept) }),
	}
}

// wait waits for the call's next elicitation or its end. If ctx ends first, so does the call.
func (call *suspendedCall) wait(ctx context.Context) (turn.ToolResult, error) {
	e := call.unanswered()
	if e == nil {
		select {
		case e = <-call.elicitations:
		case <-call.done:
			return call.result, call.err
		case <-ctx.Done():
			call.cancel(context.Cause(ctx))
			<-call.done
			return call.result, call.err
		}
	}
	call.mu.Lock()
	call.pending = e
	call.mu.Unlock()
	k := continuation{Version: 1, Round: e.number, Suspended: call.id, Elicitations: []turn.Elicitation{e.Elicitation}}
	return k.ask(k.Elicitations)
}

// unanswered returns the elicitation that a dispatch has returned, if its server still waits for the response.
func (call *suspendedCall) unanswered() *pendingElicitation {
	call.mu.Lock()
	defer call.mu.Unlock()
	if call.pending == nil || isClosed(call.pending.over) || isClosed(call.done) {
		return nil
	}
	return call.pending
}

// respond passes the response to the server, if the continuation is that of the pending elicitation.
func (call *suspendedCall) respond(k continuation) {
	call.mu.Lock()
	defer call.mu.Unlock()
	if e := call.pending; e != nil && e.number == k.Round && k.Suspended == call.id && len(k.Responses) > 0 {
		e.response <- k.Responses[0]
		call.pending = nil
	}
}

// enter adds a user to the call: a dispatch, or an Await if req is nil. It fails if the call was abandoned.
func (call *suspendedCall) enter(req *turn.ToolRequest) (leave func(), ok bool) {
	call.mu.Lock()
	defer call.mu.Unlock()
	if call.over {
		return func() {}, false
	}
	if req != nil {
		call.caller = *req
	}
	call.users++
	if call.abandon != nil {
		call.abandon.Stop()
	}
	return sync.OnceFunc(call.leave), true
}

func (call *suspendedCall) leave() {
	call.mu.Lock()
	defer call.mu.Unlock()
	if call.users--; call.users > 0 {
		return
	}
	call.abandon = time.AfterFunc(abandonAfter, call.end)
}

// end ends an abandoned call, unless it has a user again.
func (call *suspendedCall) end() {
	call.mu.Lock()
	call.over = call.users == 0
	over := call.over
	call.mu.Unlock()
	if over {
		call.cancel(context.Canceled)
		call.calls.remove(call)
		call.release()
	}
}

// watch returns the pending elicitation, and a channel that is closed when watch is called again.
func (call *suspendedCall) watch() (*pendingElicitation, <-chan struct{}) {
	call.mu.Lock()
	defer call.mu.Unlock()
	close(call.replaced)
	call.replaced = make(chan struct{})
	return call.pending, call.replaced
}

// progress passes a progress report to the dispatch that waits for the call.
func (call *suspendedCall) progress(p turn.ToolProgress) {
	call.mu.Lock()
	report := call.caller.Progress
	call.mu.Unlock()
	if report != nil {
		report(p)
	}
}

// late passes a late result to the latest dispatch.
func (call *suspendedCall) late(r turn.ToolResult) {
	call.mu.Lock()
	report := call.caller.Late
	call.mu.Unlock()
	if report != nil {
		report(r)
	}
}

// suspendedCalls holds the host's suspended calls by callKey.
type suspendedCalls struct{ m sync.Map }

func (s *suspendedCalls) get(key string) *suspendedCall {
	call, _ := s.m.Load(key)
	found, _ := call.(*suspendedCall)
	return found
}

// find returns the call that a continuation names, or nil.
func (s *suspendedCalls) find(req turn.ToolRequest, k continuation) *suspendedCall {
	if call := s.get(callKey(req)); call != nil && call.id == k.Suspended {
		return call
	}
	return nil
}

func (s *suspendedCalls) put(call *suspendedCall)    { s.m.Store(call.key, call) }
func (s *suspendedCalls) remove(call *suspendedCall) { s.m.CompareAndDelete(call.key, call) }

func isClosed(ch <-chan struct{}) bool {
	select {
	case <-ch:
		return true
	default:
		return false
	}
}

// awaitEither waits until one of the channels is closed.
func awaitEither(a, b <-chan struct{}) {
	select {
	case <-a:
	case <-b:
	}
}

// Servers of older protocols send an elicitation in the middle of a call and keep the call open until they have the
// response. They get the elicitation capability only if the operator allows it (Server.ElicitationTimeout). Host.Call
// then runs the call in a goroutine of its own (suspendedCall) and returns the elicitation like that of a newer server,
// with a continuation that names the open call. Only this process can continue the call.

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
	f, number, err := s.elicitingCall()
	if err != nil {
		return nil, &jsonrpc.Error{Code: jsonrpc.CodeInternalError, Message: "The user was not asked: " + err.Error()}
	}
	q, err := s.elicitation("1", req.Params)
	if err != nil {
		s.owner.log.Info("refused an elicitation of an MCP server", "server", s.owner.id(), "reason", err)
		text := "The user was not asked: " + s.owner.clean(err.Error(), 400)
		return nil, &jsonrpc.Error{Code: jsonrpc.CodeInvalidParams, Message: text}
	}
	response, err := f.elicit(ctx, q, number)
	if err != nil {
		return &sdk.ElicitResult{Action: string(turn.ElicitationCancel)}, nil
	}
	return responseOf(response), nil
}

// elicitingCall returns the call that the server's elicitation belongs to, and the elicitation's number. If that is
// ambiguous, it logs one warning for each of the calls in doubt.
func (s *session) elicitingCall() (f *dispatch, number int, err error) {
	f, doubted, err := s.dispatches.onlySuspendable()
	if err == nil {
		number = int(f.elicitations.Add(1))
		err = s.link.meter.elicited(number)
	}
	for _, d := range doubted {
		s.owner.log.Warn("refused an elicitation of an MCP server; the user was not asked", "server", s.owner.id(),
			"tool", d.req.Tool, "session", d.req.Session, "turn", d.req.Turn, "call", d.req.CallID, "reason", err)
	}
	return f, number, err
}

// elicit waits until a dispatch returns the elicitation, and then for the response. The call's clock stands still
// meanwhile. A call takes its elicitations one after the other.
func (f *dispatch) elicit(ctx context.Context, q turn.Elicitation, number int) (turn.ElicitationResponse, error) {
	defer f.deadline.hold()()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(f.waiting, cancel)()
	e := &pendingElicitation{
		Elicitation: q, number: number, response: make(chan turn.ElicitationResponse, 1), over: make(chan struct{}),
	}
	defer close(e.over)
	select {
	case f.suspended.elicitations <- e:
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
		return (&dispatch{c: c, req: own, continuation: k, suspended: call}).run(ctx)
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
