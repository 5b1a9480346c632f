package toolbox

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/everturn/everturn/activities/toolbox/pool"
	"github.com/everturn/everturn/workflows/turn"
)

// visit is one call's time with a server, from the queue until the call's ending is reported to the breaker.
type visit struct {
	*pool.Admission
	c     *connector
	leave func() // frees the call's place in the worker
}

// visit waits, within the call's own deadline, until the call may go to the server, and deducts the wait from the
// deadline. Its error says why the call may not.
func (c *connector) visit(ctx context.Context, req *turn.ToolRequest) (*visit, error) {
	leave, err := c.occupy(*req)
	if err != nil {
		return nil, err
	}
	began, wait := time.Now(), c.patience(*req)
	if req.Waits {
		wait = min(wait, connectPatience)
	}
	a, err := c.pool.Admit(ctx, req.Tenant, wait)
	if err != nil {
		leave()
		return nil, err
	}
	if req.Timeout > 0 {
		req.Timeout = max(req.Timeout-time.Since(began), time.Millisecond)
	}
	return &visit{Admission: a, c: c, leave: leave}, nil
}

// occupy takes a place in the worker for a call whose caller retries if there is none. The calls of one server, or of
// all servers, never occupy the whole worker, because inferences need it too. leave frees the place.
func (c *connector) occupy(req turn.ToolRequest) (leave func(), err error) {
	if !req.Waits {
		return func() {}, nil
	}
	for i, places := range []chan struct{}{c.share, c.places} {
		select {
		case places <- struct{}{}:
		default:
			if i > 0 {
				<-c.share
			}
			return nil, crowded(cap(places))
		}
	}
	return func() { <-c.share; <-c.places }, nil
}

// crowded returns the error of a call for which this worker has no place.
func crowded(most int) error {
	told := fmt.Sprintf("%d calls to tool servers are in flight on this worker, which is the maximum", most)
	return &pool.Outage{Problem: told, Told: told, Wait: crowdedPause}
}

// crowdedPause is how long a call waits before its next attempt if there was no place.
const crowdedPause = 500 * time.Millisecond

// patience returns how long the call may wait in the queue: as long as it may run.
func (c *connector) patience(req turn.ToolRequest) time.Duration {
	switch said := c.describer.settings[strings.TrimPrefix(req.Tool, c.describer.prefix+"/")]; {
	case req.Timeout > 0:
		return req.Timeout
	case said.Timeout > 0:
		return said.Timeout
	}
	return c.describer.server.CallTimeout
}

// call finds the connection for the call, checks that the tool is the one in the turn config, and calls it.
func (v *visit) call(ctx context.Context, req turn.ToolRequest) (turn.ToolResult, error) {
	s, err := v.connection(ctx, req)
	if err != nil {
		return turn.ToolResult{}, notCalled(req.Tool, err)
	}
	defer s.leave()
	o, err := s.offer(ctx, true)
	if err != nil {
		v.verdict(ctx, s, err)
		return turn.ToolResult{}, notCalled(req.Tool, err)
	}
	d, err := o.find(req, v.c.name())
	if err != nil {
		return turn.ToolResult{}, err
	}
	s.conn.Use()
	defer s.conn.Use()
	fresh := s.conn.OpenedAfter(v.Began) || !req.Dispatched.IsZero() && s.conn.OpenedAfter(req.Dispatched)
	result, err := s.call(ctx, req, d, o.names[req.Tool], fresh)
	if err == nil {
		s.conn.Bind()
	}
	if v.c.goesOn(o.names[req.Tool], result) {
		return result, err
	}
	v.verdict(ctx, s, err)
	if !req.Waits {
		v.heed(ctx, err)
	}
	return result, err
}

// connectPatience bounds how long a call that can wait elsewhere occupies its worker while the server is connecting.
const connectPatience = 2 * time.Second

func (v *visit) connection(ctx context.Context, req turn.ToolRequest) (*session, error) {
	if req.Waits {
		limited, cancel := context.WithTimeout(ctx, connectPatience)
		defer cancel()
		ctx = limited
	}
	return v.c.connection(ctx, req)
}

// heed waits for the server's Retry-After before returning, because the next dispatch follows immediately. The call
// keeps its place meanwhile: the server would refuse other calls, too.
func (v *visit) heed(ctx context.Context, err error) {
	var e *turn.Error
	if errors.As(err, &e) && e.RetryAfter > 0 {
		v.c.pause(ctx, e.RetryAfter)
	}
}

// goesOn reports whether an abandoned call may still finish, because the operator set Detach.
func (c *connector) goesOn(tool string, r turn.ToolResult) bool {
	return r.Outcome == turn.OutcomeUnknown && c.describer.settings[tool].Detach > 0
}

// verdict reports the call's ending to the breaker.
func (v *visit) verdict(ctx context.Context, s *session, err error) {
	problem := "it did not answer"
	if err != nil {
		problem = v.c.clean(err.Error(), 400)
	}
	v.Settle(s.conn, ctx.Err() != nil && !timeIsUp(ctx), problem)
}

// end leaves the queue and frees the call's place.
func (v *visit) end() {
	v.End()
	v.leave()
}
