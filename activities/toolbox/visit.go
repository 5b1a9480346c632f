package toolbox

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/everturn/everturn/workflows/turn"
)

// visit is one call's time with a server, from the queue until the call's ending is reported to the breaker.
type visit struct {
	c       *connector
	p       *party
	began   time.Time
	finding bool  // the breaker is half open, and this call is its probe
	answers int64 // responses that the server had given before
	settled bool
	leave   func() // frees the call's place in the worker
}

// visit waits, within the call's own deadline, until the call may go to the server, and deducts the wait from the
// deadline. Its error says why the call may not.
func (c *connector) visit(ctx context.Context, req *turn.ToolRequest) (*visit, error) {
	if c.local != nil {
		return &visit{c: c, began: time.Now(), settled: true}, nil
	}
	leave, err := c.occupy(*req)
	if err != nil {
		return nil, err
	}
	v, err := c.admitted(ctx, req)
	if err != nil {
		leave()
		return nil, err
	}
	v.leave = leave
	return v, nil
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
	return &outage{all: told, told: told, wait: crowdedPause}
}

// crowdedPause is how long a call waits before its next attempt if there was no place.
const crowdedPause = 500 * time.Millisecond

// admitted waits in the server's queue and asks the breaker.
func (c *connector) admitted(ctx context.Context, req *turn.ToolRequest) (*visit, error) {
	p, err := c.arrive(req.Tenant)
	if err != nil {
		return nil, err
	}
	began := time.Now()
	patience := c.patience(*req)
	if req.Waits {
		patience = min(patience, connectPatience)
	}
	if err := c.queue(ctx, patience); err != nil {
		c.depart(p)
		return nil, err
	}
	if req.Timeout > 0 {
		req.Timeout = max(req.Timeout-time.Since(began), time.Millisecond)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	ok, finding := p.breaker.admit(time.Now())
	if !ok {
		<-c.permits
		p.visits--
		return nil, c.unavailable(p, p.breaker.pause(time.Now()))
	}
	c.record.calls++
	return &visit{c: c, p: p, began: time.Now(), finding: finding, answers: p.answers}, nil
}

// arrive finds the tenant's party and counts the call; depart undoes the count. It fails if the breaker makes waiting
// pointless.
func (c *connector) arrive(tenant string) (*party, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	p, err := c.party(tenant)
	if err != nil {
		return nil, err
	}
	now := time.Now()
	barred := p.breaker.strikes >= strikesAllowed || p.breaker.quarantined(now)
	if wait := p.breaker.pause(now); wait > 0 && barred {
		return nil, c.unavailable(p, wait)
	}
	p.visits++
	return p, nil
}

func (c *connector) depart(p *party) {
	c.mu.Lock()
	defer c.mu.Unlock()
	p.visits--
}

// queue waits for a call in flight to end if there are as many as allowed.
func (c *connector) queue(ctx context.Context, within time.Duration) error {
	select {
	case c.permits <- struct{}{}:
		return nil
	default:
	}
	timer := time.NewTimer(within)
	defer timer.Stop()
	select {
	case c.permits <- struct{}{}:
		return nil
	case <-timer.C:
	case <-ctx.Done():
	case <-c.ctx.Done():
		return errHostClosed
	}
	return inOurs(fmt.Sprintf("%s has %d calls in flight, which is the most (max_concurrent_calls), and none of them ended in time", c.name(), cap(c.permits)))
}

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
func (v *visit) call(ctx context.Context, req turn.ToolRequest, o ongoing) (turn.ToolResult, error) {
	s, err := v.connection(ctx, req)
	if err != nil {
		return turn.ToolResult{}, notCalled(req.Tool, err)
	}
	defer s.leave()
	offered, err := s.offer(ctx, true)
	if err != nil {
		v.verdict(ctx, s, err)
		return turn.ToolResult{}, notCalled(req.Tool, err)
	}
	d, ok := offered.tools[req.Tool]
	if !ok {
		return turn.ToolResult{}, drift(req.Tool + " is no longer offered by " + v.c.name())
	}
	if d.Hash != req.Hash {
		return turn.ToolResult{}, drift(req.Tool + " is not what this turn was given: its description, parameters or annotations changed")
	}
	s.use()
	defer s.use()
	fresh := !s.since.Before(v.began) || !req.Dispatched.IsZero() && s.since.After(req.Dispatched)
	result, err := s.call(ctx, req, o, d, offered.names[req.Tool], fresh)
	if err == nil {
		s.bind()
	}
	if v.c.goesOn(offered.names[req.Tool], result) {
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

// verdict reports the call's ending to the breaker. Only a call without a timely response counts against the server,
// and not if its caller cancelled it, another call got a response meanwhile, or the connection was lost.
func (v *visit) verdict(ctx context.Context, s *session, err error) {
	c, p := v.c, v.p
	if v.settled {
		return
	}
	v.settled = true
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case p.answers > v.answers:
	case ctx.Err() != nil && !timeIsUp(ctx) || c.ctx.Err() != nil:
		p.breaker.undecided()
	default:
		c.record.failures++
		if s.isLost() {
			p.breaker.undecided()
			break
		}
		p.problem, p.told = "it did not answer", "it did not answer in time"
		if err != nil {
			p.problem = c.clean(err.Error(), 400)
		}
		c.record.failed(p.problem)
		p.breaker.struck(time.Now())
		c.changed()
	}
}

// end leaves the queue and frees the call's place.
func (v *visit) end() {
	if v.c.local != nil {
		return
	}
	<-v.c.permits
	v.leave()
	v.c.mu.Lock()
	defer v.c.mu.Unlock()
	v.p.visits--
	if v.finding && !v.settled { // the call ended before verdict
		v.p.breaker.undecided()
	}
}
