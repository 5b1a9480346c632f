package toolbox

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/everturn/everturn/workflows/turn"
)

// Bounds of what is told of a call's progress.
const (
	progressEvery = 250 * time.Millisecond // one report at most in this time
	progressBytes = 200                    // of a report's message
)

// patience is how long a call is waited for: idle after its last sign of life, and never beyond end. The nil patience is
// that of a call whose progress renews nothing: its context has a deadline.
type patience struct {
	mu      sync.Mutex
	idle    time.Duration
	end     time.Time
	timer   *time.Timer
	asking  int       // people that are asked in the middle of the call
	since   time.Time // the first of them was asked
	stopped bool
}

// wait makes the context in which a call of s is waited for. When the time is up, its cause is
// context.DeadlineExceeded.
func (s *session) wait(ctx context.Context, idle, total time.Duration, held bool) (context.Context, *patience, context.CancelFunc) {
	if total <= idle && !held {
		ctx, cancel := context.WithTimeout(ctx, idle)
		return ctx, nil, cancel
	}
	ctx, cancel := context.WithCancelCause(ctx)
	p := &patience{idle: idle, end: time.Now().Add(max(idle, total))}
	p.timer = time.AfterFunc(idle, func() { cancel(context.DeadlineExceeded) })
	return ctx, p, func() {
		p.stop()
		cancel(context.Canceled)
	}
}

func (p *patience) stop() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.stopped = true
	p.timer.Stop()
}

// renew begins the idle time anew.
func (p *patience) renew() {
	if p == nil {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.reset()
}

func (p *patience) reset() {
	if !p.stopped && p.asking == 0 {
		p.timer.Reset(min(p.idle, time.Until(p.end)))
	}
}

// hold stops the clock while a person is asked; the function that it returns lets it go on.
func (p *patience) hold() (goOn func()) {
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

// progressToken names one dispatch of a call to its server. It is unique among all that are under way: what is said of
// another dispatch is not taken for this one's.
func progressToken(req turn.ToolRequest) string {
	return fmt.Sprintf("%s#%d", callKey(req), req.Attempt)
}

// callKey names a call for ever, over all its dispatches.
func callKey(req turn.ToolRequest) string { return req.Turn + ":" + req.CallID }

// flights are the calls of a session that are under way, by progress token.
type flights struct {
	mu sync.Mutex
	m  map[string]*flight
}

func (fs *flights) add(token string, f *flight) {
	fs.mu.Lock()
	defer fs.mu.Unlock()
	if fs.m == nil {
		fs.m = map[string]*flight{}
	}
	fs.m[token] = f
}

func (fs *flights) remove(token string, f *flight) {
	fs.mu.Lock()
	defer fs.mu.Unlock()
	if fs.m[token] == f { // the same dispatch may be under way twice, where a host is asked to
		delete(fs.m, token)
	}
}

func (fs *flights) find(token any) *flight {
	name, _ := token.(string)
	fs.mu.Lock()
	defer fs.mu.Unlock()
	return fs.m[name]
}

// only is the flight that can have its server's question answered, where there is exactly one. Otherwise its error says why
// nobody is asked; doubted are the flights among several that were not in doubt before.
func (fs *flights) only() (found *flight, doubted []*flight, err error) {
	fs.mu.Lock()
	defer fs.mu.Unlock()
	var all []*flight
	for _, f := range fs.m {
		if f.req.Hold != nil {
			all = append(all, f)
		}
	}
	switch len(all) {
	case 0:
		return nil, nil, errors.New("no call is under way whose user could be asked")
	case 1:
		return all[0], nil, nil
	}
	for _, f := range all {
		if !f.doubted {
			f.doubted, doubted = true, append(doubted, f)
		}
	}
	return nil, doubted, fmt.Errorf("it is not known to which of the %d calls under way this belongs: max_concurrent_calls = 1 for this server lets it be known", len(all))
}

// progressed takes a server's notification. One about a call that is over is dropped.
func (s *session) progressed(_ context.Context, n *mcp.ProgressNotificationClientRequest) {
	if f := s.flights.find(n.Params.ProgressToken); f != nil {
		f.progressed(n.Params)
	}
}

func (f *flight) progressed(p *mcp.ProgressNotificationParams) {
	f.patience.renew()
	f.mu.Lock()
	defer f.mu.Unlock()
	now := time.Now()
	if f.over || f.req.Progress == nil || now.Sub(f.told) < progressEvery {
		return
	}
	f.told = now
	f.req.Progress(turn.ToolProgress{
		Done: max(p.Progress, 0), Total: max(p.Total, 0), Message: f.s.owner.clean(p.Message, progressBytes-len("…")),
	})
}
