package outage

import (
	"math/rand/v2"
	"sync"
	"time"
)

const (
	firstPause = time.Second
	// spread is the largest random addition to a wait, so that waiting requests do not all come back at once.
	spread = time.Second
	// maxPoll bounds a wait while another request probes the service.
	maxPoll = 15 * time.Second
	// quickFailure is the longest duration of a failed request after which callers' first requests are sent during the
	// outage. A service that is silent would use up their time.
	quickFailure = 2 * time.Second
	// forgetAfter is how long after its next probe was due an outage without further requests is forgotten.
	forgetAfter = 10 * time.Minute
)

// Outages are the current outages that a process has noticed, by the key of the service. It is safe for concurrent
// use.
type Outages struct {
	maxPause time.Duration // between probes

	mu   sync.Mutex
	down map[string]*Outage
}

// Outage is the state of an outage that is not over.
type Outage struct {
	Since time.Time // the first failure
	Cause error     // the latest failure
	// Back is closed when the outage is over.
	Back <-chan struct{}

	back         chan struct{} // Back, to close it
	failures     int           // consecutive failed probes, the first failed request included
	nextProbe    time.Time     // when a request may probe the service
	probingSince time.Time     // when the running probe began; zero if none is running
	firstSince   time.Time     // when the running first request of a caller began; zero if none is running
	quick        bool          // the latest failure took at most quickFailure
}

// New returns Outages whose pauses between probes grow up to maxPause.
func New(maxPause time.Duration) *Outages {
	return &Outages{maxPause: maxPause, down: map[string]*Outage{}}
}

// Try is a request in progress. The caller ends it with Up, Down or Drop; only the first of these calls counts.
type Try struct {
	outages *Outages
	key     string
	began   time.Time
	probe   bool // the service was down at the beginning, so the request probes whether it is back
	first   bool // as probe, and the caller's first request in the outage
	once    sync.Once
}

// Wait tells a caller not to send its request now.
type Wait struct {
	Outage
	For time.Duration // how long to wait before the next Begin
}

// Begin begins a request to the service with this key. During an outage, it returns a Wait instead, unless the
// request may probe the service. Exactly one of the results is nil.
//
// first means that no request of the caller has failed in the outage. The service may fail on the requests of other
// callers and answer this one, so it need not wait for the next probe if the service fails quickly. One first request
// at a time is sent, also while a probe is running.
func (o *Outages) Begin(key string, first bool) (*Try, *Wait) {
	o.mu.Lock()
	defer o.mu.Unlock()
	now := time.Now()
	if w := o.mustWait(key, first, now); w != nil {
		return nil, w
	}
	t := &Try{outages: o, key: key, began: now}
	s := o.down[key]
	switch {
	case s == nil:
	case first && s.quick:
		t.first, s.firstSince = true, now
	default:
		t.probe, s.probingSince = true, now
	}
	return t, nil
}

// Look returns the Wait that Begin would return, or nil, without beginning a request.
func (o *Outages) Look(key string, first bool) *Wait {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.mustWait(key, first, time.Now())
}

// mustWait returns how long a request must wait, or nil if it may begin: there is no outage, the next probe is due, or
// the service fails quickly and this is the caller's first request, and no other one is running.
func (o *Outages) mustWait(key string, first bool, now time.Time) *Wait {
	s := o.down[key]
	switch {
	case s == nil:
	case first && s.quick && s.firstSince.IsZero():
	case first && s.quick:
		return &Wait{*s, withJitter(min(max(now.Sub(s.firstSince), spread/2), maxPoll))}
	case !s.probingSince.IsZero(): // the longer the probe takes, the longer the wait
		return &Wait{*s, withJitter(min(max(now.Sub(s.probingSince), spread/2), maxPoll))}
	case now.Before(s.nextProbe):
		return &Wait{*s, withJitter(s.nextProbe.Sub(now))}
	}
	return nil
}

// Insist begins a request even during an outage, for a caller that cannot wait. The request is not a probe.
func (o *Outages) Insist(key string) *Try { return &Try{outages: o, key: key, began: time.Now()} }

// withJitter returns the wait plus a random time of up to spread.
func withJitter(wait time.Duration) time.Duration { return wait + rand.N(spread) }

// Up ends a request that the service has answered. The outage is then over, unless the request began before it and is
// not a probe.
func (t *Try) Up() {
	t.once.Do(func() {
		t.outages.mu.Lock()
		defer t.outages.mu.Unlock()
		s := t.outages.down[t.key]
		if s != nil && (t.probe || t.first || t.began.After(s.Since)) {
			delete(t.outages.down, t.key)
			close(s.back)
		}
	})
}

// Drop ends a request that says nothing about the service, for instance because it was cancelled.
func (t *Try) Drop() {
	t.once.Do(func() {
		t.outages.mu.Lock()
		defer t.outages.mu.Unlock()
		if s := t.outages.down[t.key]; s != nil {
			s.ended(t)
		}
	})
}

// ended records that t is no longer running.
func (s *Outage) ended(t *Try) {
	if t.probe {
		s.probingSince = time.Time{}
	}
	if t.first {
		s.firstSince = time.Time{}
	}
}

// Down ends a request that failed because the service is down, and returns the outage with the time until the next
// probe, or a zero Wait if the request has ended before. atLeast is the minimum pause that the service has requested,
// or 0.
func (t *Try) Down(cause error, atLeast time.Duration) (w Wait) {
	t.once.Do(func() { w = t.outages.recordFailure(t, cause, atLeast) })
	return w
}

// recordFailure records the failure of t as a new outage or in the current one. See Try.Down for the parameters.
func (o *Outages) recordFailure(t *Try, cause error, atLeast time.Duration) Wait {
	o.mu.Lock()
	defer o.mu.Unlock()
	now := time.Now()
	s := o.down[t.key]
	if s == nil {
		o.forget(now)
		back := make(chan struct{})
		s = &Outage{Since: now, Back: back, back: back}
		o.down[t.key] = s
	}
	s.Cause, s.quick = cause, now.Sub(t.began) <= quickFailure
	s.ended(t)
	// Only the first failure and failed probes make the pause longer, not requests that were sent before the outage and
	// first requests of callers.
	if t.probe || s.failures == 0 {
		s.nextProbe = now.Add(o.pause(s.failures))
		s.failures++
	}
	if earliest := now.Add(min(atLeast, o.maxPause)); s.nextProbe.Before(earliest) {
		s.nextProbe = earliest
	}
	return Wait{*s, withJitter(s.nextProbe.Sub(now))}
}

// pause returns a random pause before the next probe. Its upper bound is firstPause, doubled for each failure, but at
// most maxPause.
func (o *Outages) pause(failures int) time.Duration {
	return max(rand.N(min(firstPause<<min(failures, 16), o.maxPause)), firstPause/10)
}

// forget drops outages whose next probe is long overdue, because no request needs the service any more.
func (o *Outages) forget(now time.Time) {
	for key, s := range o.down {
		if s.probingSince.IsZero() && now.Sub(s.nextProbe) > forgetAfter {
			delete(o.down, key)
			close(s.back)
		}
	}
}
