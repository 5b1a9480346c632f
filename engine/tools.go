package engine

import (
	"context"
	"strings"
	"sync"
	"time"

	"github.com/everturn/everturn/activities/toolbox"
	"github.com/everturn/everturn/activities/toolbox/files"
	"github.com/everturn/everturn/config"
	"github.com/everturn/everturn/workflows/turn"
)

// openTools makes the tool host: the file tools, the embedding program's own and the MCP servers. Nothing is connected.
func (e *Engine) openTools(context.Context) error {
	if err := e.cfg.CheckEnviron(e.options.environ); err != nil {
		return err
	}
	root, err := workspace(e.cfg)
	if err != nil {
		return err
	}
	local := toolbox.NewLocal()
	if err := files.Register(local, root, files.Options{Deny: e.cfg.LocalFiles.Deny, HardLinks: e.cfg.LocalFiles.HardLinks}); err != nil {
		return err
	}
	if err := registerArtifacts(local, e.artifacts, e.cfg.Runtime.MaxResultBytes); err != nil {
		return err
	}
	if err := e.options.register(local); err != nil {
		return err
	}
	remote, err := e.options.logIn(servers(e.cfg))
	if err != nil {
		return err
	}
	e.host, err = toolbox.New(toolbox.Options{
		MaxCalls: max(e.cfg.Worker.MaxConcurrentActivities*3/4, 1),
		Servers:  remote, MaxResultBytes: e.cfg.Runtime.MaxResultBytes, Environ: lookup(e.options.environ), Secrets: e.secrets, Logger: e.log,
	}, local)
	return err
}

// republishFirst and republishMost are the pauses before a catalogue is published again that the journal did not take.
const (
	republishFirst = time.Second
	republishMost  = 30 * time.Second
)

// reconcileEvery is how often a worker looks whether the journal has what it knows.
const reconcileEvery = 10 * time.Second

// offers are what this worker's servers offered last. The lock is held while one is published, so that none that is older
// comes after it.
type offers struct {
	mu   sync.Mutex
	last map[string]turn.Catalogue
}

// watch publishes what changes while the worker runs: servers that come back, and lists that they change. The host tells
// of a change once, so that one which the journal does not take is published again until it does: without it every
// turn would be without those tools for as long as the server stays as it is.
func (e *Engine) watch(ctx context.Context) {
	var beside sync.WaitGroup
	defer beside.Wait()
	known := &offers{last: map[string]turn.Catalogue{}}
	beside.Go(func() { e.tellHealth(ctx) })
	beside.Go(func() {
		for tick := time.Tick(reconcileEvery); ; {
			select {
			case <-tick:
				e.reconcile(ctx, known)
			case <-ctx.Done():
				return
			}
		}
	})
	e.host.Watch(ctx, func(c turn.Catalogue) {
		for pause := republishFirst; ; pause = min(2*pause, republishMost) {
			err := e.publishNews(ctx, known, c)
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

// publishNews publishes what a server offers now.
func (e *Engine) publishNews(ctx context.Context, known *offers, c turn.Catalogue) error {
	known.mu.Lock()
	defer known.mu.Unlock()
	known.last[c.Server] = c
	return e.publishUnlessWell(ctx, c)
}

// publishUnlessWell publishes a catalogue. That this worker cannot ask a server is kept to itself while another one can: turns
// would lose tools that they can have.
func (e *Engine) publishUnlessWell(ctx context.Context, c turn.Catalogue) error {
	if c.Problem != "" && e.wellElsewhere(c.Server) {
		e.log.Warn("MCP server is not available to this worker, and is to another one", "server", c.Server, "problem", c.Problem)
		return nil
	}
	return e.publishOne(ctx, c)
}

// reconcile publishes again what another worker has overwritten that could not ask a server, and that a server is away for
// all workers when the last one is gone that it was not away for. Between what two workers are offered it does not choose.
func (e *Engine) reconcile(ctx context.Context, known *offers) {
	known.mu.Lock()
	defer known.mu.Unlock()
	catalogues, err := e.journal.Catalogues(ctx)
	if err != nil { // the next time, then
		return
	}
	for _, c := range catalogues {
		ours, ok := known.last[c.Server]
		if !ok || (ours.Problem == "") == (c.Problem == "") || ours.Problem != "" && e.wellElsewhere(c.Server) {
			continue
		}
		if err := e.publishOne(ctx, ours); err != nil && ctx.Err() == nil {
			e.log.Error("publishing a catalogue again", "server", c.Server, "error", err)
		}
	}
}

// wellElsewhere reports whether another worker with this journal, one that lives, can ask the server.
func (e *Engine) wellElsewhere(server string) bool {
	workers, err := Health(e.cfg)
	if err != nil { // then nobody says so
		return false
	}
	for _, w := range workers {
		for _, s := range w.Servers {
			if s.Server == server && w.Worker != e.identity() && isWell(s) {
				return true
			}
		}
	}
	return false
}

// isWell reports whether a server can be asked what it offers, which is the default tenant's part.
func isWell(s ServerHealth) bool {
	state := s.State
	for _, t := range s.Tenants {
		if t.Tenant == "" {
			state = t.State
		}
	}
	return state == ServerConnected || state == ServerIdle
}

func lookup(environ []string) func(string) (string, bool) {
	return func(name string) (string, bool) {
		for _, kv := range environ {
			if k, v, ok := strings.Cut(kv, "="); ok && k == name {
				return v, true
			}
		}
		return "", false
	}
}

// Catalogues is AskServers for who wants to know only what is offered.
func Catalogues(ctx context.Context, cfg config.Config, opts ...Option) ([]turn.Catalogue, error) {
	catalogues, _, err := AskServers(ctx, cfg, opts...)
	return catalogues, err
}
