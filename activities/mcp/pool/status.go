package pool

import (
	"slices"
	"strings"
	"time"

	"github.com/everturn/everturn/workflows/turn"
)

// byGravity lists the statuses by their importance to an operator, the least important first.
var byGravity = []turn.ServerState{turn.ServerIdle, turn.ServerConnecting, turn.ServerConnected, turn.ServerFailing}

// Record describes the server as the pool has seen it since the worker started.
type Record struct {
	Status      turn.ServerState // the most important status of all tenants, failing above all
	Since       time.Time        // when it got this status
	RetryAt     time.Time        // of turn.ServerFailing
	LastError   string
	LastErrorAt time.Time
	Connections int   // open now
	Calls       int64 // admitted
	Failures    int64 // of those, without an answer
	Restarts    int64 // connections that were in use and ended for a reason other than idleness
	Drops       int64 // connections that exceeded a bound
	Excess      error // the last such bound
	Tenants     []turn.TenantHealth
}

// maxTenantRecords bounds Record.Tenants. No more tenants than that have connections at the same time.
const maxTenantRecords = 2 * maxConnections

// Record returns the current Record. Its Tenants are the default tenant and the tenants that are not idle, by name;
// they are empty if the default tenant is the only one.
func (p *Pool) Record() Record {
	p.lock()
	defer p.unlock()
	p.updateStatus() // a status also changes when a pause ends
	r := p.record
	for _, t := range p.tenants {
		one := turn.TenantHealth{Tenant: t.name, State: t.status, Since: t.since, Connections: t.connections()}
		r.Connections += one.Connections
		if one.State == turn.ServerFailing {
			one.RetryAt, one.Problem = t.breaker.retryAt(), t.problem
			if r.RetryAt.IsZero() || one.RetryAt.Before(r.RetryAt) {
				r.RetryAt = one.RetryAt
			}
		}
		if t.name == "" || one.State != turn.ServerIdle {
			r.Tenants = append(r.Tenants, one)
		}
	}
	if len(r.Tenants) == 1 && r.Tenants[0].Tenant == "" {
		r.Tenants = nil
	}
	slices.SortFunc(r.Tenants, func(a, b turn.TenantHealth) int { return strings.Compare(a.Tenant, b.Tenant) })
	r.Tenants = r.Tenants[:min(len(r.Tenants), maxTenantRecords)]
	return r
}

// setStatus records a status and, if it differs from the last one, the time.
func (r *Record) setStatus(s turn.ServerState) {
	if r.Status != s {
		r.Status, r.Since = s, time.Now()
	}
}

// updateStatus records the server's current status for each tenant, and the most important of them as that of the
// server. The pool's lock is held.
func (p *Pool) updateStatus() {
	worst := turn.ServerIdle
	for _, t := range p.tenants {
		if now := t.currentStatus(); t.status != now {
			t.status, t.since = now, time.Now()
		}
		if slices.Index(byGravity, t.status) > slices.Index(byGravity, worst) {
			worst = t.status
		}
	}
	p.record.setStatus(worst)
}

// setLastError records a failure for the operator. The pool's lock is held.
func (p *Pool) setLastError(why string) { p.record.LastError, p.record.LastErrorAt = why, time.Now() }

// Failed records why a call or connection failed as Record.LastError. It does not affect the breaker.
func (p *Pool) Failed(why string) {
	p.lock()
	defer p.unlock()
	p.setLastError(why)
}

// Answered records that the server answered a call on the connection: the server is healthy for the connection's
// tenant.
func (c *Conn) Answered() {
	p, t := c.pool, c.tenant
	p.lock()
	defer p.unlock()
	t.breaker.answered()
	t.problem, t.modelText = "", ""
	t.answers++
	p.updateStatus() // not changed, which would wake the host after every call
}
