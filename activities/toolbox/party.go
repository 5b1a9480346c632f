package toolbox

import (
	"fmt"
	"time"
)

// maxParties bounds the tenants of whom a server's connector keeps something. Those that have no connection and whose
// server is not in trouble are forgotten first.
const maxParties = 1024

// party is what a connector has for one tenant: the connections, and what is known of how the server does on them. What one
// tenant's calls do to a server, up to killing its process, is no other tenant's trouble, and no other tenant is told of
// it. The connector's lock guards it.
type party struct {
	tenant     string
	slots      map[string]*slot // by turn; the one that its turns share has no name
	connecting int              // attempts under way
	visits     int              // calls under way, from the wait for their turn on
	breaker    breaker
	problem    string // why there is no connection, or why calls came to nothing
	told       string // the same in words that the model may read
	answers    int64
	standing   State
	since      time.Time
}

// shared is the default tenant's party, whose shared connection is also the one that is asked for the catalogue. The
// connector's lock is held, or nobody else knows the connector yet.
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

// party finds a tenant's party or makes it. Local tools are this program's own, and have one connection. The connector's
// lock is held.
func (c *connector) party(tenant string) (*party, error) {
	if c.local != nil {
		tenant = ""
	}
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

// forgetParties forgets the tenants that have nothing here: no connection, no call, and no pause that has to be remembered.
// The connector's lock is held.
func (c *connector) forgetParties() {
	now := time.Now()
	for tenant, p := range c.parties {
		if tenant != "" && len(p.slots) == 0 && p.visits == 0 && p.breaker.pause(now) == 0 {
			delete(c.parties, tenant)
		}
	}
}

// state is how the server stands with the tenant now. For the default tenant somebody watches the server, and finds out
// when it is well again; of another one nothing is known when its pause is over.
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

// connections counts those that are open.
func (p *party) connections() int {
	n := 0
	for _, sl := range p.slots {
		if sl.current != nil {
			n++
		}
	}
	return n
}

// own counts the slots that go when there are too many.
func (p *party) own() int {
	n := len(p.slots)
	if sl := p.slots[""]; sl != nil && sl.lasting() {
		n--
	}
	return n
}

// note takes down a state, and since when it is so.
func (p *party) note(s State) {
	if p.standing != s {
		p.standing, p.since = s, time.Now()
	}
}

// connected: there is a connection.
func (p *party) connected() {
	p.breaker.connected()
	p.problem, p.told = "", ""
}

// lastWords is why the tenant has no connection, as the end of a sentence.
func (c *connector) lastWords(p *party) string {
	c.mu.Lock()
	defer c.mu.Unlock()
	if p.problem == "" {
		return ""
	}
	return ": " + p.problem
}
