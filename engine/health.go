package engine

import (
	"context"
	"maps"
	"reflect"
	"time"

	"github.com/everturn/everturn/journal/fleet"
	"github.com/everturn/everturn/workflows/turn"
)

// A worker checks every healthLook whether the state of its servers has changed, and reports it at least every
// healthEvery. When it stops, it spends at most removeWithin on the removal of its report.
const (
	healthLook   = time.Second
	healthEvery  = fleet.WorkerExpiry / 3
	removeWithin = 2 * time.Second
)

// reportHealth reports the state of this worker's servers to the journal until ctx ends, and then removes the report. A
// worker that runs no calls has no report. A report that fails is repeated, and only the first failure in a row is
// logged.
func (e *Engine) reportHealth(ctx context.Context) {
	if e.home == "" {
		return
	}
	defer func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), removeWithin)
		defer cancel()
		if err := e.journal.RemoveWorker(ctx, e.id); err != nil {
			e.log.Warn("removing this worker's health from the journal", "error", err)
		}
	}()
	tick := time.NewTicker(healthLook)
	defer tick.Stop()
	var lastServers []turn.ServerHealth // as last reported
	var lastOffers map[string]string
	var reportedAt time.Time
	for warned := false; ; {
		servers, offers := e.tools.Health(), e.offers.versions()
		changed := !reflect.DeepEqual(servers, lastServers) || !maps.Equal(offers, lastOffers)
		if changed || time.Since(reportedAt) >= healthEvery {
			if err := e.report(ctx, servers, offers); err == nil {
				lastServers, lastOffers, reportedAt, warned = servers, offers, time.Now(), false
			} else if !warned && ctx.Err() == nil {
				e.log.Warn("reporting this worker's health to the journal", "error", err)
				warned = true
			}
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		}
	}
}

// reportOnce reports the worker's servers to the journal before the worker polls. An error is only logged, because
// reportHealth reports them again. A worker that runs no calls has no report.
func (e *Engine) reportOnce(ctx context.Context) {
	if e.home == "" {
		return
	}
	if err := e.report(ctx, e.tools.Health(), e.offers.versions()); err != nil && ctx.Err() == nil {
		e.log.Warn("reporting this worker to the journal", "error", err)
	}
}

// report writes this worker's report to the journal. offers are the versions of its catalogues, by server.
func (e *Engine) report(ctx context.Context, servers []turn.ServerHealth, offers map[string]string) error {
	return e.journal.ReportWorker(ctx, fleet.WorkerReport{ID: e.id, Identity: e.identity(),
		TaskQueue: e.cfg.Temporal.TaskQueue, Servers: servers, Home: e.home, Offers: offers, Place: e.place()})
}
