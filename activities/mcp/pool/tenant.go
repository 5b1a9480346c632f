package pool

import (
	"fmt"
	"time"
)

// maxTenants bounds the tenants for which a pool keeps state. A tenant is dropped to make room only if it has no
// connection, no call under way and no pause of its breaker.
const maxTenants = 1024

// tenant is a pool's state for one tenant: the connections, and the health of the server on them. Whatever one tenant's
// calls do to a server, up to killing its process, does not affect other tenants, and they are not told of it. The
// pool's lock guards it.
type tenant struct {
	name      string
	conns     map[string]*Conn // by turn; the shared one has an empty name
	calls     int              // under way, including those that wait for others to end
	breaker   breaker
	problem   string // why there is no connection, or why calls failed
	modelText string // the same in words that the model may read
	answers   int64
	status    Status
	since     time.Time
}

func (p *Pool) newTenant(name string) *tenant {
	t := &tenant{name: name, conns: map[string]*Conn{}, status: StatusIdle, since: time.Now()}
	t.breaker.first, t.breaker.most = p.o.BackoffMin, p.o.BackoffMax
	p.tenants[name] = t
	return t
}

// tenant finds or creates the state for a tenant. The pool's lock is held.
func (p *Pool) tenant(name string) (*tenant, error) {
	if t := p.tenants[name]; t != nil {
		return t, nil
	}
	if len(p.tenants) >= maxTenants {
		p.forgetTenants()
	}
	if len(p.tenants) >= maxTenants {
		return nil, outageOf(fmt.Sprintf("%s serves %d tenants on this worker, which is the maximum", p.o.Name, maxTenants))
	}
	return p.newTenant(name), nil
}

// forgetTenants drops the tenants without state. The pool's lock is held.
func (p *Pool) forgetTenants() {
	now := time.Now()
	for name, t := range p.tenants {
		if name != "" && len(t.conns) == 0 && t.calls == 0 && t.breaker.pause(now) == 0 {
			delete(p.tenants, name)
		}
	}
}

// count counts the tenant's connections in a state.
func (t *tenant) count(s State) (n int) {
	for _, c := range t.conns {
		if c.state == s {
			n++
		}
	}
	return n
}

// connections counts the open connections that calls use, including one that has broken and is being cleaned up.
func (t *tenant) connections() int { return len(t.conns) - t.count(Connecting) }

// evictable counts the connections that count towards maxConnections.
func (t *tenant) evictable() int {
	n := len(t.conns)
	if c := t.conns[""]; c != nil && c.lasting() {
		n--
	}
	return n
}

// now returns the server's current status for the tenant. The default tenant's server is watched, so its recovery is
// noticed; for another tenant nothing is known once the pause is over.
func (t *tenant) now() Status {
	switch {
	case t.breaker.failing(time.Now()) && (t.name == "" || t.breaker.pause(time.Now()) > 0):
		return StatusFailing
	case t.connections() > 0:
		return StatusConnected
	case len(t.conns) > 0:
		return StatusConnecting
	}
	return StatusIdle
}
