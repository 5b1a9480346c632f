package devstack

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"runtime"
	"syscall"
	"time"

	"github.com/spf13/cobra"
)

// CommandName is the hidden command by which a program runs itself as a supervisor.
const CommandName = "dev-server"

// Command is the hidden command that a program with a devstack must have.
func Command(stderr io.Writer) *cobra.Command {
	var dir string
	cmd := &cobra.Command{
		Use: CommandName, Hidden: true, Args: cobra.MinimumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error { return supervise(cmd.Context(), dir, args, stderr) },
	}
	cmd.Flags().StringVar(&dir, "dir", "", "state folder")
	return cmd
}

// stopGrace is how long the server has to come to an end by itself.
const stopGrace = 10 * time.Second

// supervise runs the server until nobody uses it any more, or until it ends by itself.
func supervise(ctx context.Context, dir string, argv []string, stderr io.Writer) error {
	// The kernel ties Pdeathsig to the thread that started the child, not to the process.
	runtime.LockOSThread()
	ctx, stop := signal.NotifyContext(ctx, syscall.SIGTERM, syscall.SIGINT, syscall.SIGHUP)
	defer stop()
	cmd := exec.Command(argv[0], argv[1:]...)
	cmd.Stdout, cmd.Stderr = os.Stdout, stderr
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
	if err := cmd.Start(); err != nil {
		return fmt.Errorf("starting the Temporal server: %w", err)
	}
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	select {
	case err := <-ended:
		return fmt.Errorf("the Temporal server ended: %v", err)
	case l := <-unused(ctx, dir):
		// The lock is kept until the server is gone: who comes now waits, and then starts a new one.
		defer l.release()
	case <-ctx.Done():
	}
	end(cmd.Process.Pid, ended)
	return nil
}

// unused sends the exclusive lock once nobody uses the stack any more.
func unused(ctx context.Context, dir string) <-chan *lock {
	out := make(chan *lock, 1)
	go func() {
		if l, err := exclusive(ctx, lockFile(dir)); err == nil {
			out <- l
		}
	}()
	return out
}

// end stops the server's process group: gently, then not.
func end(pid int, ended <-chan error) {
	_ = syscall.Kill(-pid, syscall.SIGTERM) // it may be gone, as below
	timer := time.NewTimer(stopGrace)
	defer timer.Stop()
	select {
	case <-ended:
	case <-timer.C:
	}
	_ = syscall.Kill(-pid, syscall.SIGKILL)
}
