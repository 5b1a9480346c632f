package capacity

import (
	"context"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/everturn/everturn/journal/fleet"
)

// Journal is what a Limiter needs of a journal.DB, which documents the methods.
type Journal interface {
	FleetScopes(ctx context.Context, names ...string) ([]fleet.ScopeState, error)
	LeaseCapacity(ctx context.Context, in fleet.CapacityInput) (fleet.CapacityResult, error)
}

// Options configure a Limiter.
type Options struct {
	Journal Journal
	Worker  string // names this process; no other one has the same name
	// Provider and Tenant are the default limits of each provider and each tenant. The journal may have others.
	Provider, Tenant fleet.Limits
}

// Request is one request to a provider.
type Request struct {
	Tenant, Provider, Model string
	Tokens                  int64     // estimated input and output tokens
	Background              bool      // of a turn that no user waits for
	Since                   time.Time // when it began to wait; of two requests, the older one is granted first
}

const (
	// knownFor is how long a worker caches whether a request has limits. After a limit or a pause is set, all workers
	// obey it within this time.
	knownFor = 250 * time.Millisecond
	// batchFor is the shortest time between two transactions. The requests that arrive in it share the next transaction.
	batchFor = 20 * time.Millisecond
	// settleWithin is how long an ended request may wait for the next transaction.
	settleWithin = 250 * time.Millisecond
	// renewEvery is how often requests in flight are reported, so that they do not expire.
	renewEvery = fleet.LeaseExpiry / 4
	// leaseWithin is the timeout of a transaction.
	leaseWithin = 5 * time.Second
)

// Limiter grants requests within the fleet limits. A nil Limiter grants every request at once.
type Limiter struct {
	o    Options
	wake chan struct{} // makes run compute the time of the next transaction again
	quit chan struct{} // closed by Close
	done chan struct{} // closed when run has ended

	mu         sync.Mutex
	known      map[string]known         // by the scopes of a request
	waiting    []*waiter                // requests for the next transaction
	ended      []fleet.EndedRequest     // not reported to the journal yet
	retryAfter map[string]time.Duration // by scope: waits that providers asked for, not reported yet
	inFlight   map[string]int64         // number of requests in flight by scope
	leased     time.Time                // when the last transaction began
}

// known is what the Limiter knows, until a time, about the scopes of a request.
type known struct {
	limited bool // one of the scopes has a limit or is paused
	until   time.Time
}

// waiter is a request that waits. Both channels have room for one value, so that the Limiter does not block.
type waiter struct {
	needs      fleet.CapacityRequest
	since      time.Time           // Request.Since
	due        time.Time           // when the journal is asked again; zero: in the next transaction
	until      time.Time           // when the wait ends
	lateGrants int                 // number of grants that came too late
	delayed    chan *fleet.Refusal // gets a refusal if the request waits on for a noticeable time
	answer     chan answer         // gets the end of the wait
}

// answer is how a wait ended. Exactly one of the fields is set.
type answer struct {
	lease   *Lease
	refusal *fleet.Refusal
	err     error
}

// New returns a Limiter and starts its goroutine. The caller must close the Limiter.
func New(o Options) *Limiter {
	l := &Limiter{o: o, wake: make(chan struct{}, 1), quit: make(chan struct{}), done: make(chan struct{}),
		known: map[string]known{}, retryAfter: map[string]time.Duration{}, inFlight: map[string]int64{}}
	go l.run()
	return l
}

// Close stops the Limiter after a last transaction, which reports ended requests. The caller makes sure that no
// request waits.
func (l *Limiter) Close() {
	if l != nil {
		close(l.quit)
		<-l.done
	}
}

// Lease is a granted request in flight. The lease of a request without limits is empty.
type Lease struct {
	limiter *Limiter // nil in an empty lease
	request fleet.CapacityRequest
	at      time.Time // fleet.CapacityResult.At
	once    sync.Once
}

// End ends the request with the tokens that it used. A negative number means that they are unknown; the estimate
// counts then. Only the first call of End has an effect.
func (lease *Lease) End(used int64) {
	if lease.limiter == nil {
		return
	}
	lease.once.Do(func() {
		l := lease.limiter
		l.mu.Lock()
		defer l.mu.Unlock()
		for _, scope := range lease.request.Scopes {
			l.inFlight[scope]--
		}
		if used < 0 {
			used = lease.request.Tokens
		}
		l.ended = append(l.ended, fleet.EndedRequest{Scopes: lease.request.Scopes, At: lease.at, Reserved: lease.request.Tokens,
			Used: used})
		l.signal()
	})
}

