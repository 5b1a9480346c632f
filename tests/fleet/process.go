package fleet

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"sync"
	"syscall"
	"time"

	"github.com/everturn/everturn/tests/proc"
)

// stopGrace is longer than a worker's drain_timeout.
const stopGrace = 100 * time.Second

// Process is a service of the fleet. It ends with the program that started it.
type Process struct {
	Name string
	Log  string // path

	cmd  *exec.Cmd
	done <-chan struct{}
}

// spawn starts a service that logs to NAME.log.
func (f *Fleet) spawn(name string, cmd *exec.Cmd) (*Process, error) {
	log, err := f.open(name + ".log")
	if err != nil {
		return nil, err
	}
	defer log.Close()
	cmd.Dir, cmd.Stdout, cmd.Stderr = f.options.Dir, log, log
	p := &Process{Name: name, Log: log.Name(), cmd: cmd}
	if p.done, err = proc.Start(cmd); err != nil {
		return nil, fmt.Errorf("starting %s: %w", name, err)
	}
	return p, nil
}

// Pid is the process ID.
func (p *Process) Pid() int { return p.cmd.Process.Pid }

// Kill ends the process with SIGKILL.
func (p *Process) Kill() {
	_ = p.cmd.Process.Kill() // it may have ended
	<-p.done
}

// Stop ends the process with SIGTERM, and returns when it has ended.
func (p *Process) Stop() { stop(p) }

// stop stops processes at the same time, with SIGTERM first. nil is no process.
func stop(processes ...*Process) {
	var all sync.WaitGroup
	for _, p := range processes {
		if p == nil {
			continue
		}
		all.Go(func() {
			_ = p.cmd.Process.Signal(syscall.SIGTERM) // here and in Kill, it may have ended
			select {
			case <-p.done:
			case <-time.After(stopGrace):
				p.Kill()
			}
		})
	}
	all.Wait()
}

// await calls ready until it returns true, or a process or the time ends. The services offer no event.
func await(ctx context.Context, ready func(context.Context) bool, processes ...*Process) error {
	ctx, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	for !ready(ctx) {
		for _, p := range processes {
			if p.ended() {
				return fmt.Errorf("%s ended (%s): %s", p.Name, p.cmd.ProcessState, p.ending())
			}
		}
		select {
		case <-ctx.Done():
			return errors.Join(context.Cause(ctx), fmt.Errorf("not ready within %s: %s", startTimeout, processes[0].ending()))
		case <-time.After(100 * time.Millisecond):
		}
	}
	return nil
}

// ended reports whether the process has ended.
func (p *Process) ended() bool {
	select {
	case <-p.done:
		return true
	default:
		return false
	}
}

// failure is the error of a process that has ended by itself.
func (p *Process) failure() error {
	return fmt.Errorf("%s ended (%s): see %s", p.Name, p.cmd.ProcessState, p.Log)
}

// ending returns the last 2,000 bytes of the process's log.
func (p *Process) ending() string {
	b, err := os.ReadFile(p.Log)
	if err != nil {
		return err.Error()
	}
	return fmt.Sprintf("the end of %s says:\n%s", p.Log, b[max(0, len(b)-2000):])
}
