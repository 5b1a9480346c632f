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
