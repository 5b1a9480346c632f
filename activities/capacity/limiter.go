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
	// Provider and Tenant are the limits of each provider and of each tenant for which the journal has none.
	Provider, Tenant fleet.Limits
}

// Request is one request to a provider.
type Request struct {
	Tenant, Provider, Model string
	Tokens                  int64     // an estimate of what it will use
	Background              bool      // of a scheduled turn
	Since                   time.Time // it waits since then; of two requests, the older one is granted first
}

const (
	// knownFor is how long a worker relies on what it knows of a scope that has no limits. It is the time in which all
	// workers obey a limit that is set, or a pause.
	knownFor = 250 * time.Millisecond
	// batchFor is the shortest time between two transactions. The requests that come meanwhile share the next one.
	batchFor = 20 * time.Millisecond
	// settleWithin is how long an ended request may wait for the next transaction.
	settleWithin = 250 * time.Millisecond
	renewEvery   = fleet.LeaseExpiry / 4
	leaseWithin  = 5 * time.Second // of one transaction
)

// Limiter grants requests. A nil Limiter grants all at once.
type Limiter struct {
	o    Options
	wake chan struct{}
	quit chan struct{}
	done chan struct{}

	mu         sync.Mutex
	known      map[string]known // by the scopes of a request
	waiting    []*waiter
	ended      []fleet.EndedRequest
	retryAfter map[string]time.Duration
	inFlight   map[string]int64
	leased     time.Time // the last transaction began
}

type known struct {
	limited bool
	until   time.Time
}

// waiter is a request that waits. Its channels have room for one value.
type waiter struct {
	needs   fleet.CapacityRequest
	since   time.Time
	due     time.Time           // ask the journal then
	until   time.Time           // wait until then
	late    int                 // how often it was granted too late
	delayed chan *fleet.Refusal // why it waits
	answer  chan answer
}

// answer is the end of a wait. One of the fields is set.
type answer struct {
	lease   *Lease
	refusal *fleet.Refusal
	err     error
}

// New starts a Limiter. The caller closes it.
func New(o Options) *Limiter {
	l := &Limiter{o: o, wake: make(chan struct{}, 1), quit: make(chan struct{}), done: make(chan struct{}),
		known: map[string]known{}, retryAfter: map[string]time.Duration{}, inFlight: map[string]int64{}}
	go l.run()
	return l
}

// Close stops the Limiter after a last transaction. No request may wait.
func (l *Limiter) Close() {
	if l != nil {
		close(l.quit)
		<-l.done
	}
}

// Lease is a granted request in flight.
type Lease struct {
	limiter *Limiter
	request fleet.CapacityRequest
	at      time.Time
	once    sync.Once
}

// End ends the request. used are its tokens; a negative number means that they are not known, so the estimate stands.
// A lease that has expired meanwhile changes nothing for the request.
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

// Admit waits until the limits allow a request, for at most the time atMost, and returns its lease, or else the refusal.
// It calls onWait before it waits longer than a moment. The request may be tried again after Refusal.Retry, unless the
// refusal is final. If nothing limits the request, Admit returns an empty lease at once.
func (l *Limiter) Admit(ctx context.Context, r Request, atMost time.Duration, onWait func(fleet.Refusal)) (*Lease,
	*fleet.Refusal, error) {
	if l == nil {
		return &Lease{}, nil, nil
	}
	needs := fleet.CapacityRequest{Tokens: r.Tokens, Background: r.Background, Scopes: r.scopes()}
	limited, err := l.limited(ctx, needs.Scopes)
	if err != nil || !limited {
		return &Lease{}, nil, err
	}
	w := &waiter{needs: needs, since: r.Since, until: time.Now().Add(atMost), delayed: make(chan *fleet.Refusal, 1),
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
			go l.abandon(w)
			return nil, nil, context.Cause(ctx)
		}
	}
}

func (r Request) scopes() []string {
	return []string{fleet.ProviderScope(r.Provider, ""), fleet.ProviderScope(r.Provider, r.Model),
		fleet.TenantScope(r.Tenant)}
}

// limited reports whether a request has to ask the journal.
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
		s := fleet.ScopeState{}
		if i := slices.IndexFunc(found, func(s fleet.ScopeState) bool { return s.Scope == scope }); i >= 0 {
			s = found[i]
		}
		return s.Applies(l.defaultOf(scope))
	})
	if err == nil {
		l.mu.Lock()
		defer l.mu.Unlock()
		if len(l.known) > 1000 { // of many tenants
			clear(l.known)
		}
		k.until = now.Add(knownFor)
		l.known[key] = k
	}
	return k.limited, err
}

// RetryAfter records that a provider has refused a request of a model and asked for a wait.
func (l *Limiter) RetryAfter(provider, model string, wait time.Duration) {
	if l == nil || wait <= 0 {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	scope := fleet.ProviderScope(provider, model)
	l.retryAfter[scope] = max(l.retryAfter[scope], wait)
	clear(l.known)
	l.signal()
}

// abandon ends the wait of a request that was cancelled. A transaction that asks for it may be under way.
func (l *Limiter) abandon(w *waiter) {
	l.mu.Lock()
	w.until = time.Time{}
	n := len(l.waiting)
	l.waiting = slices.DeleteFunc(l.waiting, func(other *waiter) bool { return other == w })
	left := len(l.waiting) < n
	l.mu.Unlock()
	if left {
		return
	}
	if a := <-w.answer; a.lease != nil {
		a.lease.End(0)
	}
}

// signal wakes the loop. The caller holds the mutex.
func (l *Limiter) signal() {
	select {
	case l.wake <- struct{}{}:
	default:
	}
}

// run asks the journal whenever a request is due.
func (l *Limiter) run() {
	defer close(l.done)
	for {
		timer := time.NewTimer(l.next())
		select {
		case <-l.wake:
		case <-timer.C:
			l.lease()
		case <-l.quit:
			timer.Stop()
			l.lease()
			return
		}
		timer.Stop()
	}
}

// next returns the time until the next transaction.
func (l *Limiter) next() time.Duration {
	l.mu.Lock()
	defer l.mu.Unlock()
	next := time.Now().Add(time.Hour)
	for _, n := range l.inFlight {
		if n > 0 {
			next = l.leased.Add(renewEvery)
		}
	}
	if len(l.ended) > 0 {
		next = earlier(next, l.leased.Add(settleWithin))
	}
	if len(l.retryAfter) > 0 {
		next = earlier(next, l.leased)
	}
	for _, w := range l.waiting {
		next = earlier(next, w.due)
	}
	if soonest := l.leased.Add(batchFor); next.Before(soonest) {
		next = soonest
	}
	return time.Until(next)
}

func earlier(a, b time.Time) time.Time {
	if b.Before(a) {
		return b
	}
	return a
}
