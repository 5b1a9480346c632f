package toolbox

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/everturn/everturn/workflows/turn"
)

// reply is what the SDK made of a call.
type reply struct {
	result *mcp.CallToolResult
	err    error
}

// call sends the request and says how it ended.
func (s *session) call(ctx context.Context, req turn.ToolRequest, d turn.Descriptor, name string) (turn.ToolResult, error) {
	began := time.Now()
	ctx, cancel := context.WithTimeout(ctx, s.timeout(req, d))
	defer cancel()
	defer context.AfterFunc(s.owner.ctx, cancel)()
	sent, state := newCallState(ctx)
	params := &mcp.CallToolParams{Name: name, Arguments: json.RawMessage(req.Arguments)}
	if len(req.Arguments) == 0 {
		params.Arguments = map[string]any{}
	}
	var local *localCall
	if s.owner.local != nil {
		var forget func()
		local, params.Meta, forget = s.owner.local.open(ctx, req)
		defer forget()
	}
	r := s.await(sent, params)
	result, err := s.conclude(ctx, req, state, r)
	if local != nil {
		s.noteLocal(local, req, &result)
	}
	result.Duration = time.Since(began)
	return result, err
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

// await waits for the SDK no longer than the context lasts: writing to a server that reads nothing does not end by
// itself, but only when the session does.
func (s *session) await(ctx context.Context, params *mcp.CallToolParams) reply {
	replies := make(chan reply, 1)
	go func() {
		result, err := s.mcp.CallTool(ctx, params)
		replies <- reply{result, err}
	}()
	select {
	case r := <-replies:
		return r
	case <-ctx.Done():
	}
	select {
	case r := <-replies: // both were ready: an answer is worth more than a deadline
		return r
	default:
		return reply{err: ctx.Err()}
	}
}

// conclude decides what a reply means. The order of the questions matters: first whether anything left, then whether
// anything came back.
func (s *session) conclude(ctx context.Context, req turn.ToolRequest, st *callState, r reply) (turn.ToolResult, error) {
	var wire *jsonrpc.Error
	switch {
	case r.err == nil:
		s.owner.answered()
		return s.render(r.result), nil
	case !st.abandon() || st.refused.Load():
		return turn.ToolResult{}, s.notSent(r.err)
	case errors.As(r.err, &wire) && !transportCode(wire.Code):
		s.owner.answered()
		return failed(s.owner.clean(wire.Message, 4096)), nil
	case ctx.Err() != nil:
		s.recycle(ctx, st)
		return s.gaveUp(ctx, req), nil
	case st.isAnswered():
		s.owner.answered()
		return failed("The tool ran and answered, but its answer cannot be read: " + s.owner.clean(r.err.Error(), 300)), nil
	}
	s.awaitLoss()
	return s.unsettled(req, "the connection to it was lost ("+s.lossReason(r.err)+")"), nil
}

// transportCode are codes that the SDK makes up itself where the transport failed: client closing, server closing,
// rejected (its internal/jsonrpc2/wire.go).
func transportCode(code int64) bool { return code == -32003 || code == -32004 || code == -32005 }

func (s *session) notSent(err error) error {
	why := s.owner.clean(err.Error(), 300)
	return turn.Errorf(turn.CodeToolNotSent, err, fmt.Sprintf("nothing was sent to %s: %s", s.owner.name(), why))
}

func (s *session) gaveUp(ctx context.Context, req turn.ToolRequest) turn.ToolResult {
	if errors.Is(ctx.Err(), context.DeadlineExceeded) {
		return s.unsettled(req, "it did not answer in time")
	}
	return s.unsettled(req, "the call was cancelled before it answered")
}

// unsettled is the result of a call that was sent and not answered.
func (s *session) unsettled(req turn.ToolRequest, what string) turn.ToolResult {
	if req.Repeatable {
		return failed(fmt.Sprintf("%s gave no result: %s. It may be called again.", req.Tool, what))
	}
	r := failed(fmt.Sprintf("Outcome unknown: %s was called, and %s. It may or may not have taken effect. Find out before calling it again.", req.Tool, what))
	r.Outcome = turn.OutcomeUnknown
	return r
}

func failed(text string) turn.ToolResult {
	return turn.ToolResult{Outcome: turn.OutcomeError, Text: text, SizeBytes: int64(len(text))}
}

// awaitLoss waits a moment for the end of a process whose connection is gone: its status is worth telling, and its
// crash is to be counted before the next call.
func (s *session) awaitLoss() {
	if s.link.disposable {
		within(closeBound, func() { <-s.lost })
	}
}

func (s *session) lossReason(err error) string {
	if broken := s.link.watched.broken(); broken != nil {
		err = broken
	}
	why := s.owner.clean(err.Error(), 200)
	if fate := s.link.fate(); fate != "" {
		why += "; its process ended with " + fate
	}
	return why
}

// clean makes the words of a server, or of an error about it, fit to be shown.
func (c *connector) clean(text string, limit int) string {
	return oneLine(c.redact.text(text), limit)
}

// recycle sees to it that a server does not go on with a call that was given up. After a deadline its process is
// replaced at once; after a cancellation it has a moment to answer, which says that it stopped. Other calls in flight
// end first, under their own deadlines.
func (s *session) recycle(ctx context.Context, st *callState) {
	if !s.link.disposable {
		return
	}
	if errors.Is(ctx.Err(), context.DeadlineExceeded) {
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

func (s *session) noteLocal(call *localCall, req turn.ToolRequest, r *turn.ToolResult) {
	size, bug := s.owner.local.after(call)
	if size > r.SizeBytes && r.Outcome == turn.OutcomeOK {
		r.SizeBytes = size
	}
	if bug != "" {
		s.owner.log.Error("a local tool panicked", "tool", req.Tool, "turn", req.Turn, "call", req.CallID, "stack", bug)
	}
}
