package engine

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/everturn/everturn/activities/mcp"
	"github.com/everturn/everturn/activities/tools"
	canvastools "github.com/everturn/everturn/activities/tools/canvas"
	"github.com/everturn/everturn/activities/tools/files"
	"github.com/everturn/everturn/activities/tools/shell"
	"github.com/everturn/everturn/activities/tools/web"
	"github.com/everturn/everturn/config"
	"github.com/everturn/everturn/internal/canvas"
	"github.com/everturn/everturn/internal/temporalconn"
	"github.com/everturn/everturn/workflows/turn"
)

// openTools creates the registry with the file tools, the embedding program's own and the MCP servers. It connects to
// none of them.
func (e *Engine) openTools(ctx context.Context) error {
	if err := e.cfg.CheckEnviron(e.options.environ); err != nil {
		return err
	}
	root, err := workspace(e.cfg)
	if err != nil {
		return err
	}
	remote, err := e.options.logIn(servers(e.cfg))
	if err != nil {
		return err
	}
	remote = slices.DeleteFunc(remote, func(s mcp.Server) bool {
		return !slices.ContainsFunc(e.cfg.MCP.Servers, func(c config.MCPServer) bool {
			return c.ID == s.ID && e.cfg.Worker.Hosts(c)
		})
	})
	host, err := mcp.New(mcp.Options{
		MaxCalls: max(e.cfg.Worker.MaxConcurrentActivities*3/4, 1),
		Servers:  remote, MaxResultBytes: e.cfg.Runtime.MaxResultBytes,
		Environ: temporalconn.Environ(e.options.environ).LookupEnv, Secrets: e.secrets, Logger: e.log,
	})
	if err != nil {
		return err
	}
	e.tools = tools.New(tools.Options{
		MaxResultBytes: e.cfg.Runtime.MaxResultBytes, Secrets: e.secrets, Logger: e.log,
	}, host)
	rules := fileRules(e.cfg, e.options.environ)
	repo, err := Canvas(ctx, e.cfg)
	if err != nil {
		return err
	}
	if repo != nil {
		if err := canvastools.Register(e.tools, repo, rules.Hidden); err != nil {
			return err
		}
	}
	if s := e.cfg.Shell; s.Enabled {
		err := shell.Register(e.tools, shell.Options{Workspace: root, Write: s.Write, Environ: s.EnvAllow, Timeout: s.Timeout,
			Hidden: rules.Hidden, Protected: rules.Protected})
		if err != nil {
			return temporalconn.WithKind(config.ErrInvalid, err)
		}
	}
	if w := e.cfg.Web; w.Fetch {
		if err := web.Register(e.tools, web.Options{Hosts: w.Hosts, Networks: w.Networks}); err != nil {
			return err
		}
	}
	return errors.Join(
		files.Register(e.tools, root, rules),
		registerArtifacts(e.tools, e.artifacts, e.cfg.Runtime.MaxResultBytes),
		e.options.register(e.tools),
	)
}

// Canvas returns the repository of the sessions' canvases, or nil if none is configured.
func Canvas(ctx context.Context, cfg config.Config) (*canvas.Repo, error) {
	if cfg.Canvas.Repo == "" {
		return nil, nil //nolint:nilnil // there need not be one
	}
	return canvas.Open(ctx, cfg.Canvas.Repo, cfg.Canvas.Branch)
}

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

// outdated reports whether a published catalogue is not what this worker offers, or has another availability.
func (e *Engine) outdated(ctx context.Context, c, ours turn.Catalogue) bool {
	if ours.Problem != "" {
		return c.Problem == "" && !e.availableElsewhere(ctx, ours)
	}
	return c.Problem != "" || c.Version() != ours.Version()
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

// Login gets access tokens for an MCP server by a method that the configuration cannot describe, such as the user's
// consent in a browser. Its method Token returns the token for the next request, and Renew is called after the server
// has rejected one.
type Login = mcp.Login

// WithLogin makes the engine use the tokens of a Login for a configured server. New fails if no server of this ID is
// configured, if it is not reached over http, or if it has client credentials.
func WithLogin(server string, l Login) Option {
	return func(o *options) {
		if o.logins == nil {
			o.logins = map[string]Login{}
		}
		o.logins[server] = l
	}
}

// logIn sets each server's login.
func (o options) logIn(servers []mcp.Server) ([]mcp.Server, error) {
	for id, l := range o.logins {
		i := slices.IndexFunc(servers, func(s mcp.Server) bool { return s.ID == id })
		if i < 0 {
			return nil, fmt.Errorf("there is a login for MCP server %q, which is not configured: add it to mcp.servers", id)
		}
		servers[i].Login = l
	}
	return servers, nil
}
