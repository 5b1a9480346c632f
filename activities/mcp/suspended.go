package mcp

import (
	"context"
	"crypto/rand"
	"sync"
	"time"

	"github.com/everturn/everturn/workflows/turn"
)

// abandonAfter is how long the host keeps a suspended call that no attempt continues and no Await waits for.
const abandonAfter = time.Minute

// suspendedCall is a call that outlives its attempt if its server sends an elicitation in the middle of it. Each
// attempt waits for the call's next elicitation or its end.
type suspendedCall struct {
	id           string                   // in the continuation
	key          string                   // see callKey
	elicitations chan *pendingElicitation // unbuffered: an attempt receives them one after the other
	done         chan struct{}            // closed when the call has ended
	result       turn.ToolResult          // set before done is closed
	err          error
	cancel       context.CancelCauseFunc
	kept         chan struct{} // closed when the attempt that received the result has stored it
	release      func()        // closes kept
	calls        *suspendedCalls

	mu       sync.Mutex
	caller   turn.ToolRequest    // the latest attempt
	pending  *pendingElicitation // an attempt has returned it, and no response has come
	replaced chan struct{}       // closed when another Await waits for the call
	users    int                 // attempts and Awaits
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

// unanswered returns the elicitation that an attempt has returned, if its server still waits for the response.
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

// enter adds a user to the call: an attempt, or an Await if req is nil. It fails if the call was abandoned.
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

// progress passes a progress report to the attempt that waits for the call.
func (call *suspendedCall) progress(p turn.ToolProgress) {
	call.mu.Lock()
	report := call.caller.Progress
	call.mu.Unlock()
	if report != nil {
		report(p)
	}
}

// late passes a late result to the latest attempt.
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
