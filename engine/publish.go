package engine

import (
	"context"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/everturn/everturn/activities/tools"
	"github.com/everturn/everturn/config"
	"github.com/everturn/everturn/workflows/turn"
)

// minRepublishPause and maxRepublishPause are the first and the longest pause before a catalogue that the journal did
// not accept is published again.
const (
	minRepublishPause = time.Second
	maxRepublishPause = 30 * time.Second
)

// reconcileEvery is how often a worker compares the journal's catalogues with its own.
const reconcileEvery = 10 * time.Second

// publishedCatalogues holds the last catalogue of each of this worker's servers. The lock is held while one is
// published, so that an older one cannot follow it.
type publishedCatalogues struct {
	mu   sync.Mutex
	last map[string]turn.Catalogue
}

// watch publishes changes while the worker runs: servers that come back, and tool lists that change. The host reports a
// change once, so watch publishes it again until the journal accepts it. Otherwise every turn would lack those tools
// until the server changes again.
func (e *Engine) watch(ctx context.Context) {
	var beside sync.WaitGroup
	defer beside.Wait()
	known := &publishedCatalogues{last: map[string]turn.Catalogue{}}
	beside.Go(func() { e.reportHealth(ctx) })
	beside.Go(func() {
		every(ctx, reconcileEvery, func() bool {
			e.reconcile(ctx, known)
			return true
		})
	})
	e.tools.Watch(ctx, func(c turn.Catalogue) {
		for pause := minRepublishPause; ; pause = min(2*pause, maxRepublishPause) {
			err := e.publishChange(ctx, known, c)
			if err == nil || ctx.Err() != nil {
				return
			}
			e.log.Error("publishing a changed catalogue", "server", c.Server, "again in", pause, "error", err)
			select {
			case <-time.After(pause):
			case <-ctx.Done():
				return
			}
		}
	})
}

// publishChange publishes a server's current catalogue.
func (e *Engine) publishChange(ctx context.Context, known *publishedCatalogues, c turn.Catalogue) error {
	known.mu.Lock()
	defer known.mu.Unlock()
	known.last[c.Server] = c
	e.offers.set(c)
	return e.publishUnlessAvailable(ctx, c)
}

// publishUnlessAvailable publishes a catalogue. It does not publish that this worker cannot reach a server while
// another worker can, because turns would lose tools that are available. A worker without the role tools publishes only
// the servers of its server_queues.
func (e *Engine) publishUnlessAvailable(ctx context.Context, c turn.Catalogue) error {
	if c.Server == tools.Local && !e.cfg.Worker.Has(config.RoleTools) {
		return nil
	}
	if c.Problem != "" && e.availableElsewhere(ctx, c) {
		e.log.Warn("MCP server is available only to another worker", "server", c.Server, "problem", c.Problem)
		return nil
	}
	return e.publishCatalogue(ctx, c)
}

// reconcile republishes a catalogue that is missing, or that another worker, unable to reach the server, has marked as
// unavailable. It also publishes that a server is unavailable to all workers with its configuration when the last worker
// that could reach it is gone.
func (e *Engine) reconcile(ctx context.Context, known *publishedCatalogues) {
	known.mu.Lock()
	defer known.mu.Unlock()
	catalogues, err := e.journal.OfferedBy(ctx, e.offers.versions())
	if err != nil { // reconcile runs again after reconcileEvery
		return
	}
	for server, ours := range known.last {
		i := slices.IndexFunc(catalogues, func(c turn.Catalogue) bool { return c.Server == server }) // this worker's own
		if i >= 0 && !e.outdated(ctx, catalogues[i], ours) {
			continue
		}
		if err := e.publishUnlessAvailable(ctx, ours); err != nil && ctx.Err() == nil {
			e.log.Error("publishing a catalogue again", "server", server, "error", err)
		}
	}
}

// availableElsewhere reports whether another running worker with this configuration of a server can reach it.
func (e *Engine) availableElsewhere(ctx context.Context, c turn.Catalogue) bool {
	workers, err := Health(ctx, e.journal)
	if err != nil { // no worker is known to reach the server
		return false
	}
	for _, w := range workers {
		if offer, ok := w.Offers[c.Server]; ok && !strings.HasPrefix(offer, c.ConfigHash+"/") {
			continue
		}
		for _, s := range w.Servers {
			if s.Server == c.Server && w.ID != e.id && isAvailable(s) {
				return true
			}
		}
	}
	return false
}

// isAvailable reports whether a server's catalogue can be read, which uses the default tenant's connection.
func isAvailable(s ServerHealth) bool {
	state := s.State
	for _, t := range s.Tenants {
		if t.Tenant == "" {
			state = t.State
		}
	}
	return state == ServerConnected || state == ServerIdle
}
