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

// ending determines at which stage the call ended, and why. Without a result, the order of the checks matters: whether
// the call was sent, whether the server refused it unread, and whether a response arrived nevertheless.
func (a *attempt) ending(r reply) tool.Ending {
	e := tool.Ending{Stage: tool.StageSent, By: a.endedBy(), Repeatable: a.req.Repeatable}
	a.refusal = a.state.refused.Load() // once, because the request may still be under way
	var wire *jsonrpc.Error
	switch {
	case r.err == nil:
		e.Stage, e.Answer = tool.StageAnswered, answerOf(r)
	case !a.state.abandon(): // not sent, and from now on it cannot be sent
		e.Stage = tool.StageUnsent
	case a.refusal != nil:
		e.Stage = a.refusedStage()
	case errors.As(r.err, &wire) && !transportCode(wire.Code) && !a.unreadable(wire):
		e.Stage, e.Answer = tool.StageAnswered, tool.AnswerProtocol
	case e.By == tool.EndedByLoss && isClosed(a.state.answered): // a response came, but the SDK could not read it
		e.Stage, e.Answer = tool.StageAnswered, tool.AnswerUnreadable
	}
	return e
}

// unreadable reports whether the SDK itself created the error because it could not read a message of a stdio server. It
// then ends all calls of the connection with it, whatever call the message was about.
func (a *attempt) unreadable(err *jsonrpc.Error) bool {
	invalid := err.Code == jsonrpc.CodeParseError || err.Code == jsonrpc.CodeInvalidRequest
	return invalid && a.session.link.watched != nil && !isClosed(a.state.answered)
}

// refusedStage returns the stage of a call that the server's HTTP front refused: StageRefused if another attempt may
// succeed, otherwise StageForbidden, or StageSent if the refusal is not believed. A server that says that it does not
// know a session which was opened for this very attempt cannot have lost it in a restart, so it may have acted. The
// same holds for a server that says so again and again.
func (a *attempt) refusedStage() tool.Stage {
	refusals := a.req.Refused + 1 // of this call, with this one
	switch {
	case a.refusal.unknownSession() && (a.freshSession || refusals >= maxUnknownSession):
		return tool.StageSent
	case !a.refusal.unknownSession() && (a.refusal.permanent() || refusals >= maxRateLimited):
		return tool.StageForbidden
	}
	return tool.StageRefused
}

// endedBy returns why the wait for a response ended: the deadline or a cancellation ended one of the contexts;
// otherwise the connection was lost. The request's context decides first, because a detached call outlives waitCtx.
func (a *attempt) endedBy() tool.EndedBy {
	switch {
	case a.requestCtx.Err() == nil && a.waitCtx.Err() == nil:
		return tool.EndedByLoss
	case timeIsUp(a.requestCtx) || a.requestCtx.Err() == nil && timeIsUp(a.waitCtx):
		return tool.EndedByDeadline
	}
	return tool.EndedByCancel
}

