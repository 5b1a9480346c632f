package app

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"syscall"
	"time"

	"github.com/everturn/everturn/config"
	"github.com/everturn/everturn/engine"
	"github.com/everturn/everturn/internal/devserver"
	"github.com/everturn/everturn/internal/statedir"
	"github.com/everturn/everturn/internal/temporalconn"
	"github.com/everturn/everturn/workflows"
)

// StateDir is the folder, relative to the working folder, that holds everything that --dev writes.
const StateDir = statedir.Name

// devDrain bounds how long a --dev worker waits for its running activities when it stops. It is short because the user
// waits for it, and no work is lost.
const devDrain = 2 * time.Second

// devRetention is how long the development server keeps closed turns.
const devRetention = 30 * 24 * time.Hour

// Needs are the processes and connections that a command needs.
type Needs struct {
	Server, Worker bool   // start a development server on this machine, and a worker in this process
	SlowDemo       bool   // let the worker's demo model answer slowly
	Quiet          bool   // do not print the progress of starting them, or of waiting for a worker
	Journal        bool   // the journal must exist
	Model          string // the model must exist, unless only the workers' configuration can tell; "": no check
	offline        bool   // do not connect to Temporal
}

// devStack holds the processes that a command has started on this machine: none, a server, or a server and a worker.
type devStack struct {
	server *devserver.Stack   // nil: none
	stop   context.CancelFunc // stops the worker; nil: no worker
	done   chan error         // gets the worker's error and is closed when the worker has ended
	log    *os.File           // the worker's log
}

// StartStack resolves the configured Temporal cluster and returns cfg with the cluster's address and namespace. If
// n.Server is set, it starts a development server on this machine or joins the running one. If n.Worker is set, it runs
// a worker in this process. The caller closes the stack.
func (a *App) StartStack(ctx context.Context, cfg config.Config, n Needs) (*devStack, config.Config, error) {
	s := &devStack{}
	opts := temporalconn.FromConfig(cfg.Temporal, a.Environ)
	_, movable, err := opts.DevPorts()
	if err != nil {
		return nil, cfg, err
	}
	if cfg.Temporal.Address, cfg.Temporal.Namespace, err = opts.Resolved(); err != nil {
		return nil, cfg, err
	}
	if n.Worker {
		if err := cfg.CheckCredentials(); err != nil {
			return nil, cfg, err
		}
		if err := a.CheckEnviron(); err != nil {
			return nil, cfg, err
		}
	}
	if n.Server {
		cfg, err = s.startServer(ctx, a, cfg, n, movable)
	}
	if err == nil && n.Worker {
		err = s.startWorker(ctx, a, cfg, n.SlowDemo)
	}
	if err != nil {
		s.Close()
		return nil, cfg, err
	}
	return s, cfg, nil
}

// startServer starts the development server or joins the running one, and returns cfg with the server's addresses. If
// movable is true, the server may use other ports than the configured ones, because the user has not set them.
func (s *devStack) startServer(ctx context.Context, a *App,
	cfg config.Config, n Needs, movable bool) (config.Config, error) {
	if err := KeepState(); err != nil {
		return cfg, err
	}
	progress := a.Err
	if n.Quiet {
		progress = io.Discard
	}
	folder, err := filepath.Abs(StateDir)
	if err != nil {
		return cfg, fmt.Errorf("finding the folder %s: %w", StateDir, err)
	}
	// with returns do as a function that first connects to the server's address.
	with := func(do func(context.Context, temporalconn.Conn) error) func(context.Context, string) error {
		return func(ctx context.Context, address string) error {
			at := cfg
			at.Temporal.Address = address
			return a.withConnection(ctx, at, do)
		}
	}
	t := cfg.Temporal
	options := devserver.Options{
		Dir: StateDir, Address: t.Address, Namespace: t.Namespace, Progress: progress,
		Environ: a.Environ, CodecURL: codecURL(cfg.Encryption, a.Environ),
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
		options.Moved = func(port int) error {
			return temporalconn.DevPorts{Frontend: port}.Write(StateDir)
		}
	}
	if s.server, err = devserver.Ensure(ctx, options); err != nil {
		return cfg, stackError(err)
	}
	cfg.Temporal.Address = s.server.Address
	if cfg.Temporal.UIURL == "" {
		cfg.Temporal.UIURL = s.server.UIURL
	}
	return cfg, nil
}

