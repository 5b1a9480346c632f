//go:build unix && !linux

package childproc

import (
	"syscall"
	"time"
)

// sysProcAttr returns attributes that make the child the leader of its own session and process group: a server does not
// get the terminal of this program, where it could draw over an approval or type the user's decision. This system has
// no parent-death signal: after a kill -9 of this program the child ends when it reads the end of its stdin.
func sysProcAttr() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setsid: true}
}

// awaitExit waits until the child has ended, without reaping it. It polls: when the child is a zombie, signal 0 to its
// group fails with EPERM or ESRCH.
func awaitExit(pid int) {
	for syscall.Kill(pid, 0) == nil && syscall.Kill(-pid, 0) == nil {
		time.Sleep(50 * time.Millisecond)
	}
}
