package main

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/everturn/everturn/tests/proc"
)

// process is a child in its own process group. Its output goes to a file.
type process struct {
	cmd  *exec.Cmd
	log  string
	done <-chan struct{}
}

// spawn starts a program that ends when this one does.
func spawn(log, program string, env []string, args ...string) (*process, error) {
	out, err := os.Create(log)
	if err != nil {
		return nil, err
	}
	defer out.Close()
	p := &process{cmd: exec.Command(program, args...), log: log}
	p.cmd.Stdout, p.cmd.Stderr, p.cmd.Env, p.cmd.Dir = out, out, env, filepath.Dir(log)
	if p.done, err = proc.Start(p.cmd); err != nil {
		return nil, fmt.Errorf("starting %s: %w", program, err)
	}
	return p, nil
}

func (p *process) pid() int { return p.cmd.Process.Pid }

func (p *process) signal(s syscall.Signal) { _ = p.cmd.Process.Signal(s) } // it may be gone

// kill kills the process and returns when it was reaped.
func (p *process) kill() {
	p.signal(syscall.SIGKILL)
	<-p.done
}

// gone reports whether the process has ended.
func (p *process) gone() bool {
	select {
	case <-p.done:
		return true
	default:
		return false
	}
}

// killed reports whether the process was ended by SIGKILL.
func (p *process) killed() bool {
	status, ok := p.cmd.ProcessState.Sys().(syscall.WaitStatus)
	return ok && status.Signaled() && status.Signal() == syscall.SIGKILL
}

// end asks the process to stop and kills it if it does not.
func (p *process) end(within time.Duration) error {
	p.signal(syscall.SIGCONT)
	p.signal(syscall.SIGTERM)
	timer := time.NewTimer(within)
	defer timer.Stop()
	select {
	case <-p.done:
		if !p.cmd.ProcessState.Success() && !p.killed() {
			return fmt.Errorf("process %d ended with %s: %s", p.pid(), p.cmd.ProcessState, tail(p.log))
		}
		return nil
	case <-timer.C:
		p.kill()
		return fmt.Errorf("process %d did not stop within %s", p.pid(), within)
	}
}

// logged reports whether the process has logged the text.
func (p *process) logged(text string) bool {
	b, err := os.ReadFile(p.log)
	return err == nil && bytes.Contains(b, []byte(text))
}

// peakBytes returns the process's highest resident memory; 0 if it cannot be read any more.
func (p *process) peakBytes() int64 {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", p.pid()))
	if err != nil {
		return 0
	}
	for line := range strings.Lines(string(b)) {
		if rest, ok := strings.CutPrefix(line, "VmHWM:"); ok {
			kb, _ := strconv.ParseInt(strings.TrimSuffix(strings.TrimSpace(rest), " kB"), 10, 64) // 0 means not known
			return kb << 10
		}
	}
	return 0
}

func tail(file string) string {
	b, err := os.ReadFile(file)
	if err != nil {
		return err.Error()
	}
	return string(b[max(0, len(b)-1500):])
}

// mentioning returns the living processes whose command line contains the text, by process ID.
func mentioning(text string) map[int]string {
	out := map[int]string{}
	files, _ := filepath.Glob("/proc/[0-9]*/cmdline") // the pattern is valid
	for _, file := range files {
		pid, err := strconv.Atoi(filepath.Base(filepath.Dir(file)))
		b, rerr := os.ReadFile(file)
		if err != nil || rerr != nil || !bytes.Contains(b, []byte(text)) || pid == os.Getpid() {
			continue
		}
		out[pid] = strings.TrimSpace(strings.ReplaceAll(string(b), "\x00", " "))
	}
	return out
}

// poll is the interval for polling what offers no event: another process's file, the process table.
const poll = 5 * time.Millisecond

// await waits until a condition holds. what describes the condition in the error.
func await(ctx context.Context, what string, ok func() bool) error {
	ticker := time.NewTicker(poll)
	defer ticker.Stop()
	for !ok() {
		select {
		case <-ctx.Done():
			return fmt.Errorf("%s was never reached: %w", what, context.Cause(ctx))
		case <-ticker.C:
		}
	}
	return nil
}
