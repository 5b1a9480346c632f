package proc

import (
	"os/exec"
	"runtime"
	"syscall"
)

// Start starts a command in its own process group. The kernel kills it when this program ends, however it ends. The
// returned channel is closed when the process was reaped; cmd.ProcessState then says how it ended.
func Start(cmd *exec.Cmd) (done <-chan struct{}, err error) {
	if cmd.SysProcAttr == nil {
		cmd.SysProcAttr = &syscall.SysProcAttr{}
	}
	cmd.SysProcAttr.Setpgid = !cmd.SysProcAttr.Setsid // the leader of a session is in its own group
	cmd.SysProcAttr.Pdeathsig = syscall.SIGKILL
	started, ended := make(chan error), make(chan struct{})
	go func() {
		defer close(ended)
		runtime.LockOSThread() // Pdeathsig is sent when the thread that started the process exits
		defer runtime.UnlockOSThread()
		err := cmd.Start()
		started <- err
		if err == nil {
			_ = cmd.Wait() // callers inspect ProcessState
		}
	}()
	return ended, <-started
}
