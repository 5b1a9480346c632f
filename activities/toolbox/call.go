package toolbox

import (
	"context"
	"encoding/json"
	"sync"
	"sync/atomic"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/everturn/everturn/workflows/turn"
)

// The keys of a call's metadata. metaCallID carries "<turn>:<call>", the same for every dispatch of a call, so that a
// server which wants to can tell a repetition from a new call.
const (
	metaCallID   = "everturn.dev/call"
	metaTenant   = "everturn.dev/tenant" // the tenant's name; left out where there is none
	metaProgress = "progressToken"       // the protocol's own
)

// reply is what the SDK made of a call.
type reply struct {
	result *mcp.CallToolResult
	err    error
}

// flight is one dispatch of a call, under way.
type flight struct {
	s     *session
	req   turn.ToolRequest
	name  string    // the server's own name of the tool
	round int       // how often the server has asked for something before
	fresh bool      // the session was opened after the call was dispatched
	began time.Time // for the duration
	token string

	waiting   context.Context // of who waits for the result
	patience  *patience       // of the same
	stop      context.CancelFunc
	wire      context.Context // of the request: waiting, or what outlives it
	endWire   context.CancelCauseFunc
	detach    time.Duration // how long it may go on by itself; 0: not at all
	state     *callState
	replies   chan reply
	local     *localCall
	forget    func()
	questions atomic.Int32 // that its server has asked while it holds the call
	doubted   bool         // it was told that a question may be this call's or another's; the session's flights guard it

	mu   sync.Mutex
	told time.Time // when progress was last told
	over bool      // and none is told any more
}

// call sends the request and says how it ended. fresh: the session was opened after the call was dispatched.
func (s *session) call(ctx context.Context, req turn.ToolRequest, d turn.Descriptor, name string, fresh bool) (turn.ToolResult, error) {
	c, asked := resume(req)
	if asked != nil {
		return *asked, nil
	}
	f := s.depart(ctx, req, d, name)
	f.round, f.fresh = c.Round, fresh
	f.send(c)
	select {
	case r := <-f.replies:
		return f.finish(r)
	case <-f.waiting.Done():
	}
	select {
	case r := <-f.replies: // both were ready: an answer is worth more than a deadline
		return f.finish(r)
	default:
	}
	if f.detaches() {
		if result, gone := f.goOn(); gone {
			f.quiet()
			result.Duration = time.Since(f.began)
			return result, nil
		}
	}
	return f.finish(reply{err: f.waiting.Err()})
}

// depart makes a flight of a request.
func (s *session) depart(ctx context.Context, req turn.ToolRequest, d turn.Descriptor, name string) *flight {
	f := &flight{s: s, req: req, name: name, began: time.Now(), token: progressToken(req), replies: make(chan reply, 1), forget: func() {}}
	held := s.owner.describer.server.HoldQuestions > 0 && req.Hold != nil
	f.waiting, f.patience, f.stop = s.wait(ctx, s.timeout(req, d), max(req.TotalTimeout, d.TotalTimeout), held)
	if req.Late != nil {
		f.detach = s.settings(name).Detach
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
	s.flights.add(f.token, f)
	return f
}

func (s *session) timeout(req turn.ToolRequest, d turn.Descriptor) time.Duration {
	switch {
	case req.Timeout > 0:
		return req.Timeout
	case d.Timeout > 0:
		return d.Timeout
	}
	return s.owner.describer.server.CallTimeout
}

// settings are the operator's, or the local tool's author's, for a tool by its own name.
func (s *session) settings(name string) ToolSettings {
	if s.owner.local != nil {
		return s.owner.local.settings()[name]
	}
	return s.owner.describer.settings[name]
}

// send hands the request to the SDK and waits no longer than the flight's context lasts: writing to a server that reads
// nothing does not end by itself, but only when the session does.
func (f *flight) send(c continuation) {
	ctx, state := newCallState(f.wire)
	f.state = state
	unhook := context.AfterFunc(f.s.owner.ctx, func() { f.endWire(context.Canceled); f.stop() })
	meta := mcp.Meta{metaCallID: callKey(f.req), metaProgress: f.token}
	if f.req.Tenant != "" {
		meta[metaTenant] = f.req.Tenant
	}
	forget := func() {}
	if local := f.s.owner.local; local != nil {
		f.local, forget = local.open(f.wire, f.req, meta)
	}
	f.forget = func() { unhook(); forget() }
	exchange := f.s.exchange(f.req, f.name, c, meta)
	go func() { f.replies <- f.exchanged(ctx, exchange) }()
}

// exchanged is what the SDK makes of the request. It is carried out here, because some of it reads what the server said.
func (f *flight) exchanged(ctx context.Context, exchange func(context.Context) (*mcp.CallToolResult, error)) (r reply) {
	defer f.s.owner.survive(f.req.Tool, &r.err)
	r.result, r.err = exchange(ctx)
	return r
}

// exchange is the request that carries the call: the tool's own, or the one that an offered tool stands for.
func (s *session) exchange(req turn.ToolRequest, name string, c continuation, meta mcp.Meta) func(context.Context) (*mcp.CallToolResult, error) {
	if stand := s.standIn(name); stand != nil {
		return func(ctx context.Context) (*mcp.CallToolResult, error) { return stand(ctx, s, req.Arguments, meta) }
	}
	params := &mcp.CallToolParams{Meta: meta, Name: name, Arguments: json.RawMessage(req.Arguments)}
	if len(req.Arguments) == 0 {
		params.Arguments = map[string]any{}
	}
	params.InputResponses, params.RequestState = c.responses(), c.State
	return func(ctx context.Context) (*mcp.CallToolResult, error) { return s.mcp.CallTool(ctx, params) }
}

// finish ends the flight and says what it came to.
func (f *flight) finish(r reply) (turn.ToolResult, error) {
	result, err := f.conclude(r)
	f.quiet()
	f.endWire(context.Canceled)
	f.stop()
	f.forget()
	if f.local != nil {
		f.noteLocal(&result)
	}
	f.state.share.endAfter(f.req.Kept)
	result.Duration = time.Since(f.began)
	return result, err
}

// quiet lets nothing more be told of the flight's progress.
func (f *flight) quiet() {
	f.s.flights.remove(f.token, f)
	f.mu.Lock()
	f.over = true
	f.mu.Unlock()
}

// clean makes the words of a server, or of an error about it, fit to be shown.
func (c *connector) clean(text string, limit int) string {
	return c.redact.line(text, limit)
}

// recycle sees to it that a server does not go on with a call that was given up. After a deadline its process is
// replaced at once; after a cancellation it has a moment to answer, which says that it stopped. Other calls in flight
// end first, under their own deadlines.
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

func (f *flight) noteLocal(r *turn.ToolResult) {
	size, bug := f.s.owner.local.after(f.local)
	if size > r.SizeBytes && r.Outcome == turn.OutcomeOK {
		r.SizeBytes = size
	}
	if bug != "" {
		f.s.owner.log.Error("a local tool panicked", "tool", f.req.Tool, "turn", f.req.Turn, "call", f.req.CallID, "stack", bug)
	}
}
