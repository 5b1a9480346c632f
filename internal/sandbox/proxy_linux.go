package sandbox

import (
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"syscall"

	"golang.org/x/sys/unix"
)

// proxySocket is the name of the socket of a command's proxy, and socketInside its path in the command's namespaces.
const (
	proxySocket  = "proxy"
	socketInside = "/.everturn-proxy"
)

// serveProxy lets the command's proxy listen on a socket in the directory etc, until the result is called.
func (c Command) serveProxy(etc string) (stop func(), err error) {
	l, err := net.Listen("unix", filepath.Join(etc, proxySocket))
	if err != nil {
		return nil, fmt.Errorf("listening for the command's proxy: %w", err)
	}
	var served sync.WaitGroup
	served.Go(func() { c.Serve(l) })
	return func() { _ = l.Close(); served.Wait() }, nil
}

// runBehindProxy starts the command and forwards connections from its loopback interface to the proxy's socket. It ends
// the process with the command's exit code, and returns only if the command cannot be started. This process is confined
// as the command is.
func (c confined) runBehindProxy() error {
	// Otherwise the command could write into the memory of this process, which is that of the same user.
	if err := unix.Prctl(unix.PR_SET_DUMPABLE, 0, 0, 0, 0); err != nil {
		return fmt.Errorf("protecting the connection to the proxy: %w", err)
	}
	l, err := net.Listen("tcp", proxyAddress)
	if err != nil {
		return fmt.Errorf("listening for the proxy: %w", err)
	}
	cmd := exec.Command("/bin/sh", "-c", c.Line)
	cmd.Env, cmd.Stdin, cmd.Stdout, cmd.Stderr = c.Environ, os.Stdin, os.Stdout, os.Stderr
	if err := cmd.Start(); err != nil {
		return err
	}
	go func() {
		for {
			from, err := l.Accept()
			if err != nil {
				return
			}
			go forward(from)
		}
	}()
	_ = cmd.Wait() // its state says how it ended
	status, ok := cmd.ProcessState.Sys().(syscall.WaitStatus)
	if ok && status.Signaled() {
		os.Exit(128 + int(status.Signal()))
	}
	os.Exit(cmd.ProcessState.ExitCode())
	return nil
}

// forward connects a connection of the command with the proxy.
func forward(from net.Conn) {
	defer from.Close()
	to, err := net.Dial("unix", socketInside)
	if err != nil {
		return
	}
	defer to.Close()
	var copies sync.WaitGroup
	copies.Go(func() { relay(to, from) })
	copies.Go(func() { relay(from, to) })
	copies.Wait()
}

// relay copies from one connection to another, and then ends what the other side reads.
func relay(to, from net.Conn) {
	_, err := io.Copy(to, from)
	half, ok := to.(interface{ CloseWrite() error })
	if err != nil || !ok || half.CloseWrite() != nil {
		_ = to.Close() // the copy in the other direction then ends, too
	}
}
