package stdio

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"slices"
	"sync"
	"syscall"
	"time"
)

// drainDelay bounds how long a process that has ended may keep its streams open through a descendant that left the
// group.
const drainDelay = time.Second

// Command says what to run. Nothing is inherited: not the environment, not the search path.
type Command struct {
	Path string   // absolute, or relative to this program's directory; never searched for
	Args []string // without the program's name
	Env  []string // NAME=value, complete but for the mark that ReapOrphans looks for
	Dir  string
	// MaxFrameBytes bounds one line of stdout, StderrBytes what is kept of stderr.
	MaxFrameBytes int
	StderrBytes   int
	// User is who the child runs as; nil: this program's user. Only root may set it.
	User *syscall.Credential
	// OnStdout is given each part of stdout that is read, before anything else is done with it; its error ends reading.
	// OnStderr is told how many bytes were read there. Both may be nil.
	OnStdout func(read []byte) error
	OnStderr func(n int)
	// OnChange is called when the process has started, and when it has ended and State says how. It may be nil.
	OnChange func(*Process)
}

// Process is a running child and its group.
type Process struct {
	Stdin  *Stdin
	Stdout *Frames
	Stderr *Tail

	cmd     *exec.Cmd
	done    chan struct{}
	changed func(*Process)

	mu     sync.Mutex
	reaped bool
	state  string
	told   bool // its stdin was closed before it had closed its stdout: to end is what it was told
}

// Start runs the command in a new process group.
func (s *Spawner) Start(c Command) (*Process, error) {
	inR, inW, err := os.Pipe()
	if err != nil {
		return nil, fmt.Errorf("opening stdin's pipe: %w", err)
	}
	outR, outW, err := os.Pipe()
	if err != nil {
		return nil, errors.Join(fmt.Errorf("opening stdout's pipe: %w", err), inR.Close(), inW.Close())
	}
	p := &Process{
		Stdin: &Stdin{w: inW}, Stderr: NewTail(c.StderrBytes), done: make(chan struct{}),
	}
	p.Stdout = NewFrames(outR, c.MaxFrameBytes, p.Stderr)
	p.Stdout.onRead, p.Stderr.onWrite = c.OnStdout, c.OnStderr
	p.Stdin.closing = p.tell
	p.cmd = &exec.Cmd{
		Path: c.Path, Args: append([]string{c.Path}, c.Args...), Env: marked(c.Env), Dir: c.Dir,
		Stdin: inR, Stdout: outW, Stderr: p.Stderr, WaitDelay: drainDelay, SysProcAttr: sysProcAttr(),
	}
	p.cmd.SysProcAttr.Credential = c.User
	err = s.start(p.cmd)
	_ = inR.Close()
	_ = outW.Close()
	if err != nil {
		_ = inW.Close()
		_ = outR.Close()
		return nil, fmt.Errorf("running %s: %w", c.Path, err)
	}
	if p.changed = c.OnChange; p.changed != nil {
		p.changed(p)
	}
	go p.reap()
	return p, nil
}

// PID is the number of the process and of its group.
func (p *Process) PID() int { return p.cmd.Process.Pid }

// Done is closed when the process has ended, its group was killed and it was reaped.
func (p *Process) Done() <-chan struct{} { return p.done }

// State says how the process ended ("exit status 3", "signal: killed"); empty while it runs.
func (p *Process) State() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.state
}

// Fate is State of a process that ended by itself; empty where it did what it was told.
func (p *Process) Fate() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.told && slices.Contains([]string{"exit status 0", "signal: terminated", "signal: killed"}, p.state) {
		return ""
	}
	return p.state
}

// tell notes that the process is told to end, by its stdin.
func (p *Process) tell() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.told = !p.reaped && !p.Stdout.finished.Load()
}

// reap waits for the leader's end and kills what is left of its group while the zombie still holds its number, so
// that the signal cannot reach a stranger.
func (p *Process) reap() {
	defer close(p.done)
	awaitExit(p.PID())
	p.Signal(syscall.SIGKILL)
	p.mu.Lock()
	p.reaped = true
	p.mu.Unlock()
	_ = p.cmd.Wait() // its result is in ProcessState
	p.mu.Lock()
	p.state = p.cmd.ProcessState.String()
	p.mu.Unlock()
	if p.changed != nil {
		p.changed(p)
	}
	p.Stdout.closeAfter(drainDelay)
	_ = p.Stdin.Close()
}

// Signal sends sig to the whole group. It does nothing once the leader was reaped.
func (p *Process) Signal(sig syscall.Signal) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.reaped {
		_ = syscall.Kill(-p.PID(), sig) // ESRCH: the group is gone, which is what was asked for
	}
}

// Stop ends the process: it closes stdin, then sends TERM after grace and KILL after another grace to the group. It
// returns when the process was reaped, or an error when that took longer than two seconds after KILL.
func (p *Process) Stop(grace time.Duration) error {
	_ = p.Stdin.Close()
	for _, sig := range []syscall.Signal{syscall.SIGTERM, syscall.SIGKILL} {
		if p.await(grace) {
			return nil
		}
		p.Signal(sig)
	}
	if !p.await(2*time.Second + drainDelay) {
		return fmt.Errorf("stopping process %d: it is still there after SIGKILL", p.PID())
	}
	return nil
}

func (p *Process) await(d time.Duration) bool {
	ctx, cancel := context.WithTimeout(context.Background(), d)
	defer cancel()
	select {
	case <-p.done:
		return true
	case <-ctx.Done():
		return false
	}
}

// Stdin is the writing end of a child's standard input. Close is idempotent.
type Stdin struct {
	w       *os.File
	once    sync.Once
	err     error
	closing func() // called before it is closed; may be nil

	mu      sync.Mutex
	written int64
}

// Write implements io.Writer.
func (s *Stdin) Write(b []byte) (int, error) {
	n, err := s.w.Write(b)
	s.mu.Lock()
	s.written += int64(n)
	s.mu.Unlock()
	return n, err
}

// Written is the number of bytes that the pipe has taken.
func (s *Stdin) Written() int64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.written
}

// Close closes the pipe and unblocks a Write.
func (s *Stdin) Close() error {
	s.once.Do(func() {
		if s.closing != nil {
			s.closing()
		}
		s.err = s.w.Close()
	})
	return s.err
}

var _ io.WriteCloser = (*Stdin)(nil)
