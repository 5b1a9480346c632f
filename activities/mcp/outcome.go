package mcp

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"os/exec"
	"strings"
	"syscall"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"

	"github.com/everturn/everturn/activities/mcp/childproc"
	"github.com/everturn/everturn/activities/mcp/pool"
	"github.com/everturn/everturn/activities/tools/tool"
	"github.com/everturn/everturn/workflows/turn"
)

// ending describes the stage at which the call ended and its cause. The checks are ordered: first whether anything was
// sent, then whether a response arrived.
func (a *attempt) ending(r reply) tool.Ending {
	e := tool.Ending{Stage: tool.StageSent, By: a.endedBy(), Repeatable: a.req.Repeatable}
	var wire *jsonrpc.Error
	switch {
	case r.err == nil:
		e.Stage, e.Answer = tool.StageAnswered, answerOf(r)
	case !a.state.abandon():
		e.Stage = tool.StageUnsent
	case a.state.refused.Load():
		e.Stage = a.refusedStage(r.err)
	case errors.As(r.err, &wire) && !transportCode(wire.Code):
		e.Stage, e.Answer = tool.StageAnswered, tool.AnswerProtocol
	case e.By == tool.EndedByLoss && isClosed(a.state.answered):
		e.Stage, e.Answer = tool.StageAnswered, tool.AnswerUnreadable
	}
	return e
}

// refusedStage returns the stage of a call that the server's HTTP front refused. If the session was opened after the
// attempt began (f.fresh), a restart cannot have lost it. A server that forgets every session, or is always busy,
// may have acted, so attempts are counted.
func (a *attempt) refusedStage(err error) tool.Stage {
	switch r, known := refusalOf(err); {
	case !known && (a.fresh || a.req.Refused+1 >= maxForgotten):
		return tool.StageSent
	case known && (r.permanent() || a.req.Refused+1 >= maxCrowded):
		return tool.StageForbidden
	}
	return tool.StageRefused
}

// endedBy returns what ended the wait when no response arrived.
func (a *attempt) endedBy() tool.EndedBy {
	switch {
	case a.wire.Err() == nil && a.waiting.Err() == nil:
		return tool.EndedByLoss
	case timeIsUp(a.wire) || a.wire.Err() == nil && timeIsUp(a.waiting):
		return tool.EndedByDeadline
	}
	return tool.EndedByCancel
}

// conclude turns the call's ending into a result and updates the server's state. Only a server's response carries the
// server's own words. In every other case the model gets this package's words, because the session is not tainted by
// them; the server's words go to the log.
func (a *attempt) conclude(e tool.Ending, r reply) (turn.ToolResult, error) {
	s := a.s
	switch e.Stage {
	case tool.StageAnswered:
		s.conn.Answered()
		out := a.answered(e, r)
		out.FromServer = out.Text != "" || out.Full != nil || len(out.Media) > 0
		return out, nil
	case tool.StageRefused, tool.StageForbidden:
		return a.refused(e, r.err)
	case tool.StageSent:
		return tool.Unknown(a.req.Tool, e, a.unansweredReason(e.By, r.err)), nil
	}
	return turn.ToolResult{}, tool.NotSent(s.owner.name(), safeErrorText(r.err), r.err)
}

// refused ends a call that the server's HTTP front refused. A refusal that does not end the session counts as a
// response: the server is healthy.
func (a *attempt) refused(e tool.Ending, err error) (turn.ToolResult, error) {
	s := a.s
	refusal, ok := refusalOf(err)
	if !ok {
		s.conn.Lose()
		text := fmt.Sprintf("%s was not called: %s no longer knows the session, as after a restart", a.req.Tool,
			s.owner.name())
		return turn.ToolResult{}, &turn.Error{Code: turn.CodeToolNotSent, Message: text, Cause: err, Refused: true}
	}
	s.conn.Answered()
	text := fmt.Sprintf("%s was not called: %s %s.", a.req.Tool, s.owner.name(), refusal.text())
	output := s.owner.clean(err.Error(), 400)
	if e.Stage == tool.StageRefused {
		return turn.ToolResult{}, &turn.Error{Code: turn.CodeToolNotSent, Message: text, Cause: errors.New(output),
			RetryAfter: refusal.pause(), Refused: true}
	}
	s.owner.log.Warn("an MCP server refused a call", "server", s.owner.id(), "tool", a.req.Tool, "turn", a.req.Turn,
		"step", a.req.Step, "call", a.req.CallID, "status", refusal.Status, "it text", output)
	class, _ := e.Class()
	r := tool.Error(text)
	r.Outcome, r.Code = turn.Outcome(class), turn.CodeToolNotSent
	return r, nil
}

