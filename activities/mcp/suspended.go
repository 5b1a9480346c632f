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

// suspendedCall is a call that its server may suspend with an elicitation in the middle of it. The call then outlives
// the attempt that started it: it runs in a goroutine of its own, and each attempt waits for its next elicitation or
// its end.
type suspendedCall struct {
	id           string                   // in the continuation
	key          string                   // see callKey
	elicitations chan *pendingElicitation // unbuffered: each waits until an attempt receives it
	done         chan struct{}            // closed when the call has ended
	result       turn.ToolResult          // set before done is closed
	err          error
	cancel       context.CancelCauseFunc
	kept         chan struct{} // closed when the attempt that received the result has stored it
	release      func()        // closes kept
	calls        *suspendedCalls

	mu           sync.Mutex
	caller       turn.ToolRequest    // the latest attempt
	pending      *pendingElicitation // an attempt has returned it, and no response has come
	replaced     chan struct{}       // closed when another Await waits for the call
	users        int                 // attempts and calls of Await that wait for the call
	abandonTimer *time.Timer         // runs while there are no users
	abandoned    bool                // the call was cancelled because it had no users; it takes none any more
}

// create returns a new call for the request, which no attempt can find before put. cancel cancels the call.
func (s *suspendedCalls) create(req turn.ToolRequest, cancel context.CancelCauseFunc) *suspendedCall {
	kept := make(chan struct{})
	return &suspendedCall{
		id: rand.Text(), key: callKey(req), elicitations: make(chan *pendingElicitation), done: make(chan struct{}),
		cancel: cancel, calls: s, kept: kept, caller: req, replaced: make(chan struct{}),
		release: sync.OnceFunc(func() { close(kept) }),
	}
}

// wait waits for the call's next elicitation, or for its end. It returns a result with the elicitation and a
// continuation, or the call's own result. An elicitation that an earlier attempt has returned, and that still waits for
// a response, is returned again at once. If ctx ends first, wait cancels the call and waits for its end.
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
	return k.toResult(k.Elicitations)
}

// unanswered returns the elicitation that an earlier attempt has returned, if the server still waits for the response.
// Otherwise it returns nil.
func (call *suspendedCall) unanswered() *pendingElicitation {
	call.mu.Lock()
	defer call.mu.Unlock()
	if call.pending == nil || isClosed(call.pending.done) || isClosed(call.done) {
		return nil
	}
	return call.pending
}

// respond passes the continuation's response to the server, if the continuation belongs to the pending elicitation. It
// does nothing otherwise, because the elicitation may have been answered, or its call may have been started again.
func (call *suspendedCall) respond(k continuation) {
	call.mu.Lock()
	defer call.mu.Unlock()
	if e := call.pending; e != nil && e.number == k.Round && k.Suspended == call.id && len(k.Responses) > 0 {
		e.response <- k.Responses[0] // it does not block: the channel has capacity 1, and pending is now cleared
		call.pending = nil
	}
}

// enter adds a user to the call, so that the call is not abandoned: an attempt with the request req, or a call of Await
// if req is nil. ok is false if the call was already abandoned. The user must call leave, which may be called twice.
func (call *suspendedCall) enter(req *turn.ToolRequest) (leave func(), ok bool) {
	call.mu.Lock()
	defer call.mu.Unlock()
	if call.abandoned {
		return func() {}, false
	}
	if req != nil {
		call.caller = *req
	}
	call.users++
	if call.abandonTimer != nil {
		call.abandonTimer.Stop()
	}
	return sync.OnceFunc(call.leave), true
}

// leave removes a user. If it was the last one, the call is abandoned after abandonAfter unless another user enters.
func (call *suspendedCall) leave() {
	call.mu.Lock()
	defer call.mu.Unlock()
	if call.users--; call.users > 0 {
		return
	}
	call.abandonTimer = time.AfterFunc(abandonAfter, call.abandonIfUnused)
}

// abandonIfUnused cancels and removes the call, unless it has a user again. The abandonTimer calls it.
func (call *suspendedCall) abandonIfUnused() {
	call.mu.Lock()
	call.abandoned = call.users == 0
	unused := call.abandoned
	call.mu.Unlock()
	if unused {
		call.cancel(context.Canceled)
		call.calls.remove(call)
		call.release()
	}
}

// watch returns the pending elicitation, or nil, and a channel that is closed when watch is called again. It closes the
// channel that the previous call has returned, so that only the latest caller continues to wait.
func (call *suspendedCall) watch() (*pendingElicitation, <-chan struct{}) {
	call.mu.Lock()
	defer call.mu.Unlock()
	close(call.replaced)
	call.replaced = make(chan struct{})
	return call.pending, call.replaced
}

// progress passes a progress report to the latest attempt.
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

// get returns the suspended call with this key, or nil.
func (s *suspendedCalls) get(key string) *suspendedCall {
	call, _ := s.m.Load(key)
	found, _ := call.(*suspendedCall)
	return found
}

// find returns the suspended call that the continuation of a request names, or nil if this host does not have it.
func (s *suspendedCalls) find(req turn.ToolRequest, k continuation) *suspendedCall {
	if call := s.get(callKey(req)); call != nil && call.id == k.Suspended {
		return call
	}
	return nil
}

func (s *suspendedCalls) put(call *suspendedCall)    { s.m.Store(call.key, call) }
func (s *suspendedCalls) remove(call *suspendedCall) { s.m.CompareAndDelete(call.key, call) }

// isClosed reports whether a channel on which nothing is sent is closed.
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
