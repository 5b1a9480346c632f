package engine

import (
	"maps"
	"sync"

	"github.com/everturn/everturn/workflows/turn"
)

// offers are the versions that this worker offers of its tool servers and of the local tools, by server: see
// turn.Catalogue.Version.
type offers struct {
	mu sync.Mutex
	m  map[string]string
}

// set records what the worker offers of a server. While the server is unavailable, it offers the tools that it had
// before.
func (o *offers) set(c turn.Catalogue) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.m == nil {
		o.m = map[string]string{}
	}
	if _, known := o.m[c.Server]; c.Problem == "" || !known {
		o.m[c.Server] = c.Version()
	}
}

func (o *offers) versions() map[string]string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return maps.Clone(o.m)
}
