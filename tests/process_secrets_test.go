package tests

import (
	"encoding/json"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// unprivileged is the user ID that tests use when they run as root, because root can read everything.
const unprivileged = 65534

// asNobody gives the home to an unprivileged user, with copies of the programs, and returns the attributes that start
// them as that user.
func (h *userFolder) asNobody(programs ...string) *syscall.SysProcAttr {
	h.t.Helper()
	for _, name := range programs {
		b, err := os.ReadFile(binary(h.t, "./"+name))
		require.NoError(h.t, err)
		require.NoError(h.t, os.WriteFile(h.path(name), b, 0o700))
	}
	attr := &syscall.SysProcAttr{Setpgid: true}
	if os.Getuid() != 0 {
		return attr
	}
	require.NoError(h.t, os.Chmod(filepath.Dir(h.dir), 0o711)) // the parent of the test's temporary directories
	require.NoError(h.t, filepath.WalkDir(h.dir, func(path string, _ fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		return os.Chown(path, unprivileged, unprivileged)
	}))
	attr.Credential = &syscall.Credential{Uid: unprivileged, Gid: unprivileged}
	return attr
}

// TestAServerCannotReadItsWorkersSecrets runs a tool server as the same unprivileged user as its worker, or as the
// everturn that runs a worker, whose environment holds a secret.
func TestAServerCannotReadItsWorkersSecrets(t *testing.T) {
	t.Parallel()
	const canary = "sk-canary-hidden-0123456789"
	for program, args := range map[string][]string{"worker": nil, "everturn": {"tools", "--config", "agent.toml"}} {
		t.Run(program, func(t *testing.T) {
			h := newUserFolder(t, "[llm]\nprovider = \"demo\"\n[[mcp.servers]]\nid = \"spy\"\ncommand = \"./mcpserver\"\nargs = "+
				"[\"-spy\", \"spied\"]\n")
			h.environ = append(h.environ, "SECRET="+canary)
			cmd := exec.Command("./"+program, args...)
			cmd.SysProcAttr = h.asNobody(program, "mcpserver")
			h.launch(cmd)
			var b []byte
			require.Eventually(t, func() (read bool) {
				var err error
				b, err = os.ReadFile(h.path("spied"))
				return err == nil
			}, within, 10*time.Millisecond, "the server was not started")
			var found struct {
				UID     int
				Environ string
				Denied  map[string]string
			}
			require.NoError(t, json.Unmarshal(b, &found))
			assert.NotZero(t, found.UID)
			assert.NotContains(t, string(b), canary)
			assert.Contains(t, found.Denied, "environ")
			assert.Contains(t, found.Denied, "mem")
		})
	}
}

// TestAnUnprivilegedWorkerReapsOrphans runs both workers as the same unprivileged user. If a process's memory is
// hidden, root owns the files in /proc that a worker reads to find orphans.
func TestAnUnprivilegedWorkerReapsOrphans(t *testing.T) {
	t.Parallel()
	h := newUserFolder(t, "[llm]\nprovider = \"demo\"\n[[mcp.servers]]\nid = \"a\"\ncommand = \"./mcpserver\"\nargs = "+
		"[\"-mode\", \"grandchild\", \"-pidfile\", \"pids\"]\n")
	attr := h.asNobody("worker", "mcpserver")
	start := func() *command {
		cmd := exec.Command("./worker")
		own := *attr
		cmd.SysProcAttr = &own
		return h.launch(cmd)
	}
	first := start()
	var server, grandchild int
	require.Eventually(t, func() bool {
		b, _ := os.ReadFile(h.path("pids")) // the file may not exist yet
		n, _ := fmt.Sscan(string(b), &server, &grandchild)
		return n == 2
	}, within, 10*time.Millisecond)
	require.NoError(t, first.cmd.Process.Kill())
	<-first.done
	require.NoError(t, syscall.Kill(grandchild, 0), "there is nothing to reap")
	start()
	require.Eventually(t, func() bool {
		b, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", grandchild))
		return err != nil || strings.Contains(string(b), ") Z ")
	}, within, 10*time.Millisecond, "the orphan lives")
}
