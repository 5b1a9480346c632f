package mcp

import (
	"context"
	"encoding/json"
	"sync"
	"sync/atomic"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/everturn/everturn/activities/tools/tool"
	"github.com/everturn/everturn/workflows/turn"
)

// The keys of a call's metadata. metaCallID carries "<turn>:<call>", the same for every dispatch of a call, so that a
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

// ongoing is what a call already has when it is sent: the continuation of an earlier round, and the suspendedCall that
// carries it, if its server may suspend it.
type ongoing struct {
	continuation
	suspended *suspendedCall
}

// dispatch is one dispatch of a call, in progress.
type dispatch struct {
	s     *session
	req   turn.ToolRequest
	name  string    // the tool's name at the server
	round int       // the number of earlier rounds of elicitations
	fresh bool      // the session was opened after the call was dispatched
	began time.Time // for the duration
	token string

	waiting      context.Context // the caller's wait for the result
	deadline     *callDeadline   // the deadline of waiting
	stop         context.CancelFunc
	wire         context.Context // of the request: derived from waiting, or outliving it if the call may detach
	endWire      context.CancelCauseFunc
	detach       time.Duration // how long the call may continue after its timeout; 0: not at all
	state        *callState
	replies      chan reply
	forget       func()
	suspended    *suspendedCall // nil: the call cannot be suspended
	elicitations atomic.Int32   // that the server has sent in the middle of the call
	// a warning was logged that an elicitation may be another call's; guarded by the session's flights
	doubted bool

	mu         sync.Mutex
	reportedAt time.Time // when progress was last reported
	over       bool      // no more progress is reported
}

// call sends the request and returns how it ended. fresh: the session was opened after the call was dispatched.
func (s *session) call(ctx context.Context, req turn.ToolRequest, o ongoing, d turn.Descriptor, name string,
	fresh bool) (turn.ToolResult, error) {
	f := s.newDispatch(ctx, req, o, d, name)
	f.fresh = fresh
	f.send(o.continuation)
	select {
	case r := <-f.replies:
		return f.finish(r)
	case <-f.waiting.Done():
	}
	select {
	case r := <-f.replies: // both were ready, and an answer takes precedence over a deadline
		return f.finish(r)
	default:
	}
	if f.detaches() {
		if result, gone := f.detachCall(); gone {
			f.stopProgress()
			result.Duration = time.Since(f.began)
			return result, nil
		}
	}
	return f.finish(reply{err: f.waiting.Err()})
}

// newDispatch creates the flight of a request.
func (s *session) newDispatch(ctx context.Context, req turn.ToolRequest, o ongoing, d turn.Descriptor,
	name string) *dispatch {
	f := &dispatch{
		s: s, req: req, name: name, round: o.Round, suspended: o.suspended,
		began: time.Now(), token: progressToken(req), replies: make(chan reply, 1), forget: func() {},
	}
	f.waiting, f.deadline, f.stop = s.wait(ctx, tool.FirstOf(req.Timeout, d.Timeout, s.owner.describer.server.CallTimeout),
		max(req.TotalTimeout, d.TotalTimeout), o.suspended != nil)
	if req.Late != nil {
		f.detach = s.owner.describer.settings[name].BackgroundTimeout
	}
	f.wire, f.endWire = context.WithCancelCause(f.waiting)
	if f.detach > 0 {
		f.wire, f.endWire = context.WithCancelCause(context.WithoutCancel(ctx))
		context.AfterFunc(f.waiting, func() {
			if !timeIsUp(f.waiting) {
				f.endWire(context.Cause(f.waiting))
			}
		})
	}
	s.dispatches.add(f.token, f)
	return f
}

// send hands the request to the SDK and returns without waiting for the write: a write to a server that reads nothing
// ends only when the session does.
func (f *dispatch) send(c continuation) {
	ctx, state := newCallState(f.wire)
	f.state = state
	unhook := context.AfterFunc(f.s.owner.ctx, func() { f.endWire(context.Canceled); f.stop() })
	f.forget = func() { unhook() }
	meta := sdk.Meta{metaCallID: callKey(f.req), metaProgress: f.token}
	if f.req.Tenant != "" {
		meta[metaTenant] = f.req.Tenant
	}
	exchange := f.s.exchange(f.req, f.name, c, meta)
	go func() { f.replies <- f.exchanged(ctx, exchange) }()
}

// exchanged runs the exchange and returns the SDK's reply. It recovers from panics, because part of it parses what the
// server sent.
func (f *dispatch) exchanged(ctx context.Context,
	exchange func(context.Context) (*sdk.CallToolResult, error)) (r reply) {
	defer f.s.owner.recoverPanic(f.req.Tool, &r.err)
	if r.result, r.err = exchange(ctx); r.err == nil {
		r.input = f.s.inputOf(r.result, f.round)
	}
	return r
}

// exchange returns the request that carries the call: the tool's own, or the one that an offered tool stands for.
func (s *session) exchange(req turn.ToolRequest, name string, c continuation,
	meta sdk.Meta) func(context.Context) (*sdk.CallToolResult, error) {
	if stand := s.standIn(name); stand != nil {
		return func(ctx context.Context) (*sdk.CallToolResult, error) { return stand(ctx, s, req.Arguments, meta) }
	}
	params := &sdk.CallToolParams{Meta: meta, Name: name, Arguments: json.RawMessage(req.Arguments)}
	if len(req.Arguments) == 0 {
		params.Arguments = map[string]any{}
	}
	params.InputResponses, params.RequestState = c.responses(), c.State
	return func(ctx context.Context) (*sdk.CallToolResult, error) { return s.mcp.CallTool(ctx, params) }
}

// finish ends the flight and returns the result of the call.
func (f *dispatch) finish(r reply) (turn.ToolResult, error) { return f.finishAs(f.ending(r), r) }

// finishAs is finish for a call whose ending is known.
func (f *dispatch) finishAs(e tool.Ending, r reply) (turn.ToolResult, error) {
	result, err := f.conclude(e, r)
	f.stopProgress()
	f.endWire(context.Canceled)
	f.stop()
	f.forget()
	f.state.share.endAfter(f.req.Kept)
	result.Duration = time.Since(f.began)
	return result, err
}

// stopProgress stops progress reports for the flight.
func (f *dispatch) stopProgress() {
	f.s.dispatches.remove(f.token, f)
	f.mu.Lock()
	f.over = true
	f.mu.Unlock()
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
