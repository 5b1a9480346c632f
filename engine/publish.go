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

// publishedCatalogues holds the last catalogue of each of this worker's servers. The lock is held while a catalogue is
// published, so that an older one cannot overwrite a newer one.
type publishedCatalogues struct {
	mu   sync.Mutex
	last map[string]turn.Catalogue // by server
}

// watch publishes the catalogues that change while the worker runs: of servers that become available or unavailable, or
// whose tools change. The registry reports a change only once, so watch tries to publish it until the journal accepts
// it. Otherwise turns would not see the change until the server changes again. watch also reports the servers' health,
// and publishes catalogues that the journal has lost: see reconcile. It returns when ctx has ended.
func (e *Engine) watch(ctx context.Context) {
	var tasks sync.WaitGroup
	defer tasks.Wait()
	known := &publishedCatalogues{last: map[string]turn.Catalogue{}}
	tasks.Go(func() { e.reportHealth(ctx) })
	tasks.Go(func() {
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

// publishChange records c as the last catalogue of its server, and publishes it unless another worker can reach a
// server that this one cannot.
func (e *Engine) publishChange(ctx context.Context, known *publishedCatalogues, c turn.Catalogue) error {
	known.mu.Lock()
	defer known.mu.Unlock()
	known.last[c.Server] = c
	e.offers.set(c)
	return e.publishUnlessAvailable(ctx, c)
}

// publishUnlessAvailable publishes a catalogue, unless it says that this worker cannot reach a server that another
// worker can: turns would lose tools that are available. A worker without the role tools does not publish local tools,
// because it runs none.
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

// reconcile publishes this worker's catalogues again if the journal's are outdated: if one is missing or has another
// version, if another worker has marked a server as unavailable that this worker can reach, or if a server is marked as
// available although the last worker that could reach it has stopped.
func (e *Engine) reconcile(ctx context.Context, known *publishedCatalogues) {
	known.mu.Lock()
	defer known.mu.Unlock()
	catalogues, err := e.journal.OfferedBy(ctx, e.offers.versions())
	if err != nil { // reconcile runs again after reconcileEvery
		return
	}
	for server, ours := range known.last {
		// The first catalogue of a server is the one of this worker's configuration: see OfferedBy.
		i := slices.IndexFunc(catalogues, func(c turn.Catalogue) bool { return c.Server == server })
		if i >= 0 && !e.outdated(ctx, catalogues[i], ours) {
			continue
		}
		if err := e.publishUnlessAvailable(ctx, ours); err != nil && ctx.Err() == nil {
			e.log.Error("publishing a catalogue again", "server", server, "error", err)
		}
	}
}

// availableElsewhere reports whether another running worker can reach the server of the catalogue c. A worker with
// another configuration of the server does not count; one that has not reported a version of its catalogue yet does.
func (e *Engine) availableElsewhere(ctx context.Context, c turn.Catalogue) bool {
	workers, err := e.journal.Workers(ctx)
	if err != nil { // no worker is known to reach the server
		return false
	}
	for _, w := range workers {
		// A version begins with the hash of the configuration.
		version, reported := w.Offers[c.Server]
		if w.ID == e.id || reported && !strings.HasPrefix(version, c.ConfigHash+"/") {
			continue
		}
		for _, s := range w.Servers {
			if s.Server == c.Server && s.Available() {
				return true
			}
		}
	}
	return false
}

// outdated reports whether ours, this worker's catalogue of a server, must replace the published one: the published one
// has another version, or is marked as unavailable although this worker reaches the server, or is marked as available
// although no worker reaches it.
func (e *Engine) outdated(ctx context.Context, published, ours turn.Catalogue) bool {
	if ours.Problem != "" {
		return published.Problem == "" && !e.availableElsewhere(ctx, ours)
	}
	return published.Problem != "" || published.Version() != ours.Version()
}
