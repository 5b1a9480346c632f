package mcp

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/everturn/everturn/activities/mcp/pool"
	"github.com/everturn/everturn/activities/tools/tool"
	"github.com/everturn/everturn/workflows/turn"
)

// The keys of a call's metadata. metaCallID carries "<turn>:<call>", the same for every attempt of a call, so that a
// server can tell a repetition from a new call.
const (
	metaCallID   = "everturn.dev/call"
	metaTenant   = "everturn.dev/tenant" // the tenant's name; absent for the default tenant
	metaProgress = "progressToken"       // defined by MCP
)

// reply holds the SDK's reply to a call.
type reply struct {
	result *sdk.CallToolResult
	input  *turn.ToolResult // the elicitations that the server sends instead of a result: see session.inputOf
	err    error
}

// attempt is one attempt of a call, in progress.
type attempt struct {
	connector    *connector
	req          turn.ToolRequest
	continuation continuation // of the earlier rounds of elicitations

	admission    *pool.Admission
	session      *session
	name         string    // the tool's name at the server
	freshSession bool      // the session was opened after the attempt was scheduled or admitted
	began        time.Time // for the duration
	token        string    // identifies the attempt in progress notifications

	waitCtx       context.Context // bounds the caller's wait for the result
	deadline      *callDeadline   // the deadline of waitCtx
	cancelWait    context.CancelFunc
	requestCtx    context.Context // bounds the request: derived from waitCtx, or outliving it if the call may detach
	cancelRequest context.CancelCauseFunc
	detachFor     time.Duration // how long the call may continue after its timeout; 0: not at all
	state         *callState
	refusal       *refusal     // how the server refused the call unread; nil: it did not, or the call has not ended
	replies       chan reply   // capacity 1: receives the reply even if the attempt no longer waits for it
	unhookHost    func()       // undoes the hook that ends the attempt when the host closes
	elicitations  atomic.Int32 // counts the elicitations that the server has sent in the middle of the call
	// ambiguityLogged means that a warning was logged because an elicitation may belong to this call or to another one.
	// The lock of the session's attempts guards it.
	ambiguityLogged bool

	mu           sync.Mutex
	reportedAt   time.Time // when progress was last reported
	progressOver bool      // no more progress is reported
}

// exchange sends the call, waits for the reply or the end of waitCtx, and returns the result. An error means that the
// call was not sent. At the timeout, a call that may detach continues in the background.
func (a *attempt) exchange(ctx context.Context, d turn.Descriptor) (turn.ToolResult, error) {
	a.begin(ctx, d)
	a.send()
	select {
	case r := <-a.replies:
		return a.finish(r)
	case <-a.waitCtx.Done():
	}
	select {
	case r := <-a.replies: // both channels were ready: a reply takes precedence over the deadline
		return a.finish(r)
	default:
	}
	if a.mayDetach() {
		if result, ok := a.detachCall(); ok {
			a.stopProgress()
			result.Duration = time.Since(a.began)
			return result, nil
		}
	}
	return a.finish(reply{err: a.waitCtx.Err()})
}

// begin sets the attempt's contexts and deadlines, and registers the attempt with the session, which delivers progress
// and elicitations to it.
func (a *attempt) begin(ctx context.Context, d turn.Descriptor) {
	a.began, a.token, a.replies, a.unhookHost = time.Now(), progressToken(a.req), make(chan reply, 1), func() {}
	timeout := tool.FirstOf(a.req.Timeout, d.Timeout, a.connector.describer.server.CallTimeout)
	a.waitCtx, a.deadline, a.cancelWait = withCallDeadline(ctx, timeout, max(a.req.TotalTimeout, d.TotalTimeout),
		a.req.Elicit != nil)
	if a.req.Late != nil {
		a.detachFor = a.connector.describer.settings[a.name].BackgroundTimeout
	}
	a.requestCtx, a.cancelRequest = context.WithCancelCause(a.waitCtx)
	if a.detachFor > 0 {
		// The request outlives the caller's wait if the timeout ends the wait, but not if the caller cancels the call.
		a.requestCtx, a.cancelRequest = context.WithCancelCause(context.WithoutCancel(ctx))
		context.AfterFunc(a.waitCtx, func() {
			if !timeIsUp(a.waitCtx) {
				a.cancelRequest(context.Cause(a.waitCtx))
			}
		})
	}
	a.session.attempts.add(a.token, a)
}

// send hands the request to the SDK and returns without waiting for the write: a write to a server that reads nothing
// ends only when the session does.
func (a *attempt) send() {
	ctx, state := newCallState(a.requestCtx)
	a.state = state
	// When the host closes, the request and the wait for its reply end.
	unhook := context.AfterFunc(a.connector.ctx, func() { a.cancelRequest(context.Canceled); a.cancelWait() })
	a.unhookHost = func() { unhook() }
	meta := sdk.Meta{metaCallID: callKey(a.req), metaProgress: a.token}
	if a.req.Tenant != "" {
		meta[metaTenant] = a.req.Tenant
	}
	addTraceContext(ctx, meta)
	go func() { a.replies <- a.request(ctx, meta) }()
}

// request sends the MCP request for the call and returns the SDK's reply: to tools/call, or to the request for
// resources or prompts that a stand-in sends. It turns a panic into the reply's error, because the SDK parses the
// server's response in this goroutine.
func (a *attempt) request(ctx context.Context, meta sdk.Meta) (r reply) {
	defer a.connector.recoverPanic(a.req.Tool, &r.err)
	if stand := a.session.standIn(a.name); stand != nil {
		r.result, r.err = stand(ctx, a.session, a.req.Arguments, meta)
	} else {
		params := &sdk.CallToolParams{Meta: meta, Name: a.name, Arguments: json.RawMessage(a.req.Arguments)}
		if len(a.req.Arguments) == 0 {
			params.Arguments = map[string]any{}
		}
		params.InputResponses, params.RequestState = a.continuation.responses(), a.continuation.State
		r.result, r.err = a.session.mcp.CallTool(ctx, params)
	}
	if r.err == nil {
		r.input = a.session.inputOf(r.result, a.continuation.Round)
	}
	return r
}

