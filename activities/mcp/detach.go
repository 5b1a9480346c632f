package mcp

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/everturn/everturn/activities/tools/tool"
	"github.com/everturn/everturn/workflows/turn"
)

// detaches reports whether the call continues although its caller no longer waits for it: its timeout has passed, its
// tool may detach, and the caller wants a late result.
func (f *dispatch) detaches() bool {
	return f.detach > 0 && f.req.Late != nil && timeIsUp(f.waiting) && f.state.abandon() && f.s.owner.ctx.Err() == nil
}

func timeIsUp(ctx context.Context) bool {
	return errors.Is(context.Cause(ctx), context.DeadlineExceeded)
}

// detachCall lets the call continue in the background. The call remains a user of its session, which is therefore
// neither evicted nor recycled until the call ends, its detach time is over or the host closes.
func (f *dispatch) detachCall() (turn.ToolResult, bool) {
	f.s.conn.Stay()
	if !f.s.owner.running.start(f.awaitDetached) {
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
	defer f.s.owner.recoverPanic(f.req.Tool, &unread)
	timer := time.NewTimer(f.detach)
	defer timer.Stop()
	var r reply
	select {
	case r = <-f.replies:
	case <-timer.C:
		r = f.lastReply(context.DeadlineExceeded)
	case <-f.s.owner.ctx.Done():
		r = f.lastReply(context.Canceled)
	}
	e := f.ending(r)
	result, err := f.finishAs(e, r)
	if result.Elicitations != nil {
		result = tool.Error("It requested input after its timeout, when no user could be asked. It did not continue.")
		result.Duration = time.Since(f.began)
	}
	if err == nil && e.Stage == tool.StageAnswered && f.s.owner.ctx.Err() == nil {
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
