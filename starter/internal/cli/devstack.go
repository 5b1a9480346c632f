package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"

	"github.com/spf13/cobra"

	"github.com/everturn/everturn/config"
	"github.com/everturn/everturn/engine"
	"github.com/everturn/everturn/internal/devserver"
	"github.com/everturn/everturn/internal/statedir"
	"github.com/everturn/everturn/internal/temporalconn"
	"github.com/everturn/everturn/workflows"
)

// stateDir holds everything that --dev writes.
const stateDir = statedir.Name

// devDrain bounds how long a --dev worker waits for its running activities. It is short because the user waits too, and
// no work is lost.
const devDrain = 2 * time.Second

// devRetention is how long the development server keeps closed turns.
const devRetention = 30 * 24 * time.Hour

// needs are the processes and connections that a command needs.
type needs struct {
	server, worker bool // on this machine
	quiet          bool // do not print the progress of starting them
	journal        bool // the journal must exist
	offline        bool // Temporal may be unreachable
}

// devStack is what a command has started on this machine: nothing, a server, or a server and a worker.
type devStack struct {
	server *devserver.Stack
	stop   context.CancelFunc
	done   chan error // closed when the worker has ended
	log    *os.File
}

// startStack resolves the cluster that the configuration means and returns the configuration with its address and
// namespace. If n asks for a server, startStack starts one on this machine or joins the running one; if n asks for a
// worker, startStack runs it in this process.
func (a *app) startStack(ctx context.Context, cfg config.Config, n needs) (*devStack, config.Config, error) {
	l := &devStack{}
	opts := temporalconn.FromConfig(cfg.Temporal, a.environ)
	ports, movable, err := opts.DevPorts()
	if err != nil {
		return nil, cfg, err
	}
	if ports.UI > 0 {
		cfg.Temporal.DevUIPort = ports.UI
	}
	if cfg.Temporal.Address, cfg.Temporal.Namespace, err = opts.Resolved(); err != nil {
		return nil, cfg, err
	}
	if !n.server {
		return l, cfg, nil
	}
	if n.worker {
		if err := cfg.LLM.CheckCredentials(); err != nil {
			return nil, cfg, err
		}
		if err := a.checkEnviron(); err != nil {
			return nil, cfg, err
		}
	}
	cfg, err = l.startServer(ctx, a, cfg, n, movable)
	if err == nil && n.worker {
		err = l.startWorker(ctx, a, cfg)
	}
	if err != nil {
		l.close()
		return nil, cfg, err
	}
	return l, cfg, nil
}

// startServer starts the development server or joins the running one. If movable, the server may use other ports than
// the configured ones.
func (l *devStack) startServer(ctx context.Context, a *app,
	cfg config.Config, n needs, movable bool) (config.Config, error) {
	if err := keepState(); err != nil {
		return cfg, err
	}
	progress := a.err
	if n.quiet {
		progress = io.Discard
	}
	folder, err := filepath.Abs(stateDir)
	if err != nil {
		return cfg, fmt.Errorf("finding the folder %s: %w", stateDir, err)
	}
	with := func(do func(context.Context, temporalconn.Conn) error) func(context.Context, string) error {
		return func(ctx context.Context, address string) error {
			at := cfg
			at.Temporal.Address = address
			return a.withConnection(ctx, at, do)
		}
	}
	t := cfg.Temporal
	options := devserver.Options{
		Dir: stateDir, Address: t.Address, UIPort: t.DevUIPort, Namespace: t.Namespace, Progress: progress,
		Environ: a.environ,
		Started: with(func(ctx context.Context, c temporalconn.Conn) error {
			return prepareNamespace(ctx, c, t.Namespace, folder, cfg.Journal.Path)
		}),
		Joined: with(func(ctx context.Context, c temporalconn.Conn) error {
			return refuseOwner(temporalconn.CheckOwner(ctx, c, t.Address, t.Namespace, cfg.Journal.Path))
		}),
		Prepare: with(func(ctx context.Context, c temporalconn.Conn) error {
			return temporalconn.EnsureAttributes(ctx, c, t.Namespace, workflows.SearchAttributes())
		}),
	}
	if movable {
		options.Moved = func(frontend, ui int) error {
			return temporalconn.DevPorts{Frontend: frontend, UI: ui}.Write(stateDir)
		}
	}
	if l.server, err = devserver.Ensure(ctx, options); err != nil {
		return cfg, stackError(err)
	}
	cfg.Temporal.Address = l.server.Address
	if cfg.Temporal.UIURL == "" {
		cfg.Temporal.UIURL = l.server.UIURL
	}
	return cfg, nil
}