// CodecAddress is where `everturn codec serve` listens by default.
const CodecAddress = "127.0.0.1:8234"

// codecURL returns the address of the codec server for the Web UI of --dev: TEMPORAL_CODEC_ENDPOINT, or else that of
// `everturn codec serve` on this machine. It returns "" if nothing is encrypted.
func codecURL(e config.Encryption, environ []string) string {
	if !e.On() {
		return ""
	}
	url, _ := temporalconn.Environ(environ).LookupEnv("TEMPORAL_CODEC_ENDPOINT")
	return cmp.Or(url, "http://"+CodecAddress)
}

// refuseOwner returns the error of CheckOwner. If the server belongs to another folder, it is a devserver.Refusal,
// which keeps devserver from joining that server.
func refuseOwner(err error) error {
	if errors.Is(err, config.ErrInvalid) {
		return &devserver.Refusal{Reason: err.Error()}
	}
	return err
}

// stackError gives an error of the development server its exit code: ExitConfig if devserver refused to start or join
// it, and ExitUnreachable if it failed for another reason without an exit code.
func stackError(err error) error {
	var refused *devserver.Refusal
	switch {
	case errors.As(err, &refused):
		return AsUsage(err)
	case ExitCode(err) == ExitFailed:
		return &ExitError{Code: ExitUnreachable, Cause: err}
	}
	return err
}

// KeepState secures the state folder and writes a .gitignore into it, so that no journal is committed by accident. It
// overwrites a different .gitignore, which may have come with a clone.
func KeepState() error {
	if err := statedir.Secure(StateDir); err != nil {
		return Usage("%w", err)
	}
	const ignoreAll = "*\n"
	file := filepath.Join(StateDir, ".gitignore")
	if b, err := os.ReadFile(file); err == nil && string(b) == ignoreAll {
		return nil
	}
	err := os.WriteFile(file, []byte(ignoreAll), 0o600)
	if err != nil && !errors.Is(err, syscall.EROFS) { // on a read-only disk there is nothing to keep out of commits
		return Usage("writing to the folder %s: %w", StateDir, err)
	}
	return nil
}

// withConnection calls do with a connection to Temporal, and closes it afterwards.
func (a *App) withConnection(ctx context.Context, cfg config.Config, do func(context.Context,
	temporalconn.Conn) error) error {
	c, err := a.Dial(ctx, cfg)
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

// startWorker runs a worker in this process until Close. It logs to a file, because the terminal shows the turn.
func (s *devStack) startWorker(ctx context.Context, a *App, cfg config.Config, slowDemo bool) error {
	if err := KeepState(); err != nil {
		return err
	}
	var err error
	s.log, err = os.OpenFile(filepath.Join(StateDir, "worker.log"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return Usage("opening the worker's log: %w", err)
	}
	cfg.Worker.DrainTimeout = min(cfg.Worker.DrainTimeout, devDrain)
	e, err := engine.New(ctx, cfg, engine.WithEnviron(a.Environ), engine.WithLogger(logger(s.log)),
		engine.WithSlowDemo(slowDemo))
	if err != nil {
		return err
	}
	running, stop := context.WithCancel(context.WithoutCancel(ctx)) // only Close stops the worker
	s.stop, s.done = stop, make(chan error, 1)
	go func() {
		defer close(s.done)
		s.done <- errors.Join(e.Run(running), e.Close())
	}()
	return nil
}

// Failed returns a channel that gets an error when the worker ends before Close. Without a worker, the channel is nil.
func (s *devStack) Failed() <-chan error { return s.done }

// Close drains the worker, then releases the server, which stops when its last user releases it.
func (s *devStack) Close() {
	if s.stop != nil {
		s.stop()
		for range s.done { // until the channel is closed
		}
	}
	if s.log != nil {
		s.log.Close()
	}
	if s.server != nil {
		s.server.Close()
	}
}
