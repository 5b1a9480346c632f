package mcp

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/everturn/everturn/activities/mcp/pool"
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

// dispatch is one dispatch of a call, in progress.
type dispatch struct {
	c            *connector
	req          turn.ToolRequest
	continuation continuation   // of the earlier rounds of elicitations
	suspended    *suspendedCall // nil: the call cannot be suspended

	admission *pool.Admission
	s         *session
	name      string    // the tool's name at the server
	fresh     bool      // the session was opened after the call was dispatched
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
	// a warning was logged that an elicitation may be another call's; guarded by the session's dispatches
	doubted bool

	mu         sync.Mutex
	reportedAt time.Time // when progress was last reported
	over       bool      // no more progress is reported
}

// exchange sends the request and returns how it ended.
func (f *dispatch) exchange(ctx context.Context, d turn.Descriptor) (turn.ToolResult, error) {
	f.begin(ctx, d)
	f.send()
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

// begin sets the deadlines of the exchange and makes the dispatch known to the session.
func (f *dispatch) begin(ctx context.Context, d turn.Descriptor) {
	f.began, f.token, f.replies, f.stopWatchingConn = time.Now(), progressToken(f.req), make(chan reply, 1), func() {}
	f.waiting, f.deadline, f.stop = wait(ctx, tool.FirstOf(f.req.Timeout, d.Timeout, f.c.describer.server.CallTimeout),
		max(f.req.TotalTimeout, d.TotalTimeout), f.suspended != nil)
	if f.req.Late != nil {
		f.detach = f.c.describer.settings[f.name].BackgroundTimeout
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
	f.s.dispatches.add(f.token, f)
}

// send hands the request to the SDK and returns without waiting for the write: a write to a server that reads nothing
// ends only when the session does.
func (f *dispatch) send() {
	ctx, state := newCallState(f.wire)
	f.state = state
	// When the connection ends, so do the request on the wire and the call that waits for it.
	unhook := context.AfterFunc(f.c.ctx, func() { f.endWire(context.Canceled); f.stop() })
	f.stopWatchingConn = func() { unhook() }
	meta := sdk.Meta{metaCallID: callKey(f.req), metaProgress: f.token}
	if f.req.Tenant != "" {
		meta[metaTenant] = f.req.Tenant
	}
	addTraceContext(ctx, meta)
	go func() { f.replies <- f.callTool(ctx, meta) }()
}

// callTool sends the request and returns the SDK's reply. It recovers from panics, because part of it parses what the
// server sent.
func (f *dispatch) callTool(ctx context.Context, meta sdk.Meta) (r reply) {
	defer f.c.recoverPanic(f.req.Tool, &r.err)
	if r.result, r.err = f.request(ctx, meta); r.err == nil {
		r.input = f.s.inputOf(r.result, f.continuation.Round)
	}
	return r
}

// request sends the request that carries the call: the tool's own, or the one that an offered tool stands for.
func (f *dispatch) request(ctx context.Context, meta sdk.Meta) (*sdk.CallToolResult, error) {
	if stand := f.s.standIn(f.name); stand != nil {
		return stand(ctx, f.s, f.req.Arguments, meta)
	}
	params := &sdk.CallToolParams{Meta: meta, Name: f.name, Arguments: json.RawMessage(f.req.Arguments)}
	if len(f.req.Arguments) == 0 {
		params.Arguments = map[string]any{}
	}
	params.InputResponses, params.RequestState = f.continuation.responses(), f.continuation.State
	return f.s.mcp.CallTool(ctx, params)
}

// finish ends the dispatch and returns the result of the call.
func (f *dispatch) finish(r reply) (turn.ToolResult, error) { return f.finishAs(f.ending(r), r) }

// finishAs is finish for a call whose ending is known.
func (f *dispatch) finishAs(e tool.Ending, r reply) (turn.ToolResult, error) {
	result, err := f.conclude(e, r)
	f.stopProgress()
	f.endWire(context.Canceled)
	f.stop()
	f.stopWatchingConn()
	f.state.share.endAfter(f.req.Kept)
	result.Duration = time.Since(f.began)
	return result, err
}

// stopProgress stops progress reports for the dispatch.
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

// detaches reports whether the call continues although its caller no longer waits for it: its timeout has passed, its
// tool may detach, and the caller wants a late result.
func (f *dispatch) detaches() bool {
	return f.detach > 0 && f.req.Late != nil && timeIsUp(f.waiting) && f.state.abandon() && f.c.ctx.Err() == nil
}

func timeIsUp(ctx context.Context) bool {
	return errors.Is(context.Cause(ctx), context.DeadlineExceeded)
}

// detachCall lets the call continue in the background. The call remains a user of its session, which is therefore
// neither evicted nor recycled until the call ends, its detach time is over or the host closes.
func (f *dispatch) detachCall() (turn.ToolResult, bool) {
	f.s.conn.Stay()
	if !f.c.running.start(f.awaitDetached) {
		f.s.leave()
		return turn.ToolResult{}, false
	}
	class, _ := tool.Ending{Stage: tool.StageSent, By: tool.EndedByDeadline, Repeatable: f.req.Repeatable,
		Detached: true}.Class()
	r := tool.Error(fmt.Sprintf(
		"Outcome unknown: %s was called, and it did not answer in time. It continues in the background "+
			"for up to %s, and its result is reported when it ends. Do not call it again meanwhile.", f.req.Tool,
		f.detach.Round(time.Second)))
	r.Outcome, r.Detached = turn.Outcome(class), true
	return r, true
}

// awaitDetached waits for the end of a detached call. It reports only an answer: without one, the outcome that the
// caller already has remains true.
func (f *dispatch) awaitDetached() {
	defer f.s.leave()
	kept := make(chan struct{})
	defer close(kept)
	f.req.Kept = kept
	var unread error // only logged; the outcome already reported still holds
	defer f.c.recoverPanic(f.req.Tool, &unread)
	timer := time.NewTimer(f.detach)
	defer timer.Stop()
	var r reply
	select {
	case r = <-f.replies:
	case <-timer.C:
		r = f.lastReply(context.DeadlineExceeded)
	case <-f.c.ctx.Done():
		r = f.lastReply(context.Canceled)
	}
	e := f.ending(r)
	result, err := f.finishAs(e, r)
	if result.Elicitations != nil {
		result = tool.Error("It requested input after its timeout, when no user could be asked. It did not continue.")
		result.Duration = time.Since(f.began)
	}
	if err == nil && e.Stage == tool.StageAnswered && f.c.ctx.Err() == nil {
		f.req.Late(result)
	}
}

// lastReply returns the reply that has arrived, if any, because an answer takes precedence over a deadline.
// Otherwise it cancels the request.
func (f *dispatch) lastReply(cause error) reply {
	select {
	case r := <-f.replies:
		return r
	default:
	}
	f.endWire(cause)
	return reply{err: cause}
}

// run runs the dispatch to its end.
func (f *dispatch) run(ctx context.Context) (turn.ToolResult, error) {
	leave, err := f.admit(ctx)
	if err != nil {
		return turn.ToolResult{}, notCalledError(f.req.Tool, err)
	}
	defer leave()
	if f.s, err = f.connection(ctx); err != nil {
		return turn.ToolResult{}, notCalledError(f.req.Tool, err)
	}
	defer f.s.leave()
	offered, err := f.s.offer(ctx, true)
	if err != nil {
		f.settle(ctx, err)
		return turn.ToolResult{}, notCalledError(f.req.Tool, err)
	}
	d, err := tool.Matching(offered.tools, f.req, f.c.name())
	if err != nil {
		return turn.ToolResult{}, err
	}
	return f.call(ctx, d, offered.names[f.req.Tool])
}

// call makes the exchange, and tells the pool how it went.
func (f *dispatch) call(ctx context.Context, d turn.Descriptor, name string) (turn.ToolResult, error) {
	conn := f.s.conn
	conn.Used(false)
	f.name = name
	f.fresh = conn.OpenedAfter(f.admission.Began) || !f.req.Dispatched.IsZero() && conn.OpenedAfter(f.req.Dispatched)
	result, err := f.exchange(ctx, d)
	conn.Used(err == nil)
	if result.Outcome == turn.OutcomeUnknown && f.c.describer.settings[name].BackgroundTimeout > 0 {
		return result, err // the call may still finish in the background
	}
	f.settle(ctx, err)
	var e *turn.Error
	if !f.req.Waits && errors.As(err, &e) && e.RetryAfter > 0 {
		// The next dispatch follows immediately. The call keeps its place meanwhile: the server would refuse other calls,
		// too.
		f.c.pause(ctx, e.RetryAfter)
	}
	return result, err
}

// admit waits, within the call's own deadline, until the call may go to the server, and deducts the wait from the
// deadline. Its error says why the call may not. leave gives the call's places back.
func (f *dispatch) admit(ctx context.Context) (leave func(), err error) {
	vacate, err := f.c.occupy(f.req)
	if err != nil {
		return nil, err
	}
	settings := f.c.describer.settings[strings.TrimPrefix(f.req.Tool, f.c.describer.prefix+"/")]
	began, wait := time.Now(), tool.FirstOf(f.req.Timeout, settings.Timeout, f.c.describer.server.CallTimeout)
	if f.req.Waits {
		wait = min(wait, maxConnectWait)
	}
	if f.admission, err = f.c.pool.Admit(ctx, f.req.Tenant, wait); err != nil {
		vacate()
		return nil, err
	}
	if f.req.Timeout > 0 {
		f.req.Timeout = max(f.req.Timeout-time.Since(began), time.Millisecond)
	}
	return func() { f.admission.End(); vacate() }, nil
}

// occupy takes a place in the worker for a call whose caller retries if there is none. The calls of one server, or of
// all servers, never occupy the whole worker, because inferences need it too. leave frees the place.
func (c *connector) occupy(req turn.ToolRequest) (leave func(), err error) {
	if !req.Waits {
		return func() {}, nil
	}
	for i, places := range []chan struct{}{c.serverPlaces, c.workerPlaces} {
		select {
		case places <- struct{}{}:
		default:
			if i > 0 {
				<-c.serverPlaces
			}
			return nil, crowded(cap(places))
		}
	}
	return func() { <-c.serverPlaces; <-c.workerPlaces }, nil
}

// crowded returns the error of a call for which this worker has no place.
func crowded(most int) error {
	told := fmt.Sprintf("%d calls to tool servers are in flight on this worker, which is the maximum", most)
	return &pool.Outage{Problem: told, ModelText: told, Wait: crowdedPause}
}

// crowdedPause is how long a call waits before its next attempt if there was no place.
const crowdedPause = 500 * time.Millisecond

// maxConnectWait bounds how long a call that can wait elsewhere occupies its worker while the server is connecting.
const maxConnectWait = 2 * time.Second

func (f *dispatch) connection(ctx context.Context) (*session, error) {
	if f.req.Waits {
		limited, cancel := context.WithTimeout(ctx, maxConnectWait)
		defer cancel()
		ctx = limited
	}
	return f.c.connection(ctx, f.req)
}

// settle reports the call's ending to the breaker.
func (f *dispatch) settle(ctx context.Context, err error) {
	problem := "it did not answer"
	if err != nil {
		problem = f.c.clean(err.Error(), 400)
	}
	f.admission.Settle(f.s.conn, ctx.Err() != nil && !timeIsUp(ctx), problem)
}
