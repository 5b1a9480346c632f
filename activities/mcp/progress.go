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
	p := &callDeadline{idle: idle, end: time.Now().Add(max(idle, total))}
	p.timer = expiry.After(idle, func() { cancel(context.DeadlineExceeded) })
	return ctx, p, func() {
		p.stop()
		cancel(context.Canceled)
	}
}

func (p *callDeadline) stop() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.stopped = true
	p.timer.Stop()
}

// renew restarts the idle time.
func (p *callDeadline) renew() {
	if p == nil {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.reset()
}

func (p *callDeadline) reset() {
	if !p.stopped && p.asking == 0 {
		p.timer.Reset(min(p.idle, time.Until(p.end)))
	}
}

// hold stops the clock while an elicitation waits for the user; the function that it returns restarts the clock.
func (p *callDeadline) hold() (goOn func()) {
	if p == nil {
		return func() {}
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.asking++; p.asking == 1 {
		p.since = time.Now()
		p.timer.Stop()
	}
	return func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		if p.asking--; p.asking == 0 {
			p.end = p.end.Add(time.Since(p.since))
			p.reset()
		}
	}
}

// progressToken identifies one dispatch of a call to its server. It is unique among all dispatches under way, so that a
// notification about another dispatch is not taken for this one's.
func progressToken(req turn.ToolRequest) string {
	return fmt.Sprintf("%s#%d", callKey(req), req.Attempt)
}

// callKey identifies a call permanently, across all its dispatches.
func callKey(req turn.ToolRequest) string { return req.Turn + ":" + req.CallID }

// dispatches holds the calls of a session that are under way, by progress token.
type dispatches struct {
	mu sync.Mutex
	m  map[string]*dispatch
}

func (fs *dispatches) add(token string, f *dispatch) {
	fs.mu.Lock()
	defer fs.mu.Unlock()
	if fs.m == nil {
		fs.m = map[string]*dispatch{}
	}
	fs.m[token] = f
}

func (fs *dispatches) remove(token string, f *dispatch) {
	fs.mu.Lock()
	defer fs.mu.Unlock()
	if fs.m[token] == f { // the same dispatch may be under way twice if the caller sends it twice
		delete(fs.m, token)
	}
}

func (fs *dispatches) find(token any) *dispatch {
	name, _ := token.(string)
	fs.mu.Lock()
	defer fs.mu.Unlock()
	return fs.m[name]
}

// onlySuspendable returns the call whose user can respond to the server's elicitation, if there is exactly one such
// call. Otherwise err says why the user cannot be asked, and doubted holds the candidates that are ambiguous for the
// first time.
func (fs *dispatches) onlySuspendable() (found *dispatch, doubted []*dispatch, err error) {
	fs.mu.Lock()
	defer fs.mu.Unlock()
	var all []*dispatch
	for _, f := range fs.m {
		all = append(all, f) // those that cannot be suspended, too: the elicitation may be theirs
	}
	switch {
	case len(all) == 0, len(all) == 1 && all[0].suspended == nil:
		return nil, nil, errors.New("no call is under way whose user could be asked")
	case len(all) == 1:
		return all[0], nil, nil
	}
	for _, f := range all {
		if !f.doubted {
			f.doubted, doubted = true, append(doubted, f)
		}
	}
	return nil, doubted, fmt.Errorf("it is not known to which of the %d calls under way this belongs: "+
		"max_concurrent_calls = 1 for this server lets it be known", len(all))
}

// progressed handles a server's progress notification. It drops one about a call that has ended.
func (s *session) progressed(_ context.Context, n *sdk.ProgressNotificationClientRequest) {
	if f := s.dispatches.find(n.Params.ProgressToken); f != nil {
		f.progressed(n.Params)
	}
}

func (f *dispatch) progressed(p *sdk.ProgressNotificationParams) {
	f.deadline.renew()
	f.mu.Lock()
	defer f.mu.Unlock()
	now := time.Now()
	if f.over || f.req.Progress == nil || now.Sub(f.reportedAt) < progressEvery {
		return
	}
	f.reportedAt = now
	f.req.Progress(turn.ToolProgress{
		Done: max(p.Progress, 0), Total: max(p.Total, 0), Message: f.c.clean(p.Message, progressBytes-len("…")),
	})
}
