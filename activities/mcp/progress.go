package mcp

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/everturn/everturn/internal/expiry"
	"github.com/everturn/everturn/workflows/turn"
)

// Bounds of the progress reports of a call.
const (
	progressEvery = 250 * time.Millisecond // the shortest time between two reports
	progressBytes = 200                    // the longest message of a report, in bytes
)

// callDeadline bounds how long a call may run: idle after its last sign of life, and never beyond end. The nil
// callDeadline belongs to a call whose progress renews nothing: its context has a deadline.
type callDeadline struct {
	mu      sync.Mutex
	idle    time.Duration
	end     time.Time
	timer   *expiry.Timer
	asking  int       // elicitations in the middle of the call that wait for a response
	since   time.Time // when the first of them began to wait
	stopped bool
}

// wait returns the context that bounds a call. When the time is up, its cause is context.DeadlineExceeded.
func wait(ctx context.Context, idle, total time.Duration,
	held bool) (context.Context, *callDeadline, context.CancelFunc) {
	if total <= idle && !held {
		ctx, cancel := expiry.WithTimeout(ctx, idle)
		return ctx, nil, cancel
	}
	ctx, cancel := context.WithCancelCause(ctx)
	d := &callDeadline{idle: idle, end: time.Now().Add(max(idle, total))}
	d.timer = expiry.After(idle, func() { cancel(context.DeadlineExceeded) })
	return ctx, d, func() {
		d.stop()
		cancel(context.Canceled)
	}
}

func (d *callDeadline) stop() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.stopped = true
	d.timer.Stop()
}

// renew restarts the idle time.
func (d *callDeadline) renew() {
	if d == nil {
		return
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.reset()
}

func (d *callDeadline) reset() {
	if !d.stopped && d.asking == 0 {
		d.timer.Reset(min(d.idle, time.Until(d.end)))
	}
}

// hold stops the clock while an elicitation waits for the user; the function that it returns restarts the clock.
func (d *callDeadline) hold() (goOn func()) {
	if d == nil {
		return func() {}
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.asking++; d.asking == 1 {
		d.since = time.Now()
		d.timer.Stop()
	}
	return func() {
		d.mu.Lock()
		defer d.mu.Unlock()
		if d.asking--; d.asking == 0 {
			d.end = d.end.Add(time.Since(d.since))
			d.reset()
		}
	}
}

// progressToken identifies one attempt of a call to its server. It is unique among all attempts under way, so that a
// notification about another attempt is not taken for this one's.
func progressToken(req turn.ToolRequest) string {
	return fmt.Sprintf("%s#%d", callKey(req), req.Attempt)
}

// callKey identifies a call permanently, across all its attempts.
func callKey(req turn.ToolRequest) string { return req.Turn + ":" + req.CallID }

// attempts holds the calls of a session that are under way, by progress token.
type attempts struct {
	mu sync.Mutex
	m  map[string]*attempt
}

func (as *attempts) add(token string, a *attempt) {
	as.mu.Lock()
	defer as.mu.Unlock()
	if as.m == nil {
		as.m = map[string]*attempt{}
	}
	as.m[token] = a
}

func (as *attempts) remove(token string, a *attempt) {
	as.mu.Lock()
	defer as.mu.Unlock()
	if as.m[token] == a { // the same attempt may be under way twice if the caller sends it twice
		delete(as.m, token)
	}
}

func (as *attempts) find(token any) *attempt {
	name, _ := token.(string)
	as.mu.Lock()
	defer as.mu.Unlock()
	return as.m[name]
}

// onlySuspendable returns the call whose user can respond to the server's elicitation, if there is exactly one such
// call. Otherwise err says why the user cannot be asked, and doubted holds the candidates that are ambiguous for the
// first time.
func (as *attempts) onlySuspendable() (found *attempt, doubted []*attempt, err error) {
	as.mu.Lock()
	defer as.mu.Unlock()
	var all []*attempt
	for _, a := range as.m {
		all = append(all, a) // those that cannot be suspended, too: the elicitation may be theirs
	}
	switch {
	case len(all) == 0, len(all) == 1 && all[0].suspended == nil:
		return nil, nil, errors.New("no call is under way whose user could be asked")
	case len(all) == 1:
		return all[0], nil, nil
	}
	for _, a := range all {
		if !a.doubted {
			a.doubted, doubted = true, append(doubted, a)
		}
	}
	return nil, doubted, fmt.Errorf("it is not known to which of the %d calls under way this belongs: "+
		"max_concurrent_calls = 1 for this server lets it be known", len(all))
}

// progressed handles a server's progress notification. It drops one about a call that has ended.
func (s *session) progressed(_ context.Context, n *sdk.ProgressNotificationClientRequest) {
	if a := s.attempts.find(n.Params.ProgressToken); a != nil {
		a.progressed(n.Params)
	}
}

func (a *attempt) progressed(p *sdk.ProgressNotificationParams) {
	a.deadline.renew()
	a.mu.Lock()
	defer a.mu.Unlock()
	now := time.Now()
	if a.over || a.req.Progress == nil || now.Sub(a.reportedAt) < progressEvery {
		return
	}
	a.reportedAt = now
	a.req.Progress(turn.ToolProgress{
		Done: max(p.Progress, 0), Total: max(p.Total, 0), Message: a.c.clean(p.Message, progressBytes-len("…")),
	})
}
