package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/spf13/cobra"
	"go.temporal.io/sdk/client"

	"github.com/everturn/everturn/cluster"
	"github.com/everturn/everturn/config"
	"github.com/everturn/everturn/engine"
	"github.com/everturn/everturn/starter/devstack"
	"github.com/everturn/everturn/workflows"
)

// stateDir holds everything that --dev writes.
const stateDir = ".everturn"

// devDrain is how long a worker of --dev waits for what it is doing: a person waits with it, and nothing is lost.
const devDrain = 2 * time.Second

// devRetention is how long the development server keeps closed turns.
const devRetention = 30 * 24 * time.Hour

func (a *app) devCommand() *cobra.Command {
	var noWorker, slow bool
	cmd := &cobra.Command{
		Use:   "dev",
		Short: "Keep Temporal, its Web UI and a worker up on this machine until Ctrl-C",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if slow {
				a.override("llm.demo_slow", "true")
			}
			loaded, err := a.load()
			if err != nil {
				return err
			}
			stack, cfg, err := a.bringUp(cmd.Context(), loaded.Config, true, !noWorker)
			if err != nil {
				return err
			}
			defer stack.close()
			a.note("Temporal  %s (namespace %s)\nWeb UI    %s", cfg.Temporal.Address, cfg.Temporal.Namespace, cfg.Temporal.UIURL)
			if noWorker {
				a.note("no worker runs here; start one with `go run ./worker`")
			} else {
				a.note("a worker polls task queue %s; ask something with `go run ./starter run \"...\"`", cfg.Temporal.TaskQueue)
			}
			a.note("Ctrl-C ends")
			select {
			case <-a.signals:
			case <-cmd.Context().Done():
			case err := <-stack.failed():
				return err
			}
			return nil
		},
	}
	cmd.Flags().BoolVar(&noWorker, "no-worker", false, "run no worker: workers run elsewhere")
	cmd.Flags().BoolVar(&slow, "slow", false, "let the demo model answer slowly, to be watched")
	return cmd
}

// devServerCommand is the supervisor of the development server. --dev starts it; nobody else does.
func (a *app) devServerCommand() *cobra.Command {
	return devstack.Command(a.err)
}

// local is what a command has brought up on this machine: nothing, a server, or a server and a worker.
type local struct {
	server *devstack.Stack
	stop   context.CancelFunc
	done   chan error
	log    *os.File
}

// bringUp settles which cluster the configuration means. With dev it starts one on this machine, or joins the one that is
// there, and with worker it runs a worker in this process. The configuration that comes back
// names it.
func (a *app) bringUp(ctx context.Context, cfg config.Config, dev, worker bool) (*local, config.Config, error) {
	l := &local{}
	address, namespace, err := cluster.FromConfig(cfg.Temporal, a.environ).Resolved()
	if err != nil {
		return nil, cfg, err
	}
	cfg.Temporal.Address, cfg.Temporal.Namespace = address, namespace
	if !dev {
		return l, cfg, nil
	}
	cfg, err = l.startServer(ctx, a, cfg)
	if err == nil && worker {
		err = l.startWorker(ctx, a, cfg)
	}
	if err != nil {
		l.close()
		return nil, cfg, err
	}
	return l, cfg, nil
}

func (l *local) startServer(ctx context.Context, a *app, cfg config.Config) (config.Config, error) {
	var err error
	l.server, err = devstack.Ensure(ctx, devstack.Options{
		Dir: stateDir, Address: cfg.Temporal.Address, UIPort: cfg.Temporal.DevUIPort, Namespace: cfg.Temporal.Namespace, Progress: a.err, Environ: a.environ,
		Prepare: func(ctx context.Context) error { return a.prepare(ctx, cfg) },
	})
	if err != nil {
		return cfg, err
	}
	if cfg.Temporal.UIURL == "" {
		cfg.Temporal.UIURL = l.server.UIURL
	}
	return cfg, nil
}

// prepare makes a fresh namespace fit for turns.
func (a *app) prepare(ctx context.Context, cfg config.Config) error {
	c, err := a.dial(ctx, cfg)
	if err != nil {
		return err
	}
	defer c.Close()
	return prepareNamespace(ctx, c, cfg.Temporal.Namespace)
}

func prepareNamespace(ctx context.Context, c client.Client, namespace string) error {
	return errors.Join(
		cluster.EnsureRetention(ctx, c, namespace, devRetention),
		cluster.EnsureAttributes(ctx, c, namespace, workflows.SearchAttributes()))
}

// startWorker runs the engine in this process. Its log goes to a file: the terminal belongs to the turn.
func (l *local) startWorker(ctx context.Context, a *app, cfg config.Config) error {
	if err := os.MkdirAll(stateDir, 0o700); err != nil {
		return fmt.Errorf("making the state folder: %w", err)
	}
	var err error
	l.log, err = os.OpenFile(filepath.Join(stateDir, "worker.log"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return fmt.Errorf("opening the worker's log: %w", err)
	}
	cfg.Worker.DrainTimeout = min(cfg.Worker.DrainTimeout, devDrain)
	e, err := engine.New(ctx, cfg, engine.WithEnviron(a.environ), engine.WithLogger(logger(l.log)))
	if err != nil {
		return err
	}
	running, stop := context.WithCancel(context.WithoutCancel(ctx))
	l.stop, l.done = stop, make(chan error, 1)
	go func() { l.done <- errors.Join(e.Run(running), e.Close()) }()
	return nil
}

// failed reports a worker that ended by itself. Without a worker it never does.
func (l *local) failed() <-chan error { return l.done }

// close drains the worker, then lets go of the server: the last one out stops it.
func (l *local) close() {
	if l.stop != nil {
		l.stop()
		<-l.done
	}
	if l.log != nil {
		l.log.Close()
	}
	if l.server != nil {
		l.server.Close()
	}
}
