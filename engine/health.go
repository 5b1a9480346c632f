package engine

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"time"

	"github.com/everturn/everturn/activities/mcp"
	"github.com/everturn/everturn/client"
	"github.com/everturn/everturn/config"
	"github.com/everturn/everturn/journal/fleet"
	"github.com/everturn/everturn/workflows/turn"
)

// ServerHealth is the state of a tool server. It holds no secret.
type ServerHealth = mcp.Health

// TenantHealth is the state of a tool server for one tenant.
type TenantHealth = mcp.TenantHealth

// The states of a server, as its worker sees it.
const (
	ServerIdle       = mcp.StateIdle
	ServerConnecting = mcp.StateConnecting
	ServerConnected  = mcp.StateConnected
	ServerFailing    = mcp.StateFailing
)

// WorkerHealth is the state of one worker's tool servers.
type WorkerHealth struct {
	ID        string         // of the process
	Worker    string         // its identity in Temporal
	TaskQueue string         // the task queue that it polls
	At        time.Time      // when the worker reported it
	Servers   []ServerHealth // in the order of the configuration
	// Offers are the versions that it offers of its servers and of the local tools, by server: see
	// turn.Catalogue.Version.
	Offers map[string]string
}

// A worker checks every healthLook whether the state of its servers has changed, and reports it at least every
// healthEvery. When it stops, it spends at most removeWithin on the removal of its report.
const (
	healthLook   = time.Second
	healthEvery  = fleet.WorkerExpiry / 3
	removeWithin = 2 * time.Second
)

// Health returns the state of the tool servers of all workers with this journal that run calls, as each worker has last
// reported it. It includes a worker that was killed for at most fleet.WorkerExpiry.
func Health(ctx context.Context, j client.Journal) ([]WorkerHealth, error) {
	reports, err := j.Workers(ctx)
	if err != nil {
		return nil, err
	}
	var out []WorkerHealth
	for _, r := range reports {
		w := WorkerHealth{ID: r.ID, Worker: r.Identity, TaskQueue: r.TaskQueue, At: r.SeenAt, Offers: r.Offers}
		if err := json.Unmarshal(r.Servers, &w.Servers); err != nil {
			return nil, fmt.Errorf("reading the tool servers of worker %s: %w", r.Identity, err)
		}
		out = append(out, w)
	}
	return out, nil
}

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
	var lastServers []ServerHealth // as last reported
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
func (e *Engine) report(ctx context.Context, servers []ServerHealth, offers map[string]string) error {
	b, err := json.Marshal(servers)
	if err != nil {
		return err
	}
	return e.journal.ReportWorker(ctx, fleet.WorkerReport{ID: e.id, Identity: e.identity(),
		TaskQueue: e.cfg.Temporal.TaskQueue, Servers: b, Home: e.home, Offers: offers})
}

// AskServers connects to the configured servers that this worker hosts, lists their tools and closes the connections.
// It needs no journal, model or Temporal server. It returns the catalogues of the local tools and of these servers, and
// the servers' state.
func AskServers(ctx context.Context, cfg config.Config, opts ...Option) ([]turn.Catalogue, []ServerHealth, error) {
	e := newEngine(cfg, opts)
	for _, open := range []func(context.Context) error{e.openTools, e.openSkills} { // skills are a tool, too
		if err := open(ctx); err != nil {
			return nil, nil, errors.Join(err, e.Close())
		}
	}
	catalogues := e.tools.Catalogues(ctx)
	health := e.tools.Health()
	return catalogues, health, e.Close()
}
