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
	if err := files.Register(local, root); err != nil {
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
		Servers: remote, MaxResultBytes: e.cfg.Runtime.MaxResultBytes, Environ: lookup(e.options.environ), Logger: e.log,
	}, local)
	return err
}

// republishFirst and republishMost are the pauses before a catalogue is published again that the journal did not take.
const (
	republishFirst = time.Second
	republishMost  = 30 * time.Second
)

// watch publishes what changes while the worker runs: servers that come back, and lists that they change. The host tells
// of a change once, so that one which the journal does not take is published again until it does: without it every
// turn would be without those tools for as long as the server stays as it is.
func (e *Engine) watch(ctx context.Context) {
	var beside sync.WaitGroup
	defer beside.Wait()
	beside.Go(func() { e.tellHealth(ctx) })
	e.host.Watch(ctx, func(c turn.Catalogue) {
		for pause := republishFirst; ; pause = min(2*pause, republishMost) {
			err := e.publishOne(ctx, c)
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
