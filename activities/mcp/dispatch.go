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

// run runs the attempt: it waits until the call may go to the server, gets a session, checks that the server still
// offers the tool as the turn config describes it, sends the call and waits for its end. It reports the end to the
// pool, unless the call continues in the background. An error means that the call was not sent.
func (a *attempt) run(ctx context.Context) (turn.ToolResult, error) {
	leave, err := a.admit(ctx)
	if err != nil {
		return turn.ToolResult{}, notCalledError(a.req.Tool, err)
	}
	defer leave()
	connecting, cancel := ctx, context.CancelFunc(func() {})
	if a.req.Waits { // the caller can retry
		connecting, cancel = context.WithTimeout(ctx, maxConnectWait)
	}
	a.session, err = a.connector.sessionFor(connecting, a.req)
	cancel()
	if err != nil {
		return turn.ToolResult{}, notCalledError(a.req.Tool, err)
	}
	defer a.session.leave()
	offered, err := a.session.offer(ctx, true)
	if err != nil {
		a.reportEnd(ctx, err) // the server did not answer the request for its list
		return turn.ToolResult{}, notCalledError(a.req.Tool, err)
	}
	d, err := tool.Matching(offered.tools, a.req, a.connector.name())
	if err != nil {
		return turn.ToolResult{}, err
	}
	a.name = offered.names[a.req.Tool]
	conn := a.session.conn
	conn.Used(false)
	a.freshSession = conn.OpenedAfter(a.admission.Began) || !a.req.Scheduled.IsZero() && conn.OpenedAfter(a.req.Scheduled)
	result, err := a.exchange(ctx, d)
	conn.Used(err == nil)
	if result.Detached {
		return result, err // it may still be answered: this is no failure of the server
	}
	a.reportEnd(ctx, err)
	var e *turn.Error
	if !a.req.Waits && errors.As(err, &e) && e.RetryAfter > 0 {
		// The caller makes the next attempt without a pause, so the pause is here. Meanwhile the call keeps its permit: the
		// server would refuse other calls, too.
		a.connector.pause(ctx, e.RetryAfter)
	}
	return result, err
}

// admit takes a place for the call (see occupy), and waits until the pool admits the call: at most as long as its
// timeout, or only briefly if the caller retries a call that was not sent (req.Waits). It deducts the wait from
// req.Timeout, if that is set. The caller must call leave when the attempt ends. The error gives the reason why the
// call may not be sent.
func (a *attempt) admit(ctx context.Context) (leave func(), err error) {
	vacate, err := a.connector.occupy(a.req)
	if err != nil {
		return nil, err
	}
	settings := a.connector.describer.settings[strings.TrimPrefix(a.req.Tool, a.connector.describer.prefix+"/")]
	began, wait := time.Now(), tool.FirstOf(a.req.Timeout, settings.Timeout, a.connector.describer.server.CallTimeout)
	if a.req.Waits {
		wait = min(wait, maxConnectWait)
	}
	if a.admission, err = a.connector.pool.Admit(ctx, a.req.Tenant, wait); err != nil {
		vacate()
		return nil, err
	}
	if a.req.Timeout > 0 { // 0 means the tool's or the server's own timeout, from which the wait is not deducted
		a.req.Timeout = max(a.req.Timeout-time.Since(began), time.Millisecond)
	}
	return func() { a.admission.End(); vacate() }, nil
}

// occupy takes one of the places for calls that occupy the worker, or returns an error if there is none. The number of
// places is limited, per server and for all servers, so that calls leave room for inferences. The caller must call
// leave to free the place. A call whose caller does not retry (req.Waits is false) takes no place, because it could not
// come again later.
func (c *connector) occupy(req turn.ToolRequest) (leave func(), err error) {
	if !req.Waits {
		return func() {}, nil
	}
	for i, places := range []chan struct{}{c.serverPlaces, c.workerPlaces} {
		select {
		case places <- struct{}{}:
		default:
			if i > 0 { // give back the server's place, which was taken first
				<-c.serverPlaces
			}
			return nil, noPlaceError(cap(places))
		}
	}
	return func() { <-c.serverPlaces; <-c.workerPlaces }, nil
}

// noPlaceError returns the error of a call for which all places are taken; most is their number.
func noPlaceError(most int) error {
	text := fmt.Sprintf("%d calls to tool servers are in flight on this worker, which is the maximum", most)
	return &pool.Outage{Problem: text, ModelText: text, Wait: noPlacePause}
}

// noPlacePause is the pause before the next attempt of a call for which there was no place.
const noPlacePause = 500 * time.Millisecond

// maxConnectWait bounds how long a call whose caller retries waits for the server. The caller can wait without
// occupying the worker.
const maxConnectWait = 2 * time.Second

// reportEnd reports the attempt's end to the pool's breaker: see pool.Admission.Settle. The end of the caller's time
// does not count as a cancellation. err, which may be nil, is only for operators.
func (a *attempt) reportEnd(ctx context.Context, err error) {
	problem := "it did not answer"
	if err != nil {
		problem = a.connector.clean(err.Error(), 400)
	}
	cancelled := ctx.Err() != nil && !timeIsUp(ctx)
	a.admission.Settle(a.session.conn, cancelled, problem)
}
