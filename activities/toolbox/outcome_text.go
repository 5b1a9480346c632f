package toolbox

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

	"github.com/everturn/everturn/activities/toolbox/stdio"
	"github.com/everturn/everturn/workflows/turn"
)

// ending describes the stage at which the call ended and its cause. The checks are ordered: first whether anything was
// sent, then whether a response arrived.
func (f *dispatch) ending(r reply) ending {
	e := ending{stage: stageSent, by: f.endedBy(), repeatable: f.req.Repeatable}
	var wire *jsonrpc.Error
	switch {
	case r.err == nil:
		e.stage, e.answer = stageAnswered, answerOf(r)
	case !f.state.abandon():
		e.stage = stageUnsent
	case f.state.refused.Load():
		e.stage = f.refusedStage(r.err)
	case errors.As(r.err, &wire) && !transportCode(wire.Code):
		e.stage, e.answer = stageAnswered, answerProtocol
	case e.by == endedByLoss && f.state.isAnswered():
		e.stage, e.answer = stageAnswered, answerUnreadable
	}
	return e
}

// refusedStage returns the stage of a call that the server's HTTP front refused. If the session was opened after the
// call was dispatched (f.fresh), a restart cannot have lost it. A server that forgets every session, or is always busy,
// may have acted, so attempts are counted.
func (f *dispatch) refusedStage(err error) stage {
	switch r, known := refusalOf(err); {
	case !known && (f.fresh || f.req.Refused+1 >= maxForgotten):
		return stageSent
	case known && (r.permanent() || f.req.Refused+1 >= maxCrowded):
		return stageForbidden
	}
	return stageRefused
}

// endedBy returns what ended the wait when no response arrived.
func (f *dispatch) endedBy() endedBy {
	switch {
	case f.wire.Err() == nil && f.waiting.Err() == nil:
		return endedByLoss
	case timeIsUp(f.wire) || f.wire.Err() == nil && timeIsUp(f.waiting):
		return endedByDeadline
	}
	return endedByCancel
}

// conclude turns the call's ending into a result and updates the server's state. Only a server's response carries the
// server's own words. In every other case the model gets this package's words, because the session is not tainted by
// them; the server's words go to the log.
func (f *dispatch) conclude(e ending, r reply) (turn.ToolResult, error) {
	s := f.s
	class, again := e.class()
	switch e.stage {
	case stageAnswered:
		s.conn.Answered()
		out := f.answered(e, r)
		out.FromServer = out.Text != "" || out.Full != nil || len(out.Media) > 0
		return out, nil
	case stageRefused, stageForbidden:
		return f.refused(e, r.err)
	case stageSent:
		return unknownResult(f.req.Tool, class, again, f.unansweredReason(e.by, r.err)), nil
	}
	return turn.ToolResult{}, notSentError(s.owner.name(), r.err)
}

// refused ends a call that the server's HTTP front refused. A refusal that does not end the session counts as a
// response: the server is healthy.
func (f *dispatch) refused(e ending, err error) (turn.ToolResult, error) {
	s := f.s
	refusal, ok := refusalOf(err)
	if !ok {
		s.conn.Lose()
		text := fmt.Sprintf("%s was not called: %s no longer knows the session, as after a restart", f.req.Tool,
			s.owner.name())
		return turn.ToolResult{}, &turn.Error{Code: turn.CodeToolNotSent, Message: text, Cause: err, Refused: true}
	}
	s.conn.Answered()
	text := fmt.Sprintf("%s was not called: %s %s.", f.req.Tool, s.owner.name(), refusal.text())
	said := s.owner.clean(err.Error(), 400)
	if e.stage == stageRefused {
		return turn.ToolResult{}, &turn.Error{Code: turn.CodeToolNotSent, Message: text, Cause: errors.New(said),
			RetryAfter: refusal.pause(), Refused: true}
	}
	s.owner.log.Warn("an MCP server refused a call", "server", s.owner.id(), "tool", f.req.Tool, "status", refusal.Status,
		"it said", said)
	class, _ := e.class()
	r := errorResult(text)
	r.Outcome, r.Code = turn.Outcome(class), turn.CodeToolNotSent
	return r, nil
}

