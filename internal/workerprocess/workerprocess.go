package workerprocess

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"os"
	"runtime/debug"

	"github.com/everturn/everturn/config"
	"github.com/everturn/everturn/engine"
	"github.com/everturn/everturn/internal/trust"
)

// gcPercent lets the worker's small heap grow further between garbage collections. It saves 2 % of the worker's CPU for
// about 10 MB.
const gcPercent = 150

// Options say how to run a worker.
type Options struct {
	// ConfigPath is the configuration file; empty means agent.toml, if it exists. Overrides are configuration keys and
	// their values.
	ConfigPath string
	Overrides  map[string]string
	// Environ is the environment, in the form key=value.
	Environ []string
	// Slow makes the demo model answer slowly enough to watch.
	Slow bool
	// Healthcheck asks the worker that runs with this configuration whether it is ready, instead of running one.
	Healthcheck bool
	// Log gets the worker's log and warnings.
	Log io.Writer
}

// Run runs a worker until ctx ends and its activities have ended too. Whoever starts a worker has decided about its
// folder, so the folder's agent.toml needs no trust. Run changes settings of the process: the garbage collector's target,
// unless GOGC is set, and whether other processes may read its memory.
func Run(ctx context.Context, o Options) error {
	overrides := maps.Clone(o.Overrides)
	if o.Slow {
		if overrides == nil {
			overrides = map[string]string{}
		}
		overrides["llm.demo_slow"] = "true"
	}
	loaded, err := config.Load(config.LoadOptions{Path: o.ConfigPath, Environ: o.Environ, Overrides: overrides})
	if err != nil {
		return err
	}
	if o.Healthcheck {
		return healthcheck(ctx, loaded.Config.Worker)
	}
	if r := &loaded.Config.Runtime; r.TrustWorkspace == nil {
		own := trust.Inside(".", r.Workspace)
		r.TrustWorkspace = &own
	}
	if err := loaded.CheckEnviron(o.Environ); err != nil {
		return err
	}
	if os.Getenv("GOGC") == "" {
		debug.SetGCPercent(gcPercent)
	}
	if err := engine.HideMemory(); err != nil {
		fmt.Fprintln(o.Log, "everturn worker: "+err.Error())
	}
	log := slog.New(slog.NewTextHandler(o.Log, nil))
	e, err := engine.New(ctx, loaded.Config, engine.WithEnviron(o.Environ), engine.WithLogger(log))
	if err != nil {
		return err
	}
	return errors.Join(e.Run(ctx), e.Close())
}
