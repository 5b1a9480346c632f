package mcp

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/everturn/everturn/activities/mcp/pool"
	"github.com/everturn/everturn/activities/tools/tool"
	"github.com/everturn/everturn/workflows/turn"
)

// admittedCall is one call's time with a server, from the queue until the call's ending is reported to the breaker.
type admittedCall struct {
	*pool.Admission
	c     *connector
	leave func() // frees the call's place in the worker
}

// admittedCall waits, within the call's own deadline, until the call may go to the server, and deducts the wait from
// the deadline. Its error says why the call may not.
func (c *connector) admit(ctx context.Context, req *turn.ToolRequest) (*admittedCall, error) {
	leave, err := c.occupy(*req)
	if err != nil {
		return nil, err
	}
	began, wait := time.Now(), c.queueTimeout(*req)
	if req.Waits {
		wait = min(wait, maxConnectWait)
	}
	a, err := c.pool.Admit(ctx, req.Tenant, wait)
	if err != nil {
		leave()
		return nil, err
	}
	if req.Timeout > 0 {
		req.Timeout = max(req.Timeout-time.Since(began), time.Millisecond)
	}
	return &admittedCall{Admission: a, c: c, leave: leave}, nil
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

// callDeadline returns how long the call may wait in the queue: as long as it may run.
func (c *connector) queueTimeout(req turn.ToolRequest) time.Duration {
	settings := c.describer.settings[strings.TrimPrefix(req.Tool, c.describer.prefix+"/")]
	return tool.FirstOf(req.Timeout, settings.Timeout, c.describer.server.CallTimeout)
}

// call finds the connection for the call, checks that the tool is the one in the turn config, and calls it.
func (v *admittedCall) call(ctx context.Context, req turn.ToolRequest, o ongoing) (turn.ToolResult, error) {
	s, err := v.connection(ctx, req)
	if err != nil {
		return turn.ToolResult{}, notCalledError(req.Tool, err)
	}
	defer s.leave()
	offered, err := s.offer(ctx, true)
	if err != nil {
		v.settle(ctx, s, err)
		return turn.ToolResult{}, notCalledError(req.Tool, err)
	}
	d, err := tool.Matching(offered.tools, req, v.c.name())
	if err != nil {
		return turn.ToolResult{}, err
	}
	s.conn.Used(false)
	fresh := s.conn.OpenedAfter(v.Began) || !req.Dispatched.IsZero() && s.conn.OpenedAfter(req.Dispatched)
	result, err := s.call(ctx, req, o, d, offered.names[req.Tool], fresh)
	s.conn.Used(err == nil)
	if v.c.continuesDetached(offered.names[req.Tool], result) {
		return result, err
	}
	v.settle(ctx, s, err)
	if !req.Waits {
		v.honorRetryAfter(ctx, err)
	}
	return result, err
}

// maxConnectWait bounds how long a call that can wait elsewhere occupies its worker while the server is connecting.
const maxConnectWait = 2 * time.Second

func (v *admittedCall) connection(ctx context.Context, req turn.ToolRequest) (*session, error) {
	if req.Waits {
		limited, cancel := context.WithTimeout(ctx, maxConnectWait)
		defer cancel()
		ctx = limited
	}
	return v.c.connection(ctx, req)
}

// honorRetryAfter waits for the server's Retry-After before returning, because the next dispatch follows immediately.
// The call keeps its place meanwhile: the server would refuse other calls, too.
func (v *admittedCall) honorRetryAfter(ctx context.Context, err error) {
	var e *turn.Error
	if errors.As(err, &e) && e.RetryAfter > 0 {
		v.c.pause(ctx, e.RetryAfter)
	}
}

// continuesDetached reports whether an abandoned call may still finish, because the operator set Detach.
func (c *connector) continuesDetached(tool string, r turn.ToolResult) bool {
	return r.Outcome == turn.OutcomeUnknown && c.describer.settings[tool].BackgroundTimeout > 0
}

// settle reports the call's ending to the breaker.
func (v *admittedCall) settle(ctx context.Context, s *session, err error) {
	problem := "it did not answer"
	if err != nil {
		problem = v.c.clean(err.Error(), 400)
	}
	v.Settle(s.conn, ctx.Err() != nil && !timeIsUp(ctx), problem)
}

// end leaves the queue and frees the call's place.
func (v *admittedCall) end() {
	v.End()
	v.leave()
}
