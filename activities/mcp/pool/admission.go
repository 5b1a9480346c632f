package pool

import (
	"context"
	"fmt"
	"time"
)

// Admission is the admission of one call to the server: from the moment when the call gets its permit until End.
type Admission struct {
	Began time.Time // when the call was admitted

	pool          *Pool
	tenant        *tenant
	trial         bool  // the breaker is half open, and this call is its trial
	answersBefore int64 // the tenant's answered calls when this call was admitted
	settled       bool  // Settle was called
}

// Admit waits until fewer than MaxCalls calls are in flight, at most the duration wait, and admits the tenant's call to
// the server. It fails with an *Outage if the wait is over or ctx or the pool ends, if the tenant's breaker refuses the
// call, or if there are too many tenants. The caller must call End when the admitted call has ended.
func (p *Pool) Admit(ctx context.Context, tenant string, wait time.Duration) (*Admission, error) {
	t, err := p.registerCall(tenant)
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
	ok, trial := t.breaker.admit(time.Now())
	if !ok { // the breaker has opened while the call waited, or another call is its trial
		<-p.permits
		t.calls--
		return nil, p.unavailable(t, t.breaker.pause(time.Now()))
	}
	p.record.Calls++
	a.Began, a.trial, a.answersBefore = time.Now(), trial, t.answers
	return a, nil
}

// registerCall counts a call of the tenant that wants a permit. It fails if there are too many tenants, or if the
// tenant's breaker would refuse the call anyway, so that the call does not wait for a permit in vain.
func (p *Pool) registerCall(name string) (*tenant, error) {
	p.lock()
	defer p.unlock()
	t, err := p.tenant(name)
	if err != nil {
		return nil, err
	}
	now := time.Now()
	// A pause after failed connects does not refuse calls: a connection may still be open.
	refusesCalls := t.breaker.failedCalls >= failuresAllowed || t.breaker.barred(now)
	if wait := t.breaker.pause(now); wait > 0 && refusesCalls {
		return nil, p.unavailable(t, wait)
	}
	t.calls++
	return t, nil
}

// takePermit takes a permit, which the caller must give back by receiving from permits. If all are taken, it waits up
// to wait, or until ctx or the pool ends, and then fails with an *Outage.
func (p *Pool) takePermit(ctx context.Context, wait time.Duration) error {
	select { // a free permit is taken even if no time is left to wait
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
		"and none of them ended in time", p.opts.Name, cap(p.permits)))
}

// Settle reports the call's end to the tenant's breaker, once. The call counts against the server only if it got no
// response in time. It does not count if its caller cancelled it, if the pool is closed, if another call of the tenant
// has been answered since it was admitted, or if its connection c was lost, which the breaker counts separately.
// problem says for operators why there was no response.
func (a *Admission) Settle(c *Conn, cancelled bool, problem string) {
	if a.settled {
		return
	}
	a.settled = true
	p, t := a.pool, a.tenant
	p.lock()
	defer p.unlock()
	switch {
	case t.answers > a.answersBefore: // the server answers: this call, which Conn.Answered has recorded, or another one
	case cancelled || p.ctx.Err() != nil:
		t.breaker.undecided()
	case c.lost: // a failure for the record only: see Conn.recordLoss
		p.record.Failures++
		t.breaker.undecided()
	default:
		p.record.Failures++
		t.problem, t.modelText = problem, "it did not answer in time"
		p.setLastError(problem)
		t.breaker.callFailed(time.Now())
		p.changed()
	}
}

// End gives back the call's permit. A trial that ends without Settle leaves the breaker half open for the next one.
func (a *Admission) End() {
	<-a.pool.permits
	a.pool.lock()
	defer a.pool.unlock()
	a.tenant.calls--
	if a.trial && !a.settled {
		a.tenant.breaker.undecided()
	}
}
