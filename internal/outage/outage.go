package outage

import (
	"math/rand/v2"
	"sync"
	"time"
)

const (
	firstPause = time.Second
	// spread is the time over which those that wait come back, so that they do not all come at once.
	spread = time.Second
	// maxPoll bounds how long those that wait stay away while a request asks whether the other side is back.
	maxPoll = 15 * time.Second
	// forgetAfter is how long after the next try was due an outage is forgotten that nobody asks about any more.
	forgetAfter = 10 * time.Minute
)

// Outages are the outages that a process knows of, by key. It is safe for concurrent use.
type Outages struct {
	most time.Duration

	mu   sync.Mutex
	down map[string]*Outage
}

// Outage is one that is under way.
type Outage struct {
	Since time.Time // the first failure
	Cause error     // the latest failure
	// Back is closed when a request has succeeded.
	Back <-chan struct{}

	back   chan struct{}
	tries  int       // failed ones, one after the other
	next   time.Time // another request may ask
	asking time.Time // a request asks since then; zero: none does
}

// New returns Outages whose pauses grow up to most.
func New(most time.Duration) *Outages { return &Outages{most: most, down: map[string]*Outage{}} }

// Try is a request. The caller ends it with Up, Down or Drop; only the first of them counts.
type Try struct {
	of    *Outages
	key   string
	began time.Time
	probe bool // it asks whether the other side is back
	once  sync.Once
}

// Wait says why a request must not be made now.
type Wait struct {
	Outage
	For time.Duration // come again after that, not earlier
}

// Begin begins a request, or says how long to wait.
func (o *Outages) Begin(key string) (*Try, *Wait) {
	o.mu.Lock()
	defer o.mu.Unlock()
	now := time.Now()
	if w := o.wait(key, now); w != nil {
		return nil, w
	}
	t := &Try{of: o, key: key, began: now}
	if s := o.down[key]; s != nil {
		t.probe, s.asking = true, now
	}
	return t, nil
}

// Look says what Begin would say, without beginning a request.
func (o *Outages) Look(key string) *Wait {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.wait(key, time.Now())
}

func (o *Outages) wait(key string, now time.Time) *Wait {
	s := o.down[key]
	switch {
	case s == nil:
	case !s.asking.IsZero():
		return &Wait{*s, scatter(min(max(now.Sub(s.asking), spread/2), maxPoll))}
	case now.Before(s.next):
		return &Wait{*s, scatter(s.next.Sub(now))}
	}
	return nil
}

// Insist begins a request although the other side may be down: its caller does not wait.
func (o *Outages) Insist(key string) *Try { return &Try{of: o, key: key, began: time.Now()} }

// scatter returns a wait that is up to spread longer.
func scatter(wait time.Duration) time.Duration { return wait + rand.N(spread) }

// Up ends a request that the other side has answered.
func (t *Try) Up() {
	t.once.Do(func() {
		t.of.mu.Lock()
		defer t.of.mu.Unlock()
		s := t.of.down[t.key]
		if s != nil && (t.probe || t.began.After(s.Since)) {
			delete(t.of.down, t.key)
			close(s.back)
		}
	})
}

// Drop ends a request of which nothing is known.
func (t *Try) Drop() {
	t.once.Do(func() {
		t.of.mu.Lock()
		defer t.of.mu.Unlock()
		if s := t.of.down[t.key]; s != nil && t.probe {
			s.asking = time.Time{}
		}
	})
}

// Down ends a request that failed, and returns the outage with the wait until the next one. atLeast is the pause that
// the other side has asked for.
func (t *Try) Down(cause error, atLeast time.Duration) (w Wait) {
	t.once.Do(func() { w = t.of.failed(t, cause, atLeast) })
	return w
}

func (o *Outages) failed(t *Try, cause error, atLeast time.Duration) Wait {
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
	s.Cause = cause
	// Of the requests that were under way when the first one failed, none counts as another try.
	if t.probe || s.tries == 0 {
		s.asking = time.Time{}
		s.next = now.Add(o.pause(s.tries))
		s.tries++
	}
	if least := now.Add(min(atLeast, o.most)); s.next.Before(least) {
		s.next = least
	}
	return Wait{*s, scatter(s.next.Sub(now))}
}

// pause returns a random pause after a number of failed tries: up to a second, doubled by each try.
func (o *Outages) pause(tries int) time.Duration {
	return max(rand.N(min(firstPause<<min(tries, 16), o.most)), firstPause/10)
}

// forget drops outages about which nobody asks any more.
func (o *Outages) forget(now time.Time) {
	for key, s := range o.down {
		if s.asking.IsZero() && now.Sub(s.next) > forgetAfter {
			delete(o.down, key)
			close(s.back)
		}
	}
}
