package pool

import (
	"fmt"
	"time"

	"github.com/everturn/everturn/workflows/turn"
)

// maxTenants bounds the tenants for which a pool keeps state. A tenant is dropped to make room only if it has no
// connection, no call under way and no pause of its breaker.
const maxTenants = 1024

// tenant is a pool's state for one tenant: the connections, and the server's health as they show it. It is separate for
// each tenant, so that one tenant's calls cannot affect another's, even if they kill the server's process. The pool's
// lock guards it.
type tenant struct {
	name      string
	conns     map[string]*Conn // by turn; the shared one has an empty name
	calls     int              // calls under way, including those that wait for a permit
	breaker   breaker
	problem   string // why there is no connection, or why calls failed
	modelText string // the same in words that the model may read
	answers   int64  // answered calls
	status    turn.ServerState
	since     time.Time // when it got this status
}

// newTenant adds the state for a tenant. The pool's lock is held, or the pool is new.
func (p *Pool) newTenant(name string) *tenant {
	t := &tenant{name: name, conns: map[string]*Conn{}, status: turn.ServerIdle, since: time.Now()}
	t.breaker.minPause, t.breaker.maxPause = p.opts.BackoffMin, p.opts.BackoffMax
	p.tenants[name] = t
	return t
}

// tenant returns the state for a tenant, which it creates if there is none. If there are too many tenants, it drops the
// idle ones first, and fails if that makes no room. The pool's lock is held.
func (p *Pool) tenant(name string) (*tenant, error) {
	if t := p.tenants[name]; t != nil {
		return t, nil
	}
	if len(p.tenants) >= maxTenants {
		p.dropIdleTenants()
	}
	if len(p.tenants) >= maxTenants {
		return nil, outageOf(fmt.Sprintf("%s serves %d tenants on this worker, which is the maximum", p.opts.Name,
			maxTenants))
	}
	return p.newTenant(name), nil
}

// dropIdleTenants drops the tenants without connections, calls or a pause of their breaker; their state is not needed.
// It keeps the default tenant. The pool's lock is held.
func (p *Pool) dropIdleTenants() {
	now := time.Now()
	for name, t := range p.tenants {
		if name != "" && len(t.conns) == 0 && t.calls == 0 && t.breaker.pause(now) == 0 {
			delete(p.tenants, name)
		}
	}
}

// countState returns the number of the tenant's connections in a state.
func (t *tenant) countState(s State) (n int) {
	for _, c := range t.conns {
		if c.state == s {
			n++
		}
	}
	return n
}

// connections returns the number of the tenant's connections that have been opened, including one that has broken and
// is being cleaned up.
func (t *tenant) connections() int { return len(t.conns) - t.countState(Connecting) }

// evictable returns the number of the tenant's connections that count towards maxConnections.
func (t *tenant) evictable() int {
	n := len(t.conns)
	if c := t.conns[""]; c != nil && c.listsTools() {
		n--
	}
	return n
}

// currentStatus returns the server's current status for the tenant. For the default tenant, whose connection the host
// keeps trying to open, the status stays failing until the server has recovered. For another tenant it is failing only
// during the pause: only the tenant's next call tries the server again, and that may never come.
func (t *tenant) currentStatus() turn.ServerState {
	switch {
	case t.breaker.failing(time.Now()) && (t.name == "" || t.breaker.pause(time.Now()) > 0):
		return turn.ServerFailing
	case t.connections() > 0:
		return turn.ServerConnected
	case len(t.conns) > 0:
		return turn.ServerConnecting
	}
	return turn.ServerIdle
}
