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
	"github.com/everturn/everturn/internal/temporalconn"
	"github.com/everturn/everturn/internal/workspace"
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
		Trees:     func() adapters.Trees { return e.journal },
		Worker:    e.identity(), OnTrees: func(s *workspace.Store) { e.trees = s },
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

// place returns the ID of the store with the trees of sessions, or "" if sessions have none.
func (e *Engine) place() string {
	if e.trees == nil {
		return ""
	}
	return e.trees.Place()
}

// warnOfOtherFolders logs a warning if sessions share a folder and a worker of another machine polls the same task queue,
// because calls then act in either machine's folder.
func (e *Engine) warnOfOtherFolders(ctx context.Context) {
	if e.cfg.Workspace.Mode != config.WorkspaceFolder || e.home == "" {
		return
	}
	workers, err := e.journal.Workers(ctx)
	if err != nil {
		return // reportOnce has logged that the journal does not answer
	}
	for _, w := range workers {
		if w.TaskQueue == e.cfg.Temporal.TaskQueue && temporalconn.Host(w.Identity) != temporalconn.Host(e.identity()) {
			e.log.Warn("a worker of another machine polls this task queue, and each acts in a folder of its own: give it a task "+
				"queue of its own, use mode = \"tree\" under [workspace], or share runtime.workspace", "worker", w.Identity,
				"task_queue", w.TaskQueue)
		}
	}
}
