package childproc

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"slices"
	"sync"
	"sync/atomic"
	"syscall"
	"time"
)

// drainDelay is how long the streams of an ended process may stay open. A descendant that left the process group could
// keep them open indefinitely.
const drainDelay = time.Second

// Command describes a process to run. The process inherits neither the environment nor the search path.
type Command struct {
	Path string   // absolute, or relative to this program's directory; not searched for in PATH
	Args []string // without the program's name
	Env  []string // NAME=value, complete except for the mark that ReapOrphans looks for
	Dir  string
	// MaxFrameBytes bounds one line of stdout, StderrBytes the part of stderr that is kept.
	MaxFrameBytes int
	StderrBytes   int
	// User is the user that the child runs as; nil: this program's user. Only root may set it.
	User *syscall.Credential
	// OnStdout is called with each part of stdout before it is processed; its error ends reading. OnStderr is called
	// with the number of bytes read from stderr. Both may be nil.
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

	mu        sync.Mutex
	reaped    bool
	state     string
	toldToEnd bool // see recordStop
}

// Start starts the command as the leader of a new process group. It creates the pipes itself, instead of using those of
// exec.Cmd, because Wait would close them before everything has been read.
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
	p.Stdin.closing = p.recordStop
	p.cmd = &exec.Cmd{
		Path: c.Path, Args: append([]string{c.Path}, c.Args...), Env: withMark(c.Env), Dir: c.Dir,
		Stdin: inR, Stdout: outW, Stderr: p.Stderr, WaitDelay: drainDelay, SysProcAttr: sysProcAttr(),
	}
	p.cmd.SysProcAttr.Credential = c.User
	err = s.start(p.cmd)
	_ = inR.Close() // only the child needs these ends now
	_ = outW.Close()
	if err != nil {
		_ = inW.Close()
		_ = outR.Close()
		return nil, fmt.Errorf("running %s: %w", c.Path, err)
	}
	if p.changed = c.OnChange; p.changed != nil {
		p.changed(p) // before reap, which reports the end
	}
	go p.reap()
	return p, nil
}

// PID returns the ID of the process and of its group.
func (p *Process) PID() int { return p.cmd.Process.Pid }

// Done returns a channel that is closed when the process has ended, its group has been killed and it has been reaped.
func (p *Process) Done() <-chan struct{} { return p.done }

// State returns how the process ended, such as "exit status 3" or "signal: killed"; empty while it runs.
func (p *Process) State() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.state
}

// Fate returns the State of a process that ended unexpectedly. It returns "" while the process runs, and for a process
// that this program told to end, by closing its stdin, and that ended with status 0 or by SIGTERM or SIGKILL.
func (p *Process) Fate() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.toldToEnd && slices.Contains([]string{"exit status 0", "signal: terminated", "signal: killed"}, p.state) {
		return ""
	}
	return p.state
}

// recordStop records that this program tells the process to end, by closing its stdin. That does not count if the
// process has already ended or closed its stdout: it then ended by itself.
func (p *Process) recordStop() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.toldToEnd = !p.reaped && !p.Stdout.finished.Load()
}

// reap waits until the leader has ended, kills the rest of its group, records how the leader ended, and closes the
// streams. It kills the group before Wait reaps the leader: as long as the leader is a zombie, no unrelated process
// group can have its PID.
func (p *Process) reap() {
	defer close(p.done)
	awaitExit(p.PID())
	p.Signal(syscall.SIGKILL)
	p.mu.Lock()
	p.reaped = true // from now on Signal does nothing
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

// Signal sends sig to the whole process group. It does nothing after the leader was reaped, because another group may
// have the ID since.
func (p *Process) Signal(sig syscall.Signal) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.reaped {
		_ = syscall.Kill(-p.PID(), sig) // ESRCH: the group has already ended
	}
}

// Stop ends the process: it closes stdin, sends TERM to the group after grace, and KILL after another grace. It returns
// when the process was reaped, or an error if that takes longer than ten seconds after KILL.
func (p *Process) Stop(grace time.Duration) error {
	_ = p.Stdin.Close()
	for _, sig := range []syscall.Signal{syscall.SIGTERM, syscall.SIGKILL} {
		if p.awaitDone(grace) {
			return nil
		}
		p.Signal(sig)
	}
	if !p.awaitDone(10 * time.Second) {
		return fmt.Errorf("stopping process %d: it is still there after SIGKILL", p.PID())
	}
	return nil
}

// awaitDone waits at most d for the process's end, and reports whether it has ended.
func (p *Process) awaitDone(d time.Duration) bool {
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
	closing func() // called before the pipe is closed; may be nil
	written atomic.Int64
}

// Write implements io.Writer.
func (s *Stdin) Write(b []byte) (int, error) {
	n, err := s.w.Write(b)
	s.written.Add(int64(n))
	return n, err
}

// Written returns the number of bytes written to the pipe.
func (s *Stdin) Written() int64 { return s.written.Load() }

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
