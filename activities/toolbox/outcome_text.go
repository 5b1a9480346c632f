package toolbox

import (
	"errors"
	"fmt"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"

	"github.com/everturn/everturn/workflows/turn"
)

// ending says where and how the call ended. The order of the questions matters: first whether anything left, then whether
// anything came back.
func (f *flight) ending(r reply) ending {
	e := ending{stage: stageSent, by: f.endedBy(), repeatable: f.req.Repeatable}
	var wire *jsonrpc.Error
	switch {
	case r.err == nil:
		e.stage, e.answer = stageAnswered, f.s.answerOf(r.result, f.round)
	case !f.state.abandon():
		e.stage = stageUnsent
	case f.state.refused.Load():
		e.stage = stageRefused
	case errors.As(r.err, &wire) && !transportCode(wire.Code):
		e.stage, e.answer = stageAnswered, answerProtocol
	case e.by == endedByLoss && f.state.isAnswered():
		e.stage, e.answer = stageAnswered, answerUnreadable
	}
	return e
}

// endedBy is what ended the wait where no answer did.
func (f *flight) endedBy() endedBy {
	switch {
	case f.wire.Err() == nil && f.waiting.Err() == nil:
		return endedByLoss
	case timeIsUp(f.wire) || f.wire.Err() == nil && timeIsUp(f.waiting):
		return endedByDeadline
	}
	return endedByCancel
}

// conclude makes a result of the call's ending, and sees to the server.
func (f *flight) conclude(r reply) (turn.ToolResult, error) {
	s, e := f.s, f.ending(r)
	class, again := e.class()
	if e.stage == stageAnswered {
		s.owner.answered(s.party)
		return f.answered(e, r), nil
	}
	if e.stage != stageSent {
		return turn.ToolResult{}, s.notSent(r.err)
	}
	why := "the call was cancelled before it answered"
	switch e.by {
	case endedByDeadline:
		why = "it did not answer in time"
		s.recycle(f.state, true)
	case endedByCancel:
		s.recycle(f.state, false)
	default:
		s.awaitLoss()
		why = "the connection to it was lost (" + s.lossReason(r.err) + ")"
	}
	return unsettled(f.req.Tool, class, again, why), nil
}

// answered is the result of a call that was answered.
func (f *flight) answered(e ending, r reply) turn.ToolResult {
	var wire *jsonrpc.Error
	switch {
	case e.answer == answerProtocol && errors.As(r.err, &wire):
		return failed(f.s.owner.clean(wire.Message, 4096))
	case e.answer == answerUnreadable:
		return failed("The tool ran and answered, but its answer cannot be read: " + f.s.owner.clean(r.err.Error(), 300))
	case e.answer == answerAsks, e.answer == answerCannotAsk:
		return f.s.inquire(r.result, f.round)
	}
	return f.s.render(r.result, f.name)
}

// transportCode are codes that the SDK makes up itself where the transport failed: client closing, server closing,
// rejected (its internal/jsonrpc2/wire.go).
func transportCode(code int64) bool { return code == -32003 || code == -32004 || code == -32005 }

func (s *session) notSent(err error) error {
	why := s.owner.clean(err.Error(), 300)
	return turn.Errorf(turn.CodeToolNotSent, err, fmt.Sprintf("nothing was sent to %s: %s", s.owner.name(), why))
}

// unsettled is the result of a call that was sent and not answered.
func unsettled(tool string, c class, again bool, what string) turn.ToolResult {
	advice := "It may or may not have taken effect. Find out before calling it again."
	if again {
		advice = "It may be called again."
	}
	r := failed(fmt.Sprintf("Outcome unknown: %s was called, and %s. %s", tool, what, advice))
	r.Outcome = turn.Outcome(c)
	return r
}

// refusedHere is the result of a call that nobody was asked to do.
func refusedHere(text string) turn.ToolResult {
	c, _ := ending{stage: stageChecked}.class()
	r := failed(text)
	r.Outcome = turn.Outcome(c)
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
