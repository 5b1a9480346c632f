package fleet

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"time"

	"github.com/everturn/everturn/journal/postgres/pgtest"
)

// Options describe a fleet.
type Options struct {
	// Dir holds everything that the fleet writes. Another start continues with what is there.
	Dir     string
	Workers int
	// Ports of 127.0.0.1; 0 means the port of the last start in Dir, else a free one.
	Ports Ports
	// Settings are more tables of the workers' agent.toml: all but [temporal] and [journal].
	Settings string
	// Dynamic are more settings of Temporal's dynamic configuration, in YAML.
	Dynamic string
	// Postgres are settings of postgresql.conf, "name=value".
	Postgres []string
	// Worker and Starter are the programs; they are built if empty.
	Worker, Starter string
	Progress        io.Writer
}

// Ports are those that a user needs.
type Ports struct{ Postgres, Temporal, UI int }

// startTimeout bounds the start of one service, without building its program.
const startTimeout = 3 * time.Minute

// Fleet is a running fleet.
type Fleet struct {
	// Workers are those that were started, including killed ones.
	Workers []*Process

	options  Options
	state    *state
	programs programs
	postgres *pgtest.Server
	temporal *Process
	ui       *Process
	stopUI   func()
}

// Start starts a fleet and waits until its workers poll. The caller closes it. The error wraps exec.ErrNotFound if
// Postgres is not installed.
func Start(ctx context.Context, o Options) (*Fleet, error) {
	dir, err := filepath.Abs(o.Dir)
	if err != nil {
		return nil, err
	}
	o.Dir = dir
	f := &Fleet{options: o, stopUI: func() {}}
	for _, step := range []struct {
		name string
		do   func(context.Context) error
	}{
		{"the programs", f.build},
		{"Postgres", f.startPostgres},
		{"Temporal's tables", f.schema},
		{"Temporal", f.startTemporal},
		{"the namespace", f.namespace},
		{"the Web UI", f.startUI},
		{"the journal's tables", f.migrate},
		{"the workers", f.startWorkers},
	} {
		fmt.Fprintf(o.Progress, "fleet: %s\n", step.name)
		if err := step.do(ctx); err != nil {
			return nil, errors.Join(fmt.Errorf("starting %s: %w", step.name, err), f.Close())
		}
	}
	return f, nil
}

// Address is the Temporal server's.
func (f *Fleet) Address() string { return address(f.state.Temporal) }

// TemporalPid is the process ID of the Temporal server.
func (f *Fleet) TemporalPid() int { return f.temporal.Pid() }

// UIURL is the Web UI's.
func (f *Fleet) UIURL() string { return "http://" + address(f.state.UI) }

// Config is the path of the agent.toml that workers and clients share.
func (f *Fleet) Config() string { return filepath.Join(f.options.Dir, "agent.toml") }

// Starter is the path of the command line's program.
func (f *Fleet) Starter() string { return f.programs.everturn }

// JournalURL is the connection string of the journal's role.
func (f *Fleet) JournalURL() string {
	return fmt.Sprintf("postgres://journal:%s@%s/journal?sslmode=disable", f.state.JournalPassword,
		address(f.state.Postgres))
}

// Postgres is the server of Temporal's and the journal's databases.
func (f *Fleet) Postgres() *pgtest.Server { return f.postgres }

// Close stops everything in the order in which it depends on each other: workers, Web UI, Temporal, Postgres.
func (f *Fleet) Close() error {
	stop(f.Workers...)
	f.stopUI()
	stop(f.ui, f.temporal)
	if f.postgres == nil {
		return nil
	}
	return f.postgres.Close()
}

// Watch starts workers that end by themselves again, until ctx ends. It returns an error if another service ends.
func (f *Fleet) Watch(ctx context.Context) error {
	ticker := time.NewTicker(time.Second)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			fmt.Fprintln(f.options.Progress, "fleet: stopping")
			return nil
		case <-f.temporal.done:
			return f.temporal.failure()
		case <-f.ui.done:
			return f.ui.failure()
		case <-ticker.C: // the pause between two starts of a worker that always ends
			if err := f.restartWorkers(); err != nil {
				return err
			}
		}
	}
}

func address(port int) string { return fmt.Sprintf("127.0.0.1:%d", port) }

// root is the clone's folder.
func root() string {
	_, file, _, _ := runtime.Caller(0)
	return filepath.Join(filepath.Dir(file), "..", "..")
}

// open creates a log file.
func (f *Fleet) open(name string) (*os.File, error) {
	return os.OpenFile(filepath.Join(f.options.Dir, name), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
}
