package childproc

import (
	"errors"
	"syscall"

	"golang.org/x/sys/unix"
)

// sysProcAttr returns attributes that make the child the leader of its own session and process group: a server does not
// get the terminal of this program, where it could draw over an approval or type the user's decision. The kernel kills
// the child when the spawner's thread ends.
func sysProcAttr() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setsid: true, Pdeathsig: syscall.SIGKILL}
}

// awaitExit waits until the child has ended, without reaping it (WNOWAIT): its PID stays reserved.
func awaitExit(pid int) {
	for {
		err := unix.Waitid(unix.P_PID, pid, nil, unix.WEXITED|unix.WNOWAIT, nil)
		if !errors.Is(err, unix.EINTR) {
			return
		}
	}
}
