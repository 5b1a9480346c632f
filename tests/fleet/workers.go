package fleet

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"

	"github.com/everturn/everturn/config"
	"github.com/everturn/everturn/internal/temporalconn"
)

func (f *Fleet) startWorkers(ctx context.Context) error {
	for range f.options.Workers {
		if err := f.StartWorker(); err != nil {
			return err
		}
	}
	return f.Polling(ctx, f.options.Workers)
}

// StartWorker starts one more worker, with these variables besides those of this process. Polling says when it takes
// tasks.
func (f *Fleet) StartWorker(environ ...string) error {
	worker, err := f.newWorker(fmt.Sprintf("worker-%d", len(f.Workers)+1), environ...)
	if err == nil {
		f.Workers = append(f.Workers, worker)
	}
	return err
}

// restartWorkers starts the workers that have ended again.
func (f *Fleet) restartWorkers() error {
	for i, w := range f.Workers {
		if !w.ended() {
			continue
		}
		fmt.Fprintf(f.options.Progress, "fleet: %v; starting it again\n", w.failure())
		worker, err := f.newWorker(w.Name)
		if err != nil {
			return err
		}
		f.Workers[i] = worker
	}
	return nil
}

func (f *Fleet) newWorker(name string, environ ...string) (*Process, error) {
	cmd := exec.Command(f.programs.worker, "-config", f.Config())
	workspace := filepath.Join(f.options.Dir, "workspace") // of the file tools, which must not read agent.toml
	if err := os.MkdirAll(workspace, 0o700); err != nil {
		return nil, err
	}
	cmd.Env = append(append(os.Environ(), "EVERTURN_RUNTIME_WORKSPACE="+workspace), environ...)
	return f.spawn(name, cmd)
}

// Polling waits until n running workers poll for tasks.
func (f *Fleet) Polling(ctx context.Context, n int) error {
	if n == 0 {
		return nil
	}
	queue := config.Default().Temporal.TaskQueue
	return await(ctx, func(ctx context.Context) bool {
		return f.connected(ctx, func(c temporalconn.Conn) bool {
			pollers, err := temporalconn.Pollers(ctx, c, queue)
			return err == nil && len(pollers) >= n
		})
	}, f.running()...)
}

// running returns the workers that have not ended, and the server.
func (f *Fleet) running() []*Process {
	list := []*Process{f.temporal}
	for _, w := range f.Workers {
		if !w.ended() {
			list = append(list, w)
		}
	}
	return list
}
