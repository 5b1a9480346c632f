package pool

import (
	"slices"
	"strings"
	"time"
)

// Status is a server's status as this worker sees it.
type Status string

// The statuses.
const (
	StatusIdle       Status = "idle"       // not connected, because no caller needs it; no known failure
	StatusConnecting Status = "connecting" // starting, or listing its tools
	StatusConnected  Status = "connected"
	StatusFailing    Status = "failing" // in backoff until RetryAt, then tried once
)

// byGravity orders the statuses by their importance to an operator, least important first.
var byGravity = []Status{StatusIdle, StatusConnecting, StatusConnected, StatusFailing}

// Record is what a pool has seen of its server since the worker started.
type Record struct {
	Status      Status // of the tenant whose status comes last in gravity
	Since       time.Time
	RetryAt     time.Time // of StatusFailing
	LastError   string
	LastErrorAt time.Time
	Connections int   // open now
	Calls       int64 // admitted
	Failures    int64 // of those, without an answer
	Restarts    int64 // connections that were in use and ended for a reason other than idleness
	Drops       int64 // connections that exceeded a bound
	Excess      error // the last such bound
	Tenants     []TenantHealth
}

// TenantHealth describes a server's state for one tenant, which has its own connections and processes.
type TenantHealth struct {
	Tenant      string    `json:"tenant"`
	State       Status    `json:"state"`
	Since       time.Time `json:"since"`
	RetryAt     time.Time `json:"retry_at,omitzero"` // of StatusFailing
	Problem     string    `json:"problem,omitempty"` // of StatusFailing
	Connections int       `json:"connections"`       // open now
}

// maxTenantRecords bounds Record.Tenants. No more tenants than that have connections at the same time.
const maxTenantRecords = 2 * maxConnections

// Record returns what the pool has seen. Tenants are the default tenant and the tenants that are not idle, by name;
// none if the default tenant is the only one.
func (p *Pool) Record() Record {
	p.lock()
	defer p.unlock()
	p.noteStatus() // it also changes with time alone
	r := p.record
	for _, t := range p.tenants {
		one := TenantHealth{Tenant: t.name, State: t.status, Since: t.since, Connections: t.connections()}
		r.Connections += one.Connections
		if one.State == StatusFailing {
			one.RetryAt, one.Problem = t.breaker.retryAt(), t.problem
			if r.RetryAt.IsZero() || one.RetryAt.Before(r.RetryAt) {
				r.RetryAt = one.RetryAt
			}
		}
		if t.name == "" || one.State != StatusIdle {
			r.Tenants = append(r.Tenants, one)
		}
	}
	if len(r.Tenants) == 1 && r.Tenants[0].Tenant == "" {
		r.Tenants = nil
	}
	slices.SortFunc(r.Tenants, func(a, b TenantHealth) int { return strings.Compare(a.Tenant, b.Tenant) })
	r.Tenants = r.Tenants[:min(len(r.Tenants), maxTenantRecords)]
	return r
}

// enter records a status and, if it is new, the time.
func (r *Record) enter(s Status) {
	if r.Status != s {
		r.Status, r.Since = s, time.Now()
	}
}

// noteStatus records the server's current status, for each tenant and overall. The pool's lock is held.
func (p *Pool) noteStatus() {
	worst := StatusIdle
	for _, t := range p.tenants {
		if now := t.now(); t.status != now {
			t.status, t.since = now, time.Now()
		}
		if slices.Index(byGravity, t.status) > slices.Index(byGravity, worst) {
			worst = t.status
		}
	}
	p.record.enter(worst)
}

func (p *Pool) failed(why string) { p.record.LastError, p.record.LastErrorAt = why, time.Now() }

// Failed records a failure for the operator.
func (p *Pool) Failed(why string) {
	p.lock()
	defer p.unlock()
	p.failed(why)
}

// Answered records that the server answered a call of the connection's tenant.
func (c *Conn) Answered() {
	p, t := c.pool, c.tenant
	p.lock()
	defer p.unlock()
	t.breaker.answered()
	t.problem, t.modelText = "", ""
	t.answers++
	p.noteStatus()
}
