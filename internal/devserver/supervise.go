package devserver

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"runtime"
	"strconv"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/everturn/everturn/internal/statedir"
)

// CommandName is the name of the hidden command with which a program runs itself as the supervisor.
const CommandName = "dev-server"

// Command returns the hidden command of the supervisor. Every program that uses this package must have it among its
// commands.
func Command(stderr io.Writer) *cobra.Command {
	var dir, ui string
	cmd := &cobra.Command{
		Use: CommandName, Hidden: true, Args: cobra.MinimumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			syscall.Umask(0o077) // Temporal creates its database with mode 0644
			return supervise(cmd.Context(), dir, ui, args, stderr)
		},
	}
	cmd.Flags().StringVar(&dir, "dir", "", "state folder")
	cmd.Flags().StringVar(&ui, "ui", "", "address of the Web UI")
	return cmd
}

// stopGrace is how long the server has to stop after SIGTERM.
const stopGrace = 10 * time.Second

// supervise runs the server, whose command line is argv, until no process uses the stack, the server ends by itself,
// or ctx ends. It serves the Web UI on the address ui. dir is the state folder.
func supervise(ctx context.Context, dir, ui string, argv []string, stderr io.Writer) error {
	hidden, err := HiddenAddress()
	if err != nil {
		return err
	}
	stopUI, err := ProxyUI(ui, hidden, stderr)
	if err != nil {
		return err
	}
	defer stopUI()
	// The kernel ties Pdeathsig to the thread that started the child, not to the process.
	runtime.LockOSThread()
	ctx, stop := signal.NotifyContext(ctx, syscall.SIGTERM, syscall.SIGINT, syscall.SIGHUP)
	defer stop()
	cmd := exec.Command(argv[0], append(argv[1:], "--ui-ip", hidden.IP.String(), "--ui-port",
		strconv.Itoa(hidden.Port))...)
	cmd.Stdout, cmd.Stderr = os.Stdout, stderr
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
	if err := cmd.Start(); err != nil {
		return fmt.Errorf("starting the Temporal server: %w", err)
	}
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	select {
	case err := <-ended:
		return fmt.Errorf("the Temporal server ended: %w", cmp.Or(err, errors.New("exit status 0")))
	case l := <-awaitUnused(ctx, dir):
		// The supervisor keeps the lock until both ports are free, because the next user starts a new server as soon as it
		// gets the lock.
		defer func() { stopUI(); l.Release() }()
	case <-ctx.Done():
	}
	stopServer(cmd.Process.Pid, ended)
	return nil
}

// awaitUnused returns a channel that gets the exclusive lock of the stack when no process uses the stack any more.
func awaitUnused(ctx context.Context, dir string) <-chan *statedir.Lock {
	out := make(chan *statedir.Lock, 1)
	go func() {
		if l, err := statedir.Exclusive(ctx, lockFile(dir)); err == nil {
			out <- l
		}
	}()
	return out
}

// stopServer stops the server's process group with SIGTERM and, when the server has ended or stopGrace is over, with
// SIGKILL. ended receives when the server has ended.
func stopServer(pid int, ended <-chan error) {
	_ = syscall.Kill(-pid, syscall.SIGTERM) // here and below, the group may have ended
	timer := time.NewTimer(stopGrace)
	defer timer.Stop()
	select {
	case <-ended:
	case <-timer.C:
	}
	_ = syscall.Kill(-pid, syscall.SIGKILL)
}