// unansweredReason explains why a sent call got no response.
func (f *dispatch) unansweredReason(by endedBy, err error) string {
	s := f.s
	if f.state.refused.Load() {
		s.conn.Lose()
		s.owner.recordFailure("a call's session was not known: " + s.owner.clean(err.Error(), 200))
		return "the server answered that it does not know the session, which cannot be a session from before a restart"
	}
	switch by {
	case endedByDeadline:
		s.recycle(f.state, true)
		return "it did not answer in time"
	case endedByCancel:
		s.recycle(f.state, false)
		return "the call was cancelled before it answered"
	default:
		s.awaitLoss()
		return "the connection to it was lost" + s.lossReason(err)
	}
}

// answered returns the result of a call that got a response.
func (f *dispatch) answered(e ending, r reply) turn.ToolResult {
	var wire *jsonrpc.Error
	switch {
	case e.answer == answerProtocol && errors.As(r.err, &wire):
		return errorResult(f.s.owner.clean(wire.Message, 4096))
	case e.answer == answerUnreadable:
		return errorResult("The tool ran and answered, but its answer cannot be read: " + f.s.owner.clean(r.err.Error(), 300))
	case e.answer == answerElicits, e.answer == answerCannotElicit:
		return *r.input
	}
	return f.s.render(r.result, f.name)
}

// transportCode reports whether code is one that the SDK invents when the transport fails: client closing, server
// closing, rejected (its internal/jsonrpc2/wire.go).
func transportCode(code int64) bool { return code == -32003 || code == -32004 || code == -32005 }

func notSentError(server string, err error) error {
	text := "nothing was sent to " + server
	if why := safeErrorText(err); why != "" {
		text += ": " + why
	}
	return turn.Errorf(turn.CodeToolNotSent, err, text)
}

// unknownResult returns the result of a call that was sent and got no response.
func unknownResult(tool string, c class, again bool, what string) turn.ToolResult {
	advice := "It may or may not have taken effect. Find out before calling it again."
	if again {
		advice = "It may be called again."
	}
	r := errorResult(fmt.Sprintf("Outcome unknown: %s was called, and %s. %s", tool, what, advice))
	r.Outcome = turn.Outcome(c)
	return r
}

// deniedResult returns the denied result of a call that this host does not pass on to its tool.
func deniedResult(text string) turn.ToolResult {
	c, _ := ending{stage: stageChecked}.class()
	r := errorResult(text)
	r.Outcome = turn.Outcome(c)
	return r
}

func errorResult(text string) turn.ToolResult {
	return turn.ToolResult{Outcome: turn.OutcomeError, Text: text, SizeBytes: int64(len(text))}
}

// awaitLoss waits up to closeBound for a process whose connection is gone to exit: its exit status belongs in the
// error, and its crash must be counted before the next call.
func (s *session) awaitLoss() {
	if s.link.disposable {
		within(closeBound, func() { <-s.lost })
	}
}

// lossReason returns the part of the reason that the model may read, in parentheses. The full reason, which may quote
// the server, goes to the log and to the operator's status.
func (s *session) lossReason(err error) string {
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
	s.owner.recordFailure(all)
	if len(why) == 0 {
		return ""
	}
	return " (" + strings.Join(why, "; ") + ")"
}

// recordFailure logs why a call got no response, and records it for the operator.
func (c *connector) recordFailure(what string) {
	c.log.Warn("a call got no answer", "server", c.id(), "why", what)
	c.pool.Failed(what)
}

// safeErrorText describes a connection error without using any text that a server may have written. It returns an empty
// string for an unknown error.
func safeErrorText(err error) string {
	if e := (*Excess)(nil); errors.As(err, &e) {
		return e.Error()
	}
	for _, known := range []struct {
		is   error
		said string
	}{
		{stdio.ErrFrameTooLong, stdio.ErrFrameTooLong.Error()},
		{stdio.ErrFrameBroken, stdio.ErrFrameBroken.Error()},
		{stdio.ErrNoise, stdio.ErrNoise.Error()},
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
			return known.said
		}
	}
	if dns := (*net.DNSError)(nil); errors.As(err, &dns) {
		return "its name cannot be resolved"
	}
	return ""
}
