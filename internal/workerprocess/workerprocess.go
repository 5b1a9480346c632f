package workerprocess

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"

	"github.com/everturn/everturn/config"
	"github.com/everturn/everturn/engine"
	"github.com/everturn/everturn/internal/hidememory"
	"github.com/everturn/everturn/internal/trust"
)

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
	// Healthcheck checks whether the worker that runs with this configuration is ready, instead of running a worker.
	Healthcheck bool
	// Log gets the worker's log and warnings.
	Log io.Writer
}

// Run runs a worker until ctx ends and the worker's activities have ended. It does not check whether the folder's
// agent.toml is trusted: by starting a worker in the folder, the operator trusts it. Other processes of the user can no
// longer read the memory of the process: see hidememory.Hide.
func Run(ctx context.Context, o Options) error {
	loaded, err := config.Load(config.LoadOptions{Path: o.ConfigPath, Environ: o.Environ, Overrides: o.Overrides})
	if err != nil {
		return err
	}
	if o.Healthcheck {
		return healthcheck(ctx, loaded.Config.Worker)
	}
	// If no setting decides, the workspace is trusted if it is in the worker's folder.
	if r := &loaded.Config.Runtime; r.TrustWorkspace == nil {
		own := trust.Inside(".", r.Workspace)
		r.TrustWorkspace = &own
	}
	if err := loaded.CheckEnviron(o.Environ); err != nil {
		return err
	}
	if err := hidememory.Hide(); err != nil {
		fmt.Fprintln(o.Log, "everturn worker: "+err.Error())
	}
	log := slog.New(slog.NewTextHandler(o.Log, nil))
	e, err := engine.New(ctx, loaded.Config, engine.WithEnviron(o.Environ), engine.WithLogger(log),
		engine.WithSlowDemo(o.Slow))
	if err != nil {
		return err
	}
	return errors.Join(e.Run(ctx), e.Close())
}
