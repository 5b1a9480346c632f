package pool

import (
	"context"
	"fmt"
	"time"
)

// Admission is one call's time with a server, from the wait for its permit until its ending is reported to the breaker.
type Admission struct {
	Began time.Time // when the call was admitted

	pool    *Pool
	tenant  *tenant
	probe   bool  // the breaker is half open, and this call is its probe
	answers int64 // responses that the server had given before
	settled bool
}

// Admit waits until the call may go to the server: until fewer calls than allowed are in flight, and the breaker lets
// it through. Its error, an *Outage, says why the call may not. The caller must call End.
func (p *Pool) Admit(ctx context.Context, tenant string, wait time.Duration) (*Admission, error) {
	t, err := p.arrive(tenant)
	if err != nil {
		return nil, err
	}
	a := &Admission{pool: p, tenant: t}
	err = p.takePermit(ctx, wait)
	p.lock()
	defer p.unlock()
	if err != nil {
		t.calls--
		return nil, err
	}
	ok, probe := t.breaker.admit(time.Now())
	if !ok {
		<-p.permits
		t.calls--
		return nil, p.unavailable(t, t.breaker.pause(time.Now()))
	}
	p.record.Calls++
	a.Began, a.probe, a.answers = time.Now(), probe, t.answers
	return a, nil
}

// arrive counts a call of the tenant. It fails if the breaker makes waiting pointless.
func (p *Pool) arrive(name string) (*tenant, error) {
	p.lock()
	defer p.unlock()
	t, err := p.tenant(name)
	if err != nil {
		return nil, err
	}
	now := time.Now()
	barred := t.breaker.failedCalls >= failuresAllowed || t.breaker.excluded(now)
	if wait := t.breaker.pause(now); wait > 0 && barred {
		return nil, p.unavailable(t, wait)
	}
	t.calls++
	return t, nil
}

// takePermit waits for a call in flight to end if there are as many as allowed.
func (p *Pool) takePermit(ctx context.Context, wait time.Duration) error {
	select {
	case p.permits <- struct{}{}:
		return nil
	default:
	}
	timer := time.NewTimer(wait)
	defer timer.Stop()
	select {
	case p.permits <- struct{}{}:
		return nil
	case <-timer.C:
	case <-ctx.Done():
	case <-p.ctx.Done():
		return ErrClosed
	}
	return outageOf(fmt.Sprintf("%s has %d calls in flight, which is the maximum (max_concurrent_calls), "+
		"and none of them ended in time", p.o.Name, cap(p.permits)))
}

// Settle reports the call's ending to the breaker. Only a call without a timely response counts against the server, and
// not if its caller cancelled it, another call got a response meanwhile, or the connection was lost. problem is why
// there was no response, for operators.
func (a *Admission) Settle(c *Conn, cancelled bool, problem string) {
	if a.settled {
		return
	}
	a.settled = true
	p, t := a.pool, a.tenant
	p.lock()
	defer p.unlock()
	switch {
	case t.answers > a.answers:
	case cancelled || p.ctx.Err() != nil:
		t.breaker.undecided()
	case c.lost:
		p.record.Failures++
		t.breaker.undecided()
	default:
		p.record.Failures++
		t.problem, t.modelText = problem, "it did not answer in time"
		p.failed(problem)
		t.breaker.callFailed(time.Now())
		p.changed()
	}
}

// End returns the call's permit.
func (a *Admission) End() {
	<-a.pool.permits
	a.pool.lock()
	defer a.pool.unlock()
	a.tenant.calls--
	if a.probe && !a.settled { // the call ended before Settle
		a.tenant.breaker.undecided()
	}
}
