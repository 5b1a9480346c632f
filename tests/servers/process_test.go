package servers

import (
	"bytes"
	"fmt"
	"net"
	"os"
	"os/exec"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/everturn/everturn/config"
	"github.com/everturn/everturn/tests/proc"
	"github.com/everturn/everturn/tests/servers/npm"
)

// stdioServer returns the command of an npm package, as an operator would configure it.
func stdioServer(t *testing.T, id, pkg string, args ...string) config.MCPServer {
	t.Helper()
	tree := npm.Need(t)
	return config.MCPServer{
		ID: id, Command: tree.Node, Args: append([]string{tree.Bin(t, pkg)}, args...),
	}
}

// remote is a server that listens on its own port, and that only the test starts and ends.
type remote struct {
	cmd  *exec.Cmd
	out  bytes.Buffer // to be read once done is closed
	done <-chan struct{}
	once sync.Once
}

// listening starts the program in a folder and returns when the port accepts connections.
func listening(t *testing.T, port int, dir string, environ []string, program string, args ...string) *remote {
	t.Helper()
	s := &remote{cmd: exec.Command(program, args...)}
	s.cmd.Dir, s.cmd.Stdout, s.cmd.Stderr, s.cmd.WaitDelay = dir, &s.out, &s.out, time.Second
	s.cmd.Env = append([]string{"PATH=" + os.Getenv("PATH"), "HOME=" + os.Getenv("HOME")}, environ...)
	var err error
	s.done, err = proc.Start(s.cmd)
	require.NoError(t, err)
	t.Cleanup(func() { s.end(t) })
	s.await(t, port)
	return s
}

// await tries the port until the server accepts, has ended, or takes too long.
func (s *remote) await(t *testing.T, port int) {
	t.Helper()
	require.Eventually(t, func() bool {
		select {
		case <-s.done:
			return true
		default:
		}
		conn, err := net.Dial("tcp", fmt.Sprintf("127.0.0.1:%d", port))
		if err == nil {
			_ = conn.Close()
		}
		return err == nil
	}, within, 20*time.Millisecond, "the server does not listen")
	select {
	case <-s.done:
		require.Fail(t, "the server has ended", "%s", s.out.Bytes())
	default:
	}
}

func (s *remote) end(t *testing.T) {
	s.once.Do(func() { _ = syscall.Kill(-s.cmd.Process.Pid, syscall.SIGKILL) }) // the group; it may be gone
	<-s.done
	if t.Failed() {
		out := s.out.Bytes()
		t.Logf("the server said:\n%s", out[max(0, len(out)-4000):])
	}
}

// httpServer returns a server that the test has started at the port, as an operator would configure it.
func httpServer(id string, port int) config.MCPServer {
	return config.MCPServer{ID: id, URL: fmt.Sprintf("http://127.0.0.1:%d/mcp", port)}
}