// finish ends the attempt and returns the call's result, or an error if the call was not sent.
func (a *attempt) finish(r reply) (turn.ToolResult, error) { return a.finishWith(a.ending(r), r) }

// finishWith is finish for a call whose ending the caller has determined.
func (a *attempt) finishWith(e tool.Ending, r reply) (turn.ToolResult, error) {
	result, err := a.conclude(e, r)
	a.stopProgress()
	a.cancelRequest(context.Canceled)
	a.cancelWait()
	a.unhookHost()
	a.state.reservation.releaseAfter(a.req.Kept)
	result.Duration = time.Since(a.began)
	return result, err
}

// stopProgress ends the delivery of progress and elicitations to the attempt. When it has returned, req.Progress is not
// called again.
func (a *attempt) stopProgress() {
	a.session.attempts.remove(a.token, a)
	a.mu.Lock()
	a.progressOver = true
	a.mu.Unlock()
}

// clean redacts a server's text, or an error about the server, and puts it on one line of at most limit bytes.
func (c *connector) clean(text string, limit int) string {
	return c.redact.line(text, limit)
}

// recycle replaces a server's process that may still be working on a call which the host no longer waits for. If the
// call's deadline has passed (timedOut), it replaces the process at once. Otherwise the call was cancelled, and the
// server has CancelGrace to answer, which shows that it has stopped. The other calls in flight may end first. recycle
// does nothing for a server without a local process.
func (s *session) recycle(state *callState, timedOut bool) {
	if !s.link.disposable {
		return
	}
	if timedOut {
		s.retire()
		return
	}
	s.owner.running.start(func() {
		timer := time.NewTimer(s.owner.opts.CancelGrace)
		defer timer.Stop()
		select {
		case <-state.answered:
		case <-s.lost:
		case <-s.owner.ctx.Done():
		case <-timer.C:
			s.owner.log.Info("replacing an MCP server that goes on with a cancelled call", "server", s.owner.id())
			s.retire()
		}
	})
}

// mayDetach reports whether the call may continue in the background although its caller stops waiting: the operator
// allows it, the caller takes a late result, the timeout has passed, the call was sent, and the host is not closed. If
// the first three hold, a call that was not sent yet can no longer be sent afterwards.
func (a *attempt) mayDetach() bool {
	wanted := a.detachFor > 0 && a.req.Late != nil && timeIsUp(a.waitCtx)
	return wanted && a.state.abandon() && a.connector.ctx.Err() == nil
}

// timeIsUp reports whether ctx ended because its deadline passed, not because it was cancelled.
func timeIsUp(ctx context.Context) bool {
	return errors.Is(context.Cause(ctx), context.DeadlineExceeded)
}

// detachCall lets the call continue in the background, and returns the result for its caller, with the outcome unknown.
// The call remains a user of its session, so that the session stays open until the call ends, detachFor has passed or
// the host closes. ok is false if the host is closed: the call then does not continue.
func (a *attempt) detachCall() (result turn.ToolResult, ok bool) {
	a.session.conn.Stay()
	if !a.connector.running.start(a.awaitDetached) {
		a.session.leave()
		return turn.ToolResult{}, false
	}
	class, _ := tool.Ending{Stage: tool.StageSent, By: tool.EndedByDeadline, Repeatable: a.req.Repeatable,
		Detached: true}.Class()
	r := tool.Error(fmt.Sprintf(
		"Outcome unknown: %s was called, and it did not answer in time. It continues in the background "+
			"for up to %s, and its result is reported when it ends. Do not call it again meanwhile.", a.req.Tool,
		a.detachFor.Round(time.Second)))
	r.Outcome, r.Detached = turn.Outcome(class), true
	return r, true
}

// awaitDetached waits for the end of a detached call. If the server answers, it passes the result to req.Late. If not,
// or if the host closes, it reports nothing, because the caller has already got the outcome unknown.
func (a *attempt) awaitDetached() {
	defer a.session.leave()
	kept := make(chan struct{})
	defer close(kept) // when Late has returned, so that a large result counts against the memory limit until then
	a.req.Kept = kept
	var unread error // recoverPanic logs it; the outcome that was reported still holds
	defer a.connector.recoverPanic(a.req.Tool, &unread)
	timer := time.NewTimer(a.detachFor)
	defer timer.Stop()
	var r reply
	select {
	case r = <-a.replies:
	case <-timer.C:
		r = a.lastReply(context.DeadlineExceeded)
	case <-a.connector.ctx.Done():
		r = a.lastReply(context.Canceled)
	}
	e := a.ending(r)
	result, err := a.finishWith(e, r)
	if result.Elicitations != nil {
		result = tool.Error("It requested input after its timeout, when no user could be asked. It did not continue.")
		result.Duration = time.Since(a.began)
	}
	if err == nil && e.Stage == tool.StageAnswered && a.connector.ctx.Err() == nil {
		a.req.Late(result)
	}
}

// lastReply returns the reply if it has just arrived, because a reply takes precedence over a deadline. Otherwise it
// cancels the request and returns cause as its error.
func (a *attempt) lastReply(cause error) reply {
	select {
	case r := <-a.replies:
		return r
	default:
	}
	a.cancelRequest(cause)
	return reply{err: cause}
}
