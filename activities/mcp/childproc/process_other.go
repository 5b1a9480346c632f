//go:build unix && !linux

package childproc

import (
	"syscall"
	"time"
)

// sysProcAttr makes the child the leader of its own group. This system has no parent-death signal: after a kill -9 of
// this program the child ends when it reads the end of its stdin.
func sysProcAttr() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true}
}

// awaitExit polls for the child's end: a zombie answers signal 0 of its group with EPERM or ESRCH.
func awaitExit(pid int) {
	for syscall.Kill(pid, 0) == nil && syscall.Kill(-pid, 0) == nil {
		time.Sleep(50 * time.Millisecond)
	}
}
