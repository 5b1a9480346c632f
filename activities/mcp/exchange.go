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

// reply is what the SDK returned for a call.
type reply struct {
	result *sdk.CallToolResult
	input  *turn.ToolResult // what the server requests before it acts: see session.inputOf
	err    error
}

// attempt is one attempt of a call, in progress.
type attempt struct {
	c            *connector
	req          turn.ToolRequest
	continuation continuation   // of the earlier rounds of elicitations
	suspended    *suspendedCall // nil: the call cannot be suspended

	admission *pool.Admission
	s         *session
	name      string    // the tool's name at the server
	fresh     bool      // the session was opened after the attempt began
	began     time.Time // for the duration
	token     string

	waiting          context.Context // the caller's wait for the result
	deadline         *callDeadline   // the deadline of waiting
	stop             context.CancelFunc
	wire             context.Context // of the request: derived from waiting, or outliving it if the call may detach
	endWire          context.CancelCauseFunc
	detach           time.Duration // how long the call may continue after its timeout; 0: not at all
	state            *callState
	replies          chan reply
	stopWatchingConn func()
	elicitations     atomic.Int32 // that the server has sent in the middle of the call
	// a warning was logged that an elicitation may be another call's; the session's attempts share it
	doubted bool

	mu         sync.Mutex
	reportedAt time.Time // when progress was last reported
	over       bool      // no more progress is reported
}

// exchange sends the request and returns how it ended.
func (a *attempt) exchange(ctx context.Context, d turn.Descriptor) (turn.ToolResult, error) {
	a.begin(ctx, d)
	a.send()
	select {
	case r := <-a.replies:
		return a.finish(r)
	case <-a.waiting.Done():
	}
	select {
	case r := <-a.replies: // both were ready, and an answer takes precedence over a deadline
		return a.finish(r)
	default:
	}
	if a.detaches() {
		if result, gone := a.detachCall(); gone {
			a.stopProgress()
			result.Duration = time.Since(a.began)
			return result, nil
		}
	}
	return a.finish(reply{err: a.waiting.Err()})
}

// begin sets the deadlines of the exchange and makes the attempt known to the session.
func (a *attempt) begin(ctx context.Context, d turn.Descriptor) {
	a.began, a.token, a.replies, a.stopWatchingConn = time.Now(), progressToken(a.req), make(chan reply, 1), func() {}
	a.waiting, a.deadline, a.stop = wait(ctx, tool.FirstOf(a.req.Timeout, d.Timeout, a.c.describer.server.CallTimeout),
		max(a.req.TotalTimeout, d.TotalTimeout), a.suspended != nil)
	if a.req.Late != nil {
		a.detach = a.c.describer.settings[a.name].BackgroundTimeout
	}
	a.wire, a.endWire = context.WithCancelCause(a.waiting)
	if a.detach > 0 {
		a.wire, a.endWire = context.WithCancelCause(context.WithoutCancel(ctx))
		context.AfterFunc(a.waiting, func() {
			if !timeIsUp(a.waiting) {
				a.endWire(context.Cause(a.waiting))
			}
		})
	}
	a.s.attempts.add(a.token, a)
}

// send hands the request to the SDK and returns without waiting for the write: a write to a server that reads nothing
// ends only when the session does.
func (a *attempt) send() {
	ctx, state := newCallState(a.wire)
	a.state = state
	// When the connection ends, so do the request on the wire and the call that waits for it.
	unhook := context.AfterFunc(a.c.ctx, func() { a.endWire(context.Canceled); a.stop() })
	a.stopWatchingConn = func() { unhook() }
	meta := sdk.Meta{metaCallID: callKey(a.req), metaProgress: a.token}
	if a.req.Tenant != "" {
		meta[metaTenant] = a.req.Tenant
	}
	addTraceContext(ctx, meta)
	go func() { a.replies <- a.callTool(ctx, meta) }()
}

// callTool sends the request and returns the SDK's reply. It recovers from panics, because part of it parses what the
// server sent.
func (a *attempt) callTool(ctx context.Context, meta sdk.Meta) (r reply) {
	defer a.c.recoverPanic(a.req.Tool, &r.err)
	if r.result, r.err = a.request(ctx, meta); r.err == nil {
		r.input = a.s.inputOf(r.result, a.continuation.Round)
	}
	return r
}

// request sends the request that carries the call: the tool's own, or the one that an offered tool stands for.
func (a *attempt) request(ctx context.Context, meta sdk.Meta) (*sdk.CallToolResult, error) {
	if stand := a.s.standIn(a.name); stand != nil {
		return stand(ctx, a.s, a.req.Arguments, meta)
	}
	params := &sdk.CallToolParams{Meta: meta, Name: a.name, Arguments: json.RawMessage(a.req.Arguments)}
	if len(a.req.Arguments) == 0 {
		params.Arguments = map[string]any{}
	}
	params.InputResponses, params.RequestState = a.continuation.responses(), a.continuation.State
	return a.s.mcp.CallTool(ctx, params)
}

