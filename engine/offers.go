package engine

import (
	"maps"
	"sync"

	"github.com/everturn/everturn/workflows/turn"
)

// offers records the versions of the catalogues that this worker offers, those of its MCP servers and of the local
// tools: see turn.Catalogue.Version.
type offers struct {
	mu sync.Mutex
	m  map[string]string // by server
}

// set records the version of a server's catalogue. If the server is unavailable, set keeps the version from before,
// because calls of its tools may wait until it is back.
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

// versions returns a copy of the versions, by server.
func (o *offers) versions() map[string]string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return maps.Clone(o.m)
}
