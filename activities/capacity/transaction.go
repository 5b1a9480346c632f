package capacity

import (
	"context"
	"slices"
	"strings"
	"time"

	"github.com/everturn/everturn/journal/fleet"
)

// take returns the input of a transaction and the waiters of its requests, which it removes from the waiting ones. The
// waiters that are not due ask too: otherwise a later request could overtake them.
func (l *Limiter) take() (in fleet.CapacityInput, asking []*waiter) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.leased = time.Now()
	asking, l.waiting = l.waiting, nil
	slices.SortStableFunc(asking, func(a, b *waiter) int {
		if a.needs.Background != b.needs.Background {
			if b.needs.Background {
				return -1
			}
			return 1
		}
		return a.since.Compare(b.since)
	})
	in = fleet.CapacityInput{Worker: l.o.Worker, Defaults: map[string]fleet.Limits{}, Ended: l.ended,
		RetryAfter: l.retryAfter, InFlight: map[string]int64{}}
	l.ended, l.retryAfter = nil, map[string]time.Duration{}
	for scope, n := range l.inFlight {
		if in.InFlight[scope] = n; n == 0 {
			delete(l.inFlight, scope) // reported a last time
		}
		in.Defaults[scope] = l.defaultOf(scope)
	}
	for _, w := range asking {
		in.Requests = append(in.Requests, w.needs)
		for _, scope := range w.needs.Scopes {
			in.Defaults[scope] = l.defaultOf(scope)
		}
	}
	for _, e := range in.Ended {
		for _, scope := range e.Scopes {
			in.Defaults[scope] = l.defaultOf(scope)
		}
	}
	return in, asking
}

// defaultOf returns the configured limits of a scope. A model has none of its own.
func (l *Limiter) defaultOf(scope string) fleet.Limits {
	switch {
	case fleet.IsTenantScope(scope):
		return l.o.Tenant
	case strings.Contains(scope, "/"): // a model
		return nil
	}
	return l.o.Provider
}

// lease runs one transaction and answers the waiters.
func (l *Limiter) lease() {
	in, asking := l.take()
	if len(in.Requests)+len(in.Ended)+len(in.RetryAfter)+len(in.InFlight) == 0 {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), leaseWithin)
	defer cancel()
	res, err := l.o.Journal.LeaseCapacity(ctx, in)
	if err != nil {
		l.keep(in)
	}
	for i, w := range asking {
		switch {
		case err != nil:
			w.answer <- answer{err: err}
		case res.Refusals[i] == nil:
			l.granted(w, res)
		default:
			l.refused(w, res.Refusals[i])
		}
	}
}

// maxLate bounds how often a request asks again because its grant came too late.
const maxLate = 3

// maxKept bounds the ended requests that are kept while the journal is unavailable.
const maxKept = 10_000

// keep lets the next transaction report what a failed one has reported. If that was committed after all, the tokens are
// counted twice, rather than not at all.
func (l *Limiter) keep(in fleet.CapacityInput) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.ended)+len(in.Ended) <= maxKept {
		l.ended = append(in.Ended, l.ended...)
	}
	for scope, wait := range in.RetryAfter {
		l.retryAfter[scope] = max(l.retryAfter[scope], wait)
	}
}

// granted answers a waiter, unless the grant comes too late: a request that is sent now would not be in the span of
// time in which the journal counts it. Such a request asks again at most maxLate times: with a slow journal all grants
// are late, and each counts.
func (l *Limiter) granted(w *waiter, res fleet.CapacityResult) {
	l.mu.Lock()
	for _, scope := range w.needs.Scopes {
		l.inFlight[scope]++
	}
	l.mu.Unlock()
	lease := &Lease{limiter: l, request: w.needs, at: res.At}
	if time.Since(res.Read) > fleet.ArrivalSlack/2 && w.late < maxLate {
		w.late++
		if l.again(w) {
			lease.End(0)
			return
		}
	}
	w.answer <- answer{lease: lease}
}

// again lets a waiter ask again at w.due if it may wait until then.
func (l *Limiter) again(w *waiter) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if w.due.After(w.until) || time.Now().After(w.until) {
		return false
	}
	l.waiting = append(l.waiting, w)
	l.signal()
	return true
}

// moment is the longest wait that is not shown.
const moment = 300 * time.Millisecond

// refused lets a waiter wait if it may, or answers it.
func (l *Limiter) refused(w *waiter, refusal *fleet.Refusal) {
	w.due = time.Now().Add(max(refusal.Retry, batchFor))
	if refusal.Final || !l.again(w) {
		w.answer <- answer{refusal: refusal}
		return
	}
	if refusal.Retry > moment {
		select {
		case w.delayed <- refusal:
		default:
		}
	}
}
