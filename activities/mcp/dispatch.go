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

// run runs the attempt to its end.
func (a *attempt) run(ctx context.Context) (turn.ToolResult, error) {
	leave, err := a.admit(ctx)
	if err != nil {
		return turn.ToolResult{}, notCalledError(a.req.Tool, err)
	}
	defer leave()
	if a.s, err = a.connection(ctx); err != nil {
		return turn.ToolResult{}, notCalledError(a.req.Tool, err)
	}
	defer a.s.leave()
	offered, err := a.s.offer(ctx, true)
	if err != nil {
		a.settle(ctx, err)
		return turn.ToolResult{}, notCalledError(a.req.Tool, err)
	}
	d, err := tool.Matching(offered.tools, a.req, a.c.name())
	if err != nil {
		return turn.ToolResult{}, err
	}
	return a.call(ctx, d, offered.names[a.req.Tool])
}

// call makes the exchange, and tells the pool how it went.
func (a *attempt) call(ctx context.Context, d turn.Descriptor, name string) (turn.ToolResult, error) {
	conn := a.s.conn
	conn.Used(false)
	a.name = name
	a.fresh = conn.OpenedAfter(a.admission.Began) || !a.req.Scheduled.IsZero() && conn.OpenedAfter(a.req.Scheduled)
	result, err := a.exchange(ctx, d)
	conn.Used(err == nil)
	if result.Outcome == turn.OutcomeUnknown && a.c.describer.settings[name].BackgroundTimeout > 0 {
		return result, err // the call may still finish in the background
	}
	a.settle(ctx, err)
	var e *turn.Error
	if !a.req.Waits && errors.As(err, &e) && e.RetryAfter > 0 {
		// The next attempt follows immediately. The call keeps its place meanwhile: the server would refuse other calls,
		// too.
		a.c.pause(ctx, e.RetryAfter)
	}
	return result, err
}

// admit waits, within the call's own deadline, until the call may go to the server, and deducts the wait from the
// deadline. Its error says why the call may not. leave gives the call's places back.
func (a *attempt) admit(ctx context.Context) (leave func(), err error) {
	vacate, err := a.c.occupy(a.req)
	if err != nil {
		return nil, err
	}
	settings := a.c.describer.settings[strings.TrimPrefix(a.req.Tool, a.c.describer.prefix+"/")]
	began, wait := time.Now(), tool.FirstOf(a.req.Timeout, settings.Timeout, a.c.describer.server.CallTimeout)
	if a.req.Waits {
		wait = min(wait, maxConnectWait)
	}
	if a.admission, err = a.c.pool.Admit(ctx, a.req.Tenant, wait); err != nil {
		vacate()
		return nil, err
	}
	if a.req.Timeout > 0 {
		a.req.Timeout = max(a.req.Timeout-time.Since(began), time.Millisecond)
	}
	return func() { a.admission.End(); vacate() }, nil
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

func (a *attempt) connection(ctx context.Context) (*session, error) {
	if a.req.Waits {
		limited, cancel := context.WithTimeout(ctx, maxConnectWait)
		defer cancel()
		ctx = limited
	}
	return a.c.connection(ctx, a.req)
}

// settle reports the call's ending to the breaker.
func (a *attempt) settle(ctx context.Context, err error) {
	problem := "it did not answer"
	if err != nil {
		problem = a.c.clean(err.Error(), 400)
	}
	a.admission.Settle(a.s.conn, ctx.Err() != nil && !timeIsUp(ctx), problem)
}
