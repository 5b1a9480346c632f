package childproc

import (
	"errors"
	"syscall"

	"golang.org/x/sys/unix"
)

// sysProcAttr makes the child the leader of its own group. The kernel kills it when the spawner's thread ends.
func sysProcAttr() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
}

// awaitExit returns when the child has ended, without reaping it.
func awaitExit(pid int) {
	for {
		err := unix.Waitid(unix.P_PID, pid, nil, unix.WEXITED|unix.WNOWAIT, nil)
		if !errors.Is(err, unix.EINTR) {
			return
		}
	}
}
