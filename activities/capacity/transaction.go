package capacity

import (
	"context"
	"slices"
	"strings"
	"time"

	"github.com/everturn/everturn/journal/fleet"
)

// takeBatch removes all waiters from l.waiting and returns them, sorted by urgency, with the input of a transaction
// that has their requests in the same order. Waiters that are not due are in it, too: otherwise a later request could
// overtake them. It also moves what the journal has not been told yet into the input.
func (l *Limiter) takeBatch() (in fleet.CapacityInput, batch []*waiter) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.leased = time.Now()
	batch, l.waiting = l.waiting, nil
	slices.SortStableFunc(batch, func(a, b *waiter) int {
		if a.needs.Background != b.needs.Background { // requests of background turns come last
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
		in.InFlight[scope] = n
		if n == 0 {
			delete(l.inFlight, scope) // after this report or, if it fails, that of the ended request, the journal has 0
		}
		in.Defaults[scope] = l.defaultOf(scope)
	}
	for _, w := range batch {
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
	return in, batch
}

// defaultOf returns the configured limits of a scope. Only providers and tenants have configured limits; those of a
// model are set in the journal.
func (l *Limiter) defaultOf(scope string) fleet.Limits {
	switch {
	case fleet.IsTenantScope(scope):
		return l.o.Tenant
	case strings.Contains(scope, "/"): // a model: see fleet.ProviderScope
		return nil
	}
	return l.o.Provider
}

// transact runs one transaction, unless it would be empty: it requests capacity for the waiters, reports ended
// requests, and answers the waiters or puts them back. If the transaction fails, every waiter gets the error.
func (l *Limiter) transact() {
	in, batch := l.takeBatch()
	if len(in.Requests)+len(in.Ended)+len(in.RetryAfter)+len(in.InFlight) == 0 {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), leaseWithin)
	defer cancel()
	res, err := l.o.Journal.LeaseCapacity(ctx, in)
	if err != nil {
		l.keepReports(in)
	}
	for i, w := range batch {
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

// maxLateGrants bounds how often a request is put back because its grant came too late.
const maxLateGrants = 3

// maxKept bounds the ended requests that are kept while the journal is unavailable.
const maxKept = 10_000

// keepReports keeps the ended requests and the waits of a failed transaction for the next one. It drops the ended
// requests if there are more than maxKept. If the failed transaction was committed all the same, tokens are counted
// twice, which is better than not at all.
func (l *Limiter) keepReports(in fleet.CapacityInput) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.ended)+len(in.Ended) <= maxKept {
		l.ended = append(in.Ended, l.ended...)
	}
	for scope, wait := range in.RetryAfter {
		l.retryAfter[scope] = max(l.retryAfter[scope], wait)
	}
}

// granted answers a waiter whose request was granted. If the grant comes too late, it puts the waiter back instead:
// the journal counts the request at the time of the grant, so a request that is sent much later could exceed the limit
// of that later second or minute. It does so at most maxLateGrants times, because with a slow journal every grant is
// late, and each one counts against the limits. A late grant is also used if the wait is over.
func (l *Limiter) granted(w *waiter, res fleet.CapacityResult) {
	l.mu.Lock()
	for _, scope := range w.needs.Scopes {
		l.inFlight[scope]++
	}
	l.mu.Unlock()
	lease := &Lease{limiter: l, request: w.needs, at: res.At}
	if time.Since(res.Read) > fleet.ArrivalSlack/2 && w.lateGrants < maxLateGrants {
		w.lateGrants++
		if l.requeue(w) {
			lease.End(0)
			return
		}
	}
	w.answer <- answer{lease: lease}
}

// requeue puts a waiter back for a transaction at w.due. It returns false if the wait ends before that.
func (l *Limiter) requeue(w *waiter) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if w.due.After(w.until) || time.Now().After(w.until) {
		return false
	}
	l.waiting = append(l.waiting, w)
	l.signal()
	return true
}

// unshownWait is the longest wait that is not shown to users.
const unshownWait = 300 * time.Millisecond

// refused puts a waiter whose request was refused back until the refusal's Retry, or answers it with the refusal if
// the refusal is final or the wait would end before that.
func (l *Limiter) refused(w *waiter, refusal *fleet.Refusal) {
	w.due = time.Now().Add(max(refusal.Retry, batchFor))
	if refusal.Final || !l.requeue(w) {
		w.answer <- answer{refusal: refusal}
		return
	}
	if refusal.Retry > unshownWait {
		select {
		case w.delayed <- refusal:
		default: // Admit has not read the previous one yet
		}
	}
}
