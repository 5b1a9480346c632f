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

// callDeadline is the deadline of a call that progress can extend. The call ends when it has reported no progress for
// the duration idle, and in any case at the time end. Both stop while an elicitation waits for the user. A nil
// callDeadline belongs to a call with a fixed deadline.
type callDeadline struct {
	mu        sync.Mutex
	idle      time.Duration
	end       time.Time
	timer     *expiry.Timer
	holds     int       // elicitations in the middle of the call that wait for a response
	heldSince time.Time // when the first of them began to wait
	stopped   bool
}

// withCallDeadline returns a context that ends when the call's time is up, with the cause context.DeadlineExceeded.
// idle is the call's timeout, which progress renews up to total; if total is not longer, the timeout is fixed. held
// means that the server may hold the call open during an elicitation, which stops the clock.
func withCallDeadline(ctx context.Context, idle, total time.Duration,
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

// stop stops the clock permanently, when the call has ended.
func (d *callDeadline) stop() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.stopped = true
	d.timer.Stop()
}

// renew restarts the idle time, because the call has reported progress.
func (d *callDeadline) renew() {
	if d == nil {
		return
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.reset()
}

// reset restarts the timer, unless the clock is stopped. The lock is held.
func (d *callDeadline) reset() {
	if !d.stopped && d.holds == 0 {
		d.timer.Reset(min(d.idle, time.Until(d.end)))
	}
}

// hold stops the clock while an elicitation waits for the user. The caller must call goOn to restart it, which also
// extends the end by the time that the clock was stopped.
func (d *callDeadline) hold() (goOn func()) {
	if d == nil {
		return func() {}
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.holds++; d.holds == 1 {
		d.heldSince = time.Now()
		d.timer.Stop()
	}
	return func() {
		d.mu.Lock()
		defer d.mu.Unlock()
		if d.holds--; d.holds == 0 {
			d.end = d.end.Add(time.Since(d.heldSince))
			d.reset()
		}
	}
}

// progressToken returns the token by which the server's progress notifications name an attempt of a call. Each attempt
// has its own token, so that a notification about an earlier attempt does not count for a later one.
func progressToken(req turn.ToolRequest) string {
	return fmt.Sprintf("%s#%d", callKey(req), req.Attempt)
}

// callKey returns the identity of a call, "<turn>:<call>", which is the same for all its attempts.
func callKey(req turn.ToolRequest) string { return req.Turn + ":" + req.CallID }

// attempts holds the attempts that are under way in a session, by progress token.
type attempts struct {
	mu sync.Mutex
	m  map[string]*attempt
}

// add adds an attempt under its progress token.
func (as *attempts) add(token string, a *attempt) {
	as.mu.Lock()
	defer as.mu.Unlock()
	if as.m == nil {
		as.m = map[string]*attempt{}
	}
	as.m[token] = a
}

// remove removes an attempt, unless another one has taken its token.
func (as *attempts) remove(token string, a *attempt) {
	as.mu.Lock()
	defer as.mu.Unlock()
	if as.m[token] == a { // a caller may run the same attempt twice at the same time
		delete(as.m, token)
	}
}

// find returns the attempt with this progress token, which the server sent, or nil.
func (as *attempts) find(token any) *attempt {
	name, _ := token.(string)
	as.mu.Lock()
	defer as.mu.Unlock()
	return as.m[name]
}

// onlyCandidate returns the call to which an elicitation of the server must belong: the only one under way, if its user
// can be asked. Otherwise err says why the user cannot be asked. If several calls are under way, ambiguous holds those
// that no earlier onlyCandidate has returned as ambiguous, so that each is logged once.
func (as *attempts) onlyCandidate() (found *attempt, ambiguous []*attempt, err error) {
	as.mu.Lock()
	defer as.mu.Unlock()
	var all []*attempt
	for _, a := range as.m {
		all = append(all, a) // including calls without Elicit: the elicitation may belong to one of them
	}
	switch {
	case len(all) == 0, len(all) == 1 && all[0].req.Elicit == nil:
		return nil, nil, errors.New("no call is under way whose user could be asked")
	case len(all) == 1:
		return all[0], nil, nil
	}
	for _, a := range all {
		if !a.ambiguityLogged {
			a.ambiguityLogged, ambiguous = true, append(ambiguous, a)
		}
	}
	return nil, ambiguous, fmt.Errorf("it is not known to which of the %d calls under way this belongs: "+
		"max_concurrent_calls = 1 for this server lets it be known", len(all))
}

// handleProgress handles a progress notification of the server. It ignores one whose call has ended.
func (s *session) handleProgress(_ context.Context, n *sdk.ProgressNotificationClientRequest) {
	if a := s.attempts.find(n.Params.ProgressToken); a != nil {
		a.reportProgress(n.Params)
	}
}

// reportProgress extends the call's deadline and passes the progress to the caller, at most every progressEvery. It
// holds the lock while it does, so that stopProgress waits for it.
func (a *attempt) reportProgress(p *sdk.ProgressNotificationParams) {
	a.deadline.renew()
	a.mu.Lock()
	defer a.mu.Unlock()
	now := time.Now()
	if a.progressOver || a.req.Progress == nil || now.Sub(a.reportedAt) < progressEvery {
		return
	}
	a.reportedAt = now
	a.req.Progress(turn.ToolProgress{
		Done: max(p.Progress, 0), Total: max(p.Total, 0), Message: a.connector.clean(p.Message, progressBytes-len("…")),
	})
}
