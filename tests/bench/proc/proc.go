package proc

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"time"
)

// Command describes the process to start.
type Command struct {
	Name string // used in the name of the log file
	Argv []string
	Dir  string // working directory, which also holds the log
	Env  []string
}

// Process is a child in its own process group. It ends with this program.
type Process struct {
	cmd   *exec.Cmd
	name  string
	log   string
	first chan string
	done  chan struct{}
}

// Start starts the command. Its stderr, and its stdout past the first line, go to a file.
func Start(c Command) (*Process, error) {
	p := &Process{name: c.Name, log: filepath.Join(c.Dir, c.Name+".log"), first: make(chan string, 1),
		done: make(chan struct{})}
	file, err := os.OpenFile(p.log, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return nil, fmt.Errorf("opening the log of %s: %w", c.Name, err)
	}
	p.cmd = exec.Command(c.Argv[0], c.Argv[1:]...)
	p.cmd.Dir, p.cmd.Env, p.cmd.Stderr, p.cmd.WaitDelay = c.Dir, c.Env, file, 2*time.Second
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
	out, err := p.cmd.StdoutPipe()
	if err != nil {
		return nil, errors.Join(fmt.Errorf("starting %s: %w", c.Name, err), file.Close())
	}
	started := make(chan error)
	go p.tend(out, file, started)
	if err := <-started; err != nil {
		return nil, fmt.Errorf("starting %s: %w", c.Name, err)
	}
	return p, nil
}

// tend starts the process and reaps it. The kernel ties Pdeathsig to the thread that started the child.
func (p *Process) tend(out io.Reader, file *os.File, started chan<- error) {
	runtime.LockOSThread()
	defer close(p.done)
	defer file.Close()
	err := p.cmd.Start()
	started <- err
	if err != nil {
		return
	}
	lines := bufio.NewReader(out)
	line, err := lines.ReadString('\n')
	if err == nil {
		p.first <- strings.TrimSpace(line)
	}
	close(p.first)
	_, _ = io.Copy(file, lines) // the log is informational
	_ = p.cmd.Wait()            // the process state tells how it ended
}

// PID is the process's ID.
func (p *Process) PID() int { return p.cmd.Process.Pid }

// FirstLine waits for the first line on stdout, which is the address that the process serves.
func (p *Process) FirstLine(ctx context.Context) (string, error) {
	select {
	case line, ok := <-p.first:
		if !ok {
			return "", fmt.Errorf("%s ended early: %s", p.name, p.Tail())
		}
		return line, nil
	case <-ctx.Done():
		return "", fmt.Errorf("waiting for %s: %w; its log says: %s", p.name, context.Cause(ctx), p.Tail())
	}
}

// Ended returns a channel that is closed when the process has ended.
func (p *Process) Ended() <-chan struct{} { return p.done }

// stopWithin is how long a process may take to end after SIGTERM.
const stopWithin = 20 * time.Second

// Stop sends SIGTERM, and SIGKILL if the process has not ended within 20 seconds.
func (p *Process) Stop() error {
	select {
	case <-p.done:
		return fmt.Errorf("%s had ended before it was stopped: %s", p.name, p.Tail())
	default:
	}
	_ = p.cmd.Process.Signal(syscall.SIGTERM) // the process may have ended already
	timer := time.NewTimer(stopWithin)
	defer timer.Stop()
	select {
	case <-p.done:
	case <-timer.C:
		_ = syscall.Kill(-p.PID(), syscall.SIGKILL)
		<-p.done
		return fmt.Errorf("%s did not stop within %s and was killed", p.name, stopWithin)
	}
	if !p.cmd.ProcessState.Success() {
		return fmt.Errorf("%s ended with %s: %s", p.name, p.cmd.ProcessState, p.Tail())
	}
	return nil
}

// Tail returns the end of the process's log.
func (p *Process) Tail() string {
	b, err := os.ReadFile(p.log)
	if err != nil {
		return err.Error()
	}
	return string(b[max(0, len(b)-2000):])
}