// finish ends the attempt and returns the result of the call.
func (a *attempt) finish(r reply) (turn.ToolResult, error) { return a.finishAs(a.ending(r), r) }

// finishAs is finish for a call whose ending is known.
func (a *attempt) finishAs(e tool.Ending, r reply) (turn.ToolResult, error) {
	result, err := a.conclude(e, r)
	a.stopProgress()
	a.endWire(context.Canceled)
	a.stop()
	a.stopWatchingConn()
	a.state.share.endAfter(a.req.Kept)
	result.Duration = time.Since(a.began)
	return result, err
}

// stopProgress stops progress reports for the attempt.
func (a *attempt) stopProgress() {
	a.s.attempts.remove(a.token, a)
	a.mu.Lock()
	a.over = true
	a.mu.Unlock()
}

// clean redacts a server's text, or an error about the server, and bounds it for display.
func (c *connector) clean(text string, limit int) string {
	return c.redact.line(text, limit)
}

// recycle ensures that a server does not continue a call that the host gave up on. After a deadline it replaces the
// process at once; after a cancellation the server first has CancelGrace to answer, which shows that it stopped. Other
// calls in flight end first, by their own deadlines.
func (s *session) recycle(st *callState, late bool) {
	if !s.link.disposable {
		return
	}
	if late {
		s.retire()
		return
	}
	s.owner.running.start(func() {
		timer := time.NewTimer(s.owner.opts.CancelGrace)
		defer timer.Stop()
		select {
		case <-st.answered:
		case <-s.lost:
		case <-s.owner.ctx.Done():
		case <-timer.C:
			s.owner.log.Info("replacing an MCP server that goes on with a cancelled call", "server", s.owner.id())
			s.retire()
		}
	})
}

// detaches reports whether the call continues although its caller no longer waits for it: its timeout has passed, its
// tool may detach, and the caller wants a late result.
func (a *attempt) detaches() bool {
	return a.detach > 0 && a.req.Late != nil && timeIsUp(a.waiting) && a.state.abandon() && a.c.ctx.Err() == nil
}

func timeIsUp(ctx context.Context) bool {
	return errors.Is(context.Cause(ctx), context.DeadlineExceeded)
}

// detachCall lets the call continue in the background. The call remains a user of its session, which is therefore
// neither evicted nor recycled until the call ends, its detach time is over or the host closes.
func (a *attempt) detachCall() (turn.ToolResult, bool) {
	a.s.conn.Stay()
	if !a.c.running.start(a.awaitDetached) {
		a.s.leave()
		return turn.ToolResult{}, false
	}
	class, _ := tool.Ending{Stage: tool.StageSent, By: tool.EndedByDeadline, Repeatable: a.req.Repeatable,
		Detached: true}.Class()
	r := tool.Error(fmt.Sprintf(
		"Outcome unknown: %s was called, and it did not answer in time. It continues in the background "+
			"for up to %s, and its result is reported when it ends. Do not call it again meanwhile.", a.req.Tool,
		a.detach.Round(time.Second)))
	r.Outcome, r.Detached = turn.Outcome(class), true
	return r, true
}

// awaitDetached waits for the end of a detached call. It reports only an answer: without one, the outcome that the
// caller already has remains true.
func (a *attempt) awaitDetached() {
	defer a.s.leave()
	kept := make(chan struct{})
	defer close(kept)
	a.req.Kept = kept
	var unread error // only logged; the outcome already reported still holds
	defer a.c.recoverPanic(a.req.Tool, &unread)
	timer := time.NewTimer(a.detach)
	defer timer.Stop()
	var r reply
	select {
	case r = <-a.replies:
	case <-timer.C:
		r = a.lastReply(context.DeadlineExceeded)
	case <-a.c.ctx.Done():
		r = a.lastReply(context.Canceled)
	}
	e := a.ending(r)
	result, err := a.finishAs(e, r)
	if result.Elicitations != nil {
		result = tool.Error("It requested input after its timeout, when no user could be asked. It did not continue.")
		result.Duration = time.Since(a.began)
	}
	if err == nil && e.Stage == tool.StageAnswered && a.c.ctx.Err() == nil {
		a.req.Late(result)
	}
}

// lastReply returns the reply that has arrived, if any, because an answer takes precedence over a deadline.
// Otherwise it cancels the request.
func (a *attempt) lastReply(cause error) reply {
	select {
	case r := <-a.replies:
		return r
	default:
	}
	a.endWire(cause)
	return reply{err: cause}
}
