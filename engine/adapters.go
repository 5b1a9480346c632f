package engine

import (
	"context"
	"crypto/rand"
	"log/slog"
	"sync"
	"time"

	"github.com/everturn/everturn/config"
	"github.com/everturn/everturn/internal/adapters"
	"github.com/everturn/everturn/internal/models"
)

// newEngine returns an engine that has opened nothing yet. Its logs leave out the secrets of the configuration.
func newEngine(cfg config.Config, opts []Option) *Engine {
	e := &Engine{id: rand.Text(), home: homeQueue(cfg), cfg: cfg, options: newOptions(opts), fatal: make(chan error, 1)}
	e.secrets = adapters.Secrets(cfg, e.options.environ)
	e.log = slog.New(e.secrets.Handler(e.options.log.Handler()))
	return e
}

func (e *Engine) openModel(ctx context.Context) (err error) {
	e.model, err = adapters.OpenModel(ctx, e.cfg, e.options.model, e.options.slowDemo, e.secrets, e.log)
	return err
}

func (e *Engine) openTools(ctx context.Context) (err error) {
	e.tools, err = adapters.OpenTools(ctx, e.cfg, adapters.ToolOptions{
		Environ: e.options.environ, Secrets: e.secrets, Log: e.log, Logins: e.options.logins, Add: e.options.tools,
		OnProcess: e.sendProcess,
		Artifacts: func() adapters.Artifacts { return e.journal }, // opened after the tools
		Sessions:  func() adapters.Sessions { return e.journal },
	})
	return err
}

func (e *Engine) openInstructions(context.Context) (err error) {
	e.instructions, err = adapters.OpenInstructions(e.cfg, e.tools, e.secrets, e.log)
	return err
}

// instructionsEvery is how often a worker checks whether skills or AGENTS.md have changed.
const instructionsEvery = 2 * time.Second

// refresh keeps the list of models and the instructions up to date, until ctx ends.
func (e *Engine) refresh(ctx context.Context) {
	var all sync.WaitGroup
	defer all.Wait()
	all.Go(func() {
		every(ctx, models.RefreshEvery, func() bool {
			e.model.Refresh(ctx)
			return true
		})
	})
	every(ctx, instructionsEvery, func() bool {
		e.instructions.Refresh()
		return true
	})
}
