package toolbox

import (
	"fmt"
	"time"
)

// maxParties bounds the tenants for which a connector keeps state. A tenant is dropped to make room only if it has no
// connection, no call under way and no pause of its breaker.
const maxParties = 1024

// party is a connector's state for one tenant: the connections, and the health of the server on them. Whatever one
// tenant's calls do to a server, up to killing its process, does not affect other tenants, and they are not told of it.
// The connector's lock guards it.
type party struct {
	tenant     string
	slots      map[string]*slot // by turn; the shared one has an empty name
	connecting int              // attempts under way
	visits     int              // calls under way, including those that wait in the queue
	breaker    breaker
	problem    string // why there is no connection, or why calls failed
	told       string // the same in words that the model may read
	answers    int64
	standing   State
	since      time.Time
}

// shared returns the default tenant's party. The connector lists the catalogue on its shared connection. The
// connector's lock is held, or the connector is not published yet.
func (c *connector) shared() *party {
	p := c.parties[""]
	if p == nil {
		p = c.newParty("")
	}
	return p
}

func (c *connector) newParty(tenant string) *party {
	p := &party{tenant: tenant, slots: map[string]*slot{}, standing: StateIdle, since: time.Now()}
	p.breaker.first, p.breaker.most = c.opts.BackoffMin, c.opts.BackoffMax
	c.parties[tenant] = p
	return p
}

// party finds or creates a tenant's party. The connector's lock is held.
func (c *connector) party(tenant string) (*party, error) {
	if p := c.parties[tenant]; p != nil {
		return p, nil
	}
	if len(c.parties) >= maxParties {
		c.forgetParties()
	}
	if len(c.parties) >= maxParties {
		return nil, inOurs(fmt.Sprintf("%s serves %d tenants on this worker, which is the most", c.name(), maxParties))
	}
	return c.newParty(tenant), nil
}

// forgetParties drops the tenants without state: no connection, no call, and no pause to remember. The connector's lock
// is held.
func (c *connector) forgetParties() {
	now := time.Now()
	for tenant, p := range c.parties {
		if tenant != "" && len(p.slots) == 0 && p.visits == 0 && p.breaker.pause(now) == 0 {
			delete(c.parties, tenant)
		}
	}
}

// state returns the server's current state for the tenant. The default tenant's server is watched, so its recovery is
// noticed; for another tenant nothing is known once the pause is over.
func (p *party) state() State {
	switch {
	case p.breaker.failing(time.Now()) && (p.tenant == "" || p.breaker.pause(time.Now()) > 0):
		return StateFailing
	case p.connections() > 0:
		return StateConnected
	case p.connecting > 0:
		return StateConnecting
	}
	return StateIdle
}

// connections counts the open connections.
func (p *party) connections() int {
	n := 0
	for _, sl := range p.slots {
		if sl.current != nil {
			n++
		}
	}
	return n
}

// own counts the slots that may be evicted when there are too many.
func (p *party) own() int {
	n := len(p.slots)
	if sl := p.slots[""]; sl != nil && sl.lasting() {
		n--
	}
	return n
}

// note records a state and since when it holds.
func (p *party) note(s State) {
	if p.standing != s {
		p.standing, p.since = s, time.Now()
	}
}

// connected records that there is a connection.
func (p *party) connected() {
	p.breaker.connected()
	p.problem, p.told = "", ""
}

// lastWords returns why the tenant has no connection, as the end of a sentence.
func (c *connector) lastWords(p *party) string {
	c.mu.Lock()
	defer c.mu.Unlock()
	if p.problem == "" {
		return ""
	}
	return ": " + p.problem
}