// refuseOwner turns the error that a server belongs to another folder into a refusal.
func refuseOwner(err error) error {
	if errors.Is(err, config.ErrInvalid) {
		return &devserver.Refusal{Reason: err.Error()}
	}
	return err
}

// stackError gives a refused stack the exit code exitConfig, and one that did not start exitUnreachable.
func stackError(err error) error {
	var refused *devserver.Refusal
	switch {
	case errors.As(err, &refused):
		return asUsage(err)
	case exitCode(err) == exitFailed:
		return &exitError{code: exitUnreachable, cause: err}
	}
	return err
}

// keepState secures the state folder and writes a .gitignore into it, so that no journal is committed by accident. It
// overwrites a different .gitignore, which may have come with a clone.
func keepState() error {
	if err := statedir.Secure(stateDir); err != nil {
		return usage("%w", err)
	}
	const ignoreAll = "*\n"
	file := filepath.Join(stateDir, ".gitignore")
	if b, err := os.ReadFile(file); err == nil && string(b) == ignoreAll {
		return nil
	}
	if err := os.WriteFile(file, []byte(ignoreAll), 0o600); err != nil {
		return usage("writing to the folder %s: %w", stateDir, err)
	}
	return nil
}

func (a *app) withConnection(ctx context.Context, cfg config.Config, do func(context.Context,
	temporalconn.Conn) error) error {
	c, err := a.dial(ctx, cfg)
	if err != nil {
		return err
	}
	defer c.Close()
	return do(ctx, c)
}

// prepareNamespace sets the retention of a namespace on a server that this command started, and records this folder as
// its owner.
func prepareNamespace(ctx context.Context, c temporalconn.Conn, namespace, folder, journal string) error {
	return errors.Join(temporalconn.EnsureRetention(ctx, c, namespace, devRetention),
		temporalconn.SetOwner(ctx, c, namespace,
			folder, journal))
}

// startWorker runs the engine in this process. The worker logs to a file, because the terminal belongs to the turn.
func (l *devStack) startWorker(ctx context.Context, a *app, cfg config.Config) error {
	var err error
	l.log, err = os.OpenFile(filepath.Join(stateDir, "worker.log"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return usage("opening the worker's log: %w", err)
	}
	cfg.Worker.DrainTimeout = min(cfg.Worker.DrainTimeout, devDrain)
	e, err := engine.New(ctx, cfg, engine.WithEnviron(a.environ), engine.WithLogger(logger(l.log)))
	if err != nil {
		return err
	}
	running, stop := context.WithCancel(context.WithoutCancel(ctx))
	l.stop, l.done = stop, make(chan error, 1)
	go func() {
		defer close(l.done)
		l.done <- errors.Join(e.Run(running), e.Close())
	}()
	return nil
}

// failed returns a channel that reports that the worker ended by itself. Without a worker, the channel is nil.
func (l *devStack) failed() <-chan error { return l.done }

// close drains the worker, then releases the server, which stops when its last user releases it.
func (l *devStack) close() {
	if l.stop != nil {
		l.stop()
		for range l.done { // until the channel is closed
		}
	}
	if l.log != nil {
		l.log.Close()
	}
	if l.server != nil {
		l.server.Close()
	}
}

// devServerCommand is the supervisor of the development server. Only --dev starts it.
func (a *app) devServerCommand() *cobra.Command { return devserver.Command(a.err) }