// unansweredReason explains why a sent call got no response.
func (a *attempt) unansweredReason(by tool.EndedBy, err error) string {
	s := a.s
	if a.state.refused.Load() {
		s.conn.Lose()
		a.recordFailure("a call's session was not known: " + s.owner.clean(err.Error(), 200))
		return "the server answered that it does not know the session, which cannot be a session from before a restart"
	}
	switch by {
	case tool.EndedByDeadline:
		s.recycle(a.state, true)
		return "it did not answer in time"
	case tool.EndedByCancel:
		s.recycle(a.state, false)
		return "the call was cancelled before it answered"
	default:
		s.awaitLoss()
		return "the connection to it was lost" + a.lossReason(err)
	}
}

// answered returns the result of a call that got a response.
func (a *attempt) answered(e tool.Ending, r reply) turn.ToolResult {
	var wire *jsonrpc.Error
	switch {
	case e.Answer == tool.AnswerProtocol && errors.As(r.err, &wire):
		return tool.Error(a.c.clean(wire.Message, 4096))
	case e.Answer == tool.AnswerUnreadable:
		return tool.Error("The tool ran and answered, but its answer cannot be read: " + a.c.clean(r.err.Error(), 300))
	case e.Answer == tool.AnswerElicits, e.Answer == tool.AnswerCannotElicit:
		return *r.input
	}
	return a.s.render(r.result)
}

// transportCode reports whether code is one that the SDK invents when the transport fails: client closing, server
// closing, rejected (its internal/jsonrpc2/wire.go).
func transportCode(code int64) bool { return code == -32003 || code == -32004 || code == -32005 }

// awaitLoss waits up to closeBound for a process whose connection is gone to exit: its exit status belongs in the
// error, and its crash must be counted before the next call.
func (s *session) awaitLoss() {
	if s.link.disposable {
		within(closeBound, func() { <-s.lost })
	}
}

// lossReason returns the part of the reason that the model may read, in parentheses. The full reason, which may quote
// the server, goes to the log and to the operator's status.
func (a *attempt) lossReason(err error) string {
	s := a.s
	if broken := s.link.watched.broken(); broken != nil {
		err = broken
	}
	if e := s.link.meter.excess(); e != nil {
		err = e
	}
	why, fate := []string{}, s.link.fate()
	if ours := safeErrorText(err); ours != "" {
		why = append(why, ours)
	}
	all := "a call's connection was lost: " + s.owner.clean(err.Error(), 200)
	if fate != "" {
		why = append(why, "its process ended with "+fate)
		all += "; its process ended with " + fate
	}
	a.recordFailure(all)
	if len(why) == 0 {
		return ""
	}
	return " (" + strings.Join(why, "; ") + ")"
}

// recordFailure logs why a call got no response, and records it for the operator.
func (a *attempt) recordFailure(what string) {
	a.c.log.Warn("a call got no answer", "server", a.c.id(), "tool", a.req.Tool, "turn", a.req.Turn, "step", a.req.Step,
		"call", a.req.CallID, "why", what)
	a.c.pool.Failed(what)
}

// safeErrorText describes a connection error without using any text that a server may have written. It returns an empty
// string for an unknown error.
func safeErrorText(err error) string {
	if e := (*Excess)(nil); errors.As(err, &e) {
		return e.Error()
	}
	for _, known := range []struct {
		is   error
		text string
	}{
		{childproc.ErrFrameTooLong, childproc.ErrFrameTooLong.Error()},
		{childproc.ErrFrameBroken, childproc.ErrFrameBroken.Error()},
		{childproc.ErrNoise, childproc.ErrNoise.Error()},
		{context.DeadlineExceeded, "the time was up"},
		{context.Canceled, "the call was cancelled"},
		{syscall.ECONNREFUSED, "connection refused"},
		{syscall.ECONNRESET, "connection reset"},
		{syscall.EPIPE, "broken pipe"},
		{io.ErrUnexpectedEOF, "EOF"},
		{io.EOF, "EOF"},
		{syscall.EHOSTUNREACH, "no route to the host"},
		{syscall.ENETUNREACH, "no route to the network"},
		{exec.ErrNotFound, "its command was not found"},
		{fs.ErrNotExist, "its command was not found"},
		{fs.ErrPermission, "its command may not be run"},
	} {
		if errors.Is(err, known.is) {
			return known.text
		}
	}
	if dns := (*net.DNSError)(nil); errors.As(err, &dns) {
		return "its name cannot be resolved"
	}
	return ""
}

// modelText returns what the model may read of an error.
func modelText(err error) string {
	var o *pool.Outage
	if errors.As(err, &o) {
		return o.ModelText
	}
	if e := (*Excess)(nil); errors.As(err, &e) {
		return e.Error()
	}
	return safeErrorText(err)
}

// notCalledError returns the error of a call that was not sent: err itself if it is a *turn.Error, otherwise
// tool_not_sent with the reason and the time until the next attempt.
func notCalledError(tool string, err error) error {
	var e *turn.Error
	if errors.As(err, &e) {
		return e
	}
	out := turn.Errorf(turn.CodeToolNotSent, err, tool+" was not called")
	if why := modelText(err); why != "" {
		out.Message += ": " + why
	}
	var o *pool.Outage
	if errors.As(err, &o) {
		out.RetryAfter = o.Wait
	}
	return out
}