// Admit waits until the limits allow a request, for at most maxWait. It returns the request's lease, or the refusal if
// the limits do not allow the request in time; the caller may then try again after Refusal.Retry, unless the refusal
// is final. Before a wait long enough to be shown to users, Admit calls onWait. If nothing limits the request, Admit
// returns an empty lease at once. It returns an error if ctx ends or the journal is unavailable.
func (l *Limiter) Admit(ctx context.Context, r Request, maxWait time.Duration, onWait func(fleet.Refusal)) (*Lease,
	*fleet.Refusal, error) {
	if l == nil {
		return &Lease{}, nil, nil
	}
	needs := fleet.CapacityRequest{Tokens: r.Tokens, Background: r.Background, Scopes: r.scopes()}
	limited, err := l.limited(ctx, needs.Scopes)
	if err != nil || !limited {
		return &Lease{}, nil, err
	}
	w := &waiter{needs: needs, since: r.Since, until: time.Now().Add(maxWait), delayed: make(chan *fleet.Refusal, 1),
		answer: make(chan answer, 1)}
	l.mu.Lock()
	l.waiting = append(l.waiting, w)
	l.signal()
	l.mu.Unlock()
	for {
		select {
		case refusal := <-w.delayed:
			onWait(*refusal)
		case a := <-w.answer:
			return a.lease, a.refusal, a.err
		case <-ctx.Done():
			go l.abandon(w) // it may have to wait for the end of a transaction
			return nil, nil, context.Cause(ctx)
		}
	}
}

// scopes returns the scopes whose limits bound the request: its provider, its model and its tenant.
func (r Request) scopes() []string {
	return []string{fleet.ProviderScope(r.Provider, ""), fleet.ProviderScope(r.Provider, r.Model),
		fleet.TenantScope(r.Tenant)}
}

// limited reports whether a request with these scopes needs a lease of the journal, because one of the scopes has a
// limit or is paused. It remembers the result for knownFor, unless the journal returns an error.
func (l *Limiter) limited(ctx context.Context, scopes []string) (bool, error) {
	key := strings.Join(scopes, "\x00")
	l.mu.Lock()
	k, ok := l.known[key]
	l.mu.Unlock()
	if ok && time.Now().Before(k.until) {
		return k.limited, nil
	}
	now := time.Now()
	found, err := l.o.Journal.FleetScopes(ctx, scopes...)
	k.limited = slices.ContainsFunc(scopes, func(scope string) bool {
		s := fleet.ScopeState{} // for a scope that the journal does not have, only the defaults apply
		if i := slices.IndexFunc(found, func(s fleet.ScopeState) bool { return s.Scope == scope }); i >= 0 {
			s = found[i]
		}
		return s.Applies(l.defaultOf(scope))
	})
	if err == nil {
		l.mu.Lock()
		defer l.mu.Unlock()
		if len(l.known) > 1000 { // bounded, because there may be many tenants
			clear(l.known)
		}
		k.until = now.Add(knownFor)
		l.known[key] = k
	}
	return k.limited, err
}

// RetryAfter records that a provider has refused a request to a model and asked for a wait. The next transaction
// reports it, so that all workers wait.
func (l *Limiter) RetryAfter(provider, model string, wait time.Duration) {
	if l == nil || wait <= 0 {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	scope := fleet.ProviderScope(provider, model)
	l.retryAfter[scope] = max(l.retryAfter[scope], wait)
	clear(l.known) // it may say that the scope has no limit
	l.signal()
}

// abandon ends the wait of a request that was cancelled. If a transaction with the request is under way, abandon waits
// for its answer and ends the lease, if there is one.
func (l *Limiter) abandon(w *waiter) {
	l.mu.Lock()
	w.until = time.Time{} // the transaction must not put the request back
	n := len(l.waiting)
	l.waiting = slices.DeleteFunc(l.waiting, func(other *waiter) bool { return other == w })
	removed := len(l.waiting) < n
	l.mu.Unlock()
	if removed {
		return
	}
	if a := <-w.answer; a.lease != nil {
		a.lease.End(0)
	}
}

// signal wakes run. It does not block: if a signal is pending, another one is not needed.
func (l *Limiter) signal() {
	select {
	case l.wake <- struct{}{}:
	default:
	}
}

// run runs a transaction whenever next says, until Close, and then a last one.
func (l *Limiter) run() {
	defer close(l.done)
	for {
		timer := time.NewTimer(l.next())
		select {
		case <-l.wake: // next may return another time now
		case <-timer.C:
			l.transact()
		case <-l.quit:
			timer.Stop()
			l.transact()
			return
		}
		timer.Stop()
	}
}

// next returns the time until the next transaction, which is at least batchFor after the last one began.
func (l *Limiter) next() time.Duration {
	l.mu.Lock()
	defer l.mu.Unlock()
	next := time.Now().Add(time.Hour) // with nothing to do, until a signal
	for _, n := range l.inFlight {
		if n > 0 {
			next = l.leased.Add(renewEvery)
		}
	}
	if len(l.ended) > 0 {
		next = earlier(next, l.leased.Add(settleWithin))
	}
	if len(l.retryAfter) > 0 {
		next = earlier(next, l.leased) // at once
	}
	for _, w := range l.waiting {
		next = earlier(next, w.due)
	}
	if soonest := l.leased.Add(batchFor); next.Before(soonest) {
		next = soonest
	}
	return time.Until(next)
}

// earlier returns the earlier one of two times.
func earlier(a, b time.Time) time.Time {
	if b.Before(a) {
		return b
	}
	return a
}
