package tests

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/client"

	"github.com/everturn/everturn/tests/loopback"
	"github.com/everturn/everturn/tests/stdio"
)

// newDevUserFolder makes a home whose --dev uses its own ports. All processes that it starts must be gone when the test
// ends.
func newDevUserFolder(t *testing.T) *userFolder {
	t.Helper()
	port, err := loopback.Port()
	require.NoError(t, err)
	return newDevUserFolderAt(t, fmt.Sprintf("127.0.0.1:%d", port))
}

func newDevUserFolderAt(t *testing.T, address string) *userFolder {
	t.Helper()
	server, err := temporalServer()
	require.NoError(t, err)
	h := &userFolder{t: t, dir: t.TempDir(), address: address}
	// If the server was built, it is found in its folder of the cache, otherwise on PATH.
	cache := t.TempDir()
	require.NoError(t, os.Mkdir(filepath.Join(cache, "everturn"), 0o700))
	built := filepath.Dir(server)
	require.NoError(t, os.Symlink(built, filepath.Join(cache, "everturn", filepath.Base(built))))
	h.environ = []string{"PATH=" + built + ":/usr/bin:/bin", "HOME=" + h.dir, "XDG_STATE_HOME=" + t.TempDir(),
		"XDG_CACHE_HOME=" + cache}
	h.write("agent.toml", fmt.Sprintf("[temporal]\naddress = %q\n[llm]\nprovider = \"demo\"\n", address))
	h.write("notes.txt", "The lighthouse keeper is called Ottoline.\n")
	t.Cleanup(h.deserted)
	return h
}

// stackProcesses returns the supervisors and the servers of this folder's development server.
func (h *userFolder) stackProcesses() (supervisors, servers []int) {
	h.t.Helper()
	files, err := filepath.Glob("/proc/[0-9]*/cmdline")
	require.NoError(h.t, err)
	for _, file := range files {
		b, err := os.ReadFile(file)
		if err != nil || !bytes.Contains(b, []byte(h.dir+"/.everturn")) {
			continue // the process has ended or belongs to another home
		}
		pid, err := strconv.Atoi(filepath.Base(filepath.Dir(file)))
		require.NoError(h.t, err)
		if bytes.Contains(b, []byte("\x00dev-server\x00")) {
			supervisors = append(supervisors, pid)
		} else {
			servers = append(servers, pid)
		}
	}
	return supervisors, servers
}

// up checks that there is one supervisor with one server, and returns both.
func (h *userFolder) up() (supervisor, server int) {
	h.t.Helper()
	supervisors, servers := h.stackProcesses()
	require.Len(h.t, supervisors, 1)
	require.Len(h.t, servers, 1)
	return supervisors[0], servers[0]
}

// deserted waits until no process of the stack is left.
func (h *userFolder) deserted() {
	h.t.Helper()
	require.Eventually(h.t, func() bool {
		supervisors, servers := h.stackProcesses()
		return len(supervisors)+len(servers) == 0
	}, within, 10*time.Millisecond, "the stack has left processes behind")
}

// dial connects to the home's server and fails the test if the server does not answer.
func (h *userFolder) dial() client.Client {
	h.t.Helper()
	ctx, cancel := context.WithTimeout(h.t.Context(), within)
	defer cancel()
	c, err := client.DialContext(ctx, client.Options{HostPort: h.address, Logger: quiet})
	require.NoError(h.t, err)
	h.t.Cleanup(c.Close)
	return c
}

// onTerminal runs the command line on a terminal of its own (ptmx(4)). The file takes what the user types.
func (h *userFolder) onTerminal(args ...string) (*command, *os.File) {
	h.t.Helper()
	near, far := stdio.Pseudoterminal(h.t)
	h.t.Cleanup(func() { near.Close() })
	cmd := exec.Command(binary(h.t, "./starter"), args...)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = far, far, far
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: true}
	c := h.launch(cmd)
	require.NoError(h.t, far.Close())
	go func() { // ends with the terminal
		b := make([]byte, 4096)
		for {
			n, err := near.Read(b)
			if err != nil {
				return
			}
			_, _ = c.out.Write(b[:n]) // never fails: it is a buffer
		}
	}()
	return c, near
}
