package sandbox

import (
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// supervisor starts a command and ends it. All of the command's processes stay below the supervisor, because the kernel
// gives it those whose parents end.
type supervisor struct {
	Argv    []string
	Environ []string
	Parent  int // the process that has started the supervisor
	Limits  Limits
}

// watchEvery is the interval at which the supervisor compares the command with its limits.
const watchEvery = 200 * time.Millisecond

// limitFile is the file descriptor to which the supervisor writes which limit the command exceeded.
const limitFile = 4

// run runs the command and exits with its exit code when all of its processes have ended. When the supervisor gets a
// SIGTERM, or when the worker dies, it ends the command first.
func (s supervisor) run(plan *os.File) {
	stop := make(chan os.Signal, 1)
	signal.Notify(stop, syscall.SIGTERM, syscall.SIGINT, syscall.SIGHUP)
	unix.CloseOnExec(limitFile)
	_ = unix.Prctl(unix.PR_SET_PDEATHSIG, uintptr(syscall.SIGTERM), 0, 0, 0)
	_ = unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
	if os.Getppid() != s.Parent { // the worker has died already
		os.Exit(exitNotRun)
	}
	cmd := exec.Command(s.Argv[0], s.Argv[1:]...)
	cmd.Env, cmd.ExtraFiles = s.Environ, []*os.File{plan}
	cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, os.Stdout, os.Stderr
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	if err := cmd.Start(); err != nil {
		fmt.Fprintln(os.Stderr, "isolating the command:", err)
		os.Exit(exitNotRun)
	}
	plan.Close()
	ended := make(chan int, 1)
	go reap(cmd.Process.Pid, ended)
	tick := time.NewTicker(watchEvery)
	defer tick.Stop()
	for ending := false; ; {
		select {
		case code := <-ended:
			if code < 0 {
				code = exitNotRun
			}
			endAll()
			os.Exit(code)
		case <-stop:
			ending = true
		case <-tick.C:
			if exceeded := s.exceeded(); exceeded != "" && !ending {
				ending = true
				_, _ = os.NewFile(limitFile, "limit").WriteString(exceeded)
			}
		}
		if ending {
			kill(descendants(os.Getpid()))
		}
	}
}

// reap collects the processes that end, until the first one, whose exit code it reports.
func reap(first int, ended chan<- int) {
	for {
		var status syscall.WaitStatus
		pid, err := syscall.Wait4(-1, &status, 0, nil)
		switch {
		case err == syscall.EINTR: //nolint:errorlint // Wait4 returns the number itself
		case err != nil:
			ended <- -1
			return
		case pid == first && status.Signaled():
			ended <- 128 + int(status.Signal())
			return
		case pid == first:
			ended <- status.ExitStatus()
			return
		}
	}
}

// endAll kills what the command has left, until no process is below the supervisor.
func endAll() {
	for {
		kill(descendants(os.Getpid()))
		var status syscall.WaitStatus
		switch pid, err := syscall.Wait4(-1, &status, syscall.WNOHANG, nil); {
		case err == syscall.ECHILD: //nolint:errorlint // Wait4 returns the number itself
			return
		case pid == 0:
			time.Sleep(time.Millisecond) // the killed processes need a moment
		}
	}
}

func kill(pids []int) {
	for _, pid := range pids {
		_ = syscall.Kill(pid, syscall.SIGKILL) // it may have ended
	}
}

// descendants returns the processes below a process. Those that are not reaped yet are among them.
func descendants(pid int) (out []int) {
	// The only error is that of a malformed pattern.
	files, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/children", pid))
	for _, file := range files {
		text, _ := os.ReadFile(file) // it is empty if the process has ended
		for _, field := range strings.Fields(string(text)) {
			if child, err := strconv.Atoi(field); err == nil {
				out = append(append(out, child), descendants(child)...)
			}
		}
	}
	return out
}

// exceeded says which limit the command exceeds, or returns "".
func (s supervisor) exceeded() string {
	var pages int64
	all := descendants(os.Getpid())
	for _, pid := range all {
		text, _ := os.ReadFile(fmt.Sprintf("/proc/%d/statm", pid))
		var size, resident, shared int64
		if n, _ := fmt.Sscan(string(text), &size, &resident, &shared); n == 3 {
			pages += resident - shared
		}
	}
	switch used := pages * int64(os.Getpagesize()); {
	case s.Limits.Processes > 0 && len(all) > s.Limits.Processes:
		return fmt.Sprintf("it had more than %d processes", s.Limits.Processes)
	case s.Limits.Memory > 0 && used > s.Limits.Memory:
		return fmt.Sprintf("it used more than %d MiB of memory", s.Limits.Memory>>20)
	}
	return ""
}