// conclude turns the call's ending into a result, or into an error if the call was not sent, and reports to the pool
// how the server behaved. The result contains the server's own words only if it is the server's response. Otherwise it
// contains only this package's words, because such a result does not taint the session; the server's words go to the
// log.
func (a *attempt) conclude(e tool.Ending, r reply) (turn.ToolResult, error) {
	s := a.session
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

// refused returns the error or the result of a call that the server's HTTP front refused unread: an error if the call
// may be attempted again, otherwise an error result. A refusal that does not end the session counts as an answer for
// the server's health.
func (a *attempt) refused(e tool.Ending, err error) (turn.ToolResult, error) {
	s := a.session
	if a.refusal.unknownSession() { // and refusedStage believes it: the call may be attempted again
		s.conn.Lose()
		text := fmt.Sprintf("%s was not called: %s no longer knows the session, as after a restart", a.req.Tool,
			s.owner.name())
		return turn.ToolResult{}, &turn.Error{Code: turn.CodeToolNotSent, Message: text, Cause: err, Refused: true}
	}
	s.conn.Answered()
	text := fmt.Sprintf("%s was not called: %s %s.", a.req.Tool, s.owner.name(), a.refusal.text())
	serverText := s.owner.clean(err.Error(), 400)
	if e.Stage == tool.StageRefused {
		return turn.ToolResult{}, &turn.Error{Code: turn.CodeToolNotSent, Message: text, Cause: errors.New(serverText),
			RetryAfter: a.refusal.pause(), Refused: true}
	}
	s.owner.log.Warn("an MCP server refused a call", "server", s.owner.id(), "tool", a.req.Tool, "turn", a.req.Turn,
		"step", a.req.Step, "call", a.req.CallID, "status", a.refusal.status, "server_text", serverText)
	class, _ := e.Class()
	r := tool.Error(text)
	r.Outcome, r.Code = turn.Outcome(class), turn.CodeToolNotSent
	return r, nil
}

// unansweredReason returns why a call that was sent got no response, as the end of a sentence for the model. It also
// gets rid of the session or process that failed, so that the next call gets another one.
func (a *attempt) unansweredReason(by tool.EndedBy, err error) string {
	s := a.session
	if a.refusal != nil { // a refusal that refusedStage does not believe
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
		return "the connection to it was lost" + a.lossReason(err) // after awaitLoss, for the exit status
	}
}

// answered returns the result of a call that got a response: the tool's result, the server's elicitations, or the
// reason why the response cannot be used.
func (a *attempt) answered(e tool.Ending, r reply) turn.ToolResult {
	var wire *jsonrpc.Error
	switch {
	case e.Answer == tool.AnswerProtocol && errors.As(r.err, &wire):
		return tool.Error(a.connector.clean(wire.Message, 4096))
	case e.Answer == tool.AnswerUnreadable:
		return tool.Error("The tool ran and answered, but its answer cannot be read: " +
			a.connector.clean(r.err.Error(), 300))
	case e.Answer == tool.AnswerElicits, e.Answer == tool.AnswerCannotElicit:
		return *r.input
	}
	return a.session.render(r.result)
}

// transportCode reports whether the SDK itself created a JSON-RPC error with this code because the transport failed.
// The codes mean: client closing, server closing, rejected (internal/jsonrpc2/wire.go of the SDK).
func transportCode(code int64) bool { return code == -32003 || code == -32004 || code == -32005 }

// awaitLoss waits, at most closeBound, until the process of a lost connection has exited and the pool has recorded its
// end. The exit status then is known for the result, and the next call gets a new process.
func (s *session) awaitLoss() {
	if s.link.disposable {
		within(closeBound, func() { <-s.lost })
	}
}

// lossReason records why the connection was lost, and returns the part of the reason that the model may read, in
// parentheses; empty if there is none. The full reason, which may quote the server, goes to the log and to Health.
func (a *attempt) lossReason(err error) string {
	s := a.session
	if broken := s.link.watched.readError(); broken != nil { // more precise than the SDK's error
		err = broken
	}
	if e := s.link.meter.excess(); e != nil { // the host itself dropped the connection
		err = e
	}
	forModel, fate := []string{}, s.link.fate()
	if ours := safeErrorText(err); ours != "" {
		forModel = append(forModel, ours)
	}
	full := "a call's connection was lost: " + s.owner.clean(err.Error(), 200)
	if fate != "" {
		forModel = append(forModel, "its process ended with "+fate)
		full += "; its process ended with " + fate
	}
	a.recordFailure(full)
	if len(forModel) == 0 {
		return ""
	}
	return " (" + strings.Join(forModel, "; ") + ")"
}

// recordFailure logs why a call got no response, and records it as the server's last error in Health.
func (a *attempt) recordFailure(reason string) {
	a.connector.log.Warn("a call got no answer", "server", a.connector.id(), "tool", a.req.Tool, "turn", a.req.Turn,
		"step", a.req.Step, "call", a.req.CallID, "why", reason)
	a.connector.pool.Failed(reason)
}

// safeErrorText describes a connection error in this package's own words, because the error's text may quote the
// server. It returns an empty string for an error that it does not recognize.
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
		{errDir, "its working directory cannot be used"}, // before the errors of the file system, which it may wrap
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

// modelText returns the text of an error for the model, without any of the server's own words; empty if there is none.
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

// notCalledError returns the error of a call that was not sent because of err: err itself if it is a *turn.Error,
// otherwise tool_not_sent with the reason, and with the time until the next attempt if err is an Outage.
func notCalledError(tool string, err error) error {
	var e *turn.Error
	if errors.As(err, &e) {
		return e
	}
	out := turn.NewError(turn.CodeToolNotSent, err, tool+" was not called")
	if why := modelText(err); why != "" {
		out.Message += ": " + why
	}
	var o *pool.Outage
	if errors.As(err, &o) {
		out.RetryAfter = o.Wait
	}
	return out
}

// isClosed reports whether a channel on which nothing is sent is closed.
func isClosed(ch <-chan struct{}) bool {
	select {
	case <-ch:
		return true
	default:
		return false
	}
}
