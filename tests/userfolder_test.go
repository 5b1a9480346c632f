package tests

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/everturn/everturn/internal/trust"
	"github.com/everturn/everturn/tests/fakellm"
	"github.com/everturn/everturn/tests/proc"
)

// userFolder is a folder with an agent.toml that runs the real commands as a user does.
type userFolder struct {
	t       *testing.T
	dir     string
	address string // of the Temporal server
	environ []string
}

// newUserFolder makes a home on the shared server, with its own task queue. settings is the rest of agent.toml.
func newUserFolder(t *testing.T, settings string) *userFolder {
	t.Helper()
	h := &userFolder{t: t, dir: t.TempDir(), address: stack.Address, environ: []string{"PATH=" + os.Getenv("PATH")}}
	h.environ = append(h.environ, "HOME="+h.dir, "XDG_STATE_HOME="+t.TempDir())
	queue := fmt.Sprintf("cli-%s-%d", strings.ReplaceAll(t.Name(), "/", "-"), time.Now().UnixNano())
	h.write("agent.toml", fmt.Sprintf("[temporal]\naddress = %q\ntask_queue = %q\n%s", stack.Address, queue, settings))
	return h
}

// asking returns the part of agent.toml that configures a scripted model.
func asking(m *fakellm.Server) string {
	return fmt.Sprintf("[llm]\nprovider = \"openai\"\nbase_url = %q\nmodel = \"scripted\"\n[runtime]\n",
		m.URL())
}

// hosting returns the part of agent.toml that configures the tests' MCP server.
func hosting(t *testing.T, id, more string, args ...string) string {
	t.Helper()
	b, err := json.Marshal(args) // TOML writes an array of plain strings like JSON
	require.NoError(t, err)
	if args == nil {
		b = []byte("[]")
	}
	return fmt.Sprintf("[[mcp.servers]]\nid = %q\ncommand = %q\nargs = %s\n%s\n", id, binary(t, "./tests/mcpserver"), b,
		more)
}

// trust trusts the home as it is, which the user of these tests does before each command.
func (h *userFolder) trust() {
	h.t.Helper()
	j, err := trust.Open(h.environ)
	require.NoError(h.t, err)
	folder, err := trust.Look(h.dir, h.environ)
	if err == nil { // otherwise the command says what is wrong
		require.NoError(h.t, j.Add(folder, time.Now()))
	}
}

func (h *userFolder) path(name string) string { return filepath.Join(h.dir, name) }

func (h *userFolder) write(name, content string) {
	h.t.Helper()
	require.NoError(h.t, os.MkdirAll(filepath.Dir(h.path(name)), 0o700))
	require.NoError(h.t, os.WriteFile(h.path(name), []byte(content), 0o600))
}

// command is a process that the test starts. It ends with the test, even if the test binary is killed.
type command struct {
	t        *testing.T
	cmd      *exec.Cmd
	out, err sink
	done     <-chan struct{}
}

// sink collects what a process writes. It can be read while the process runs.
type sink struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (s *sink) Write(b []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.b.Write(b)
}

func (s *sink) String() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.b.String()
}

// everturn runs the command line and waits until it exits.
func (h *userFolder) everturn(args ...string) *command {
	h.t.Helper()
	return h.begin(nil, args...).wait()
}

// begin runs the command line without waiting for it.
func (h *userFolder) begin(in io.Reader, args ...string) *command {
	h.t.Helper()
	if i := slices.Index(args, "-s"); i >= 0 && i+1 < len(args) && h.address == stack.Address {
		test, _ := sessionTests.LoadOrStore(args[i+1], h.t.Name())
		require.Equal(h.t, test, h.t.Name(), "two tests use session %q of the shared server", args[i+1])
	}
	cmd := exec.Command(binary(h.t, "./starter"), args...)
	cmd.Stdin = in
	return h.launch(cmd)
}

// sessionTests has the name of the test that uses each session of the shared server: a session is one workflow there,
// whose turns run on the task queue of whoever began it.
var sessionTests sync.Map

// worker runs the worker command until the test ends.
func (h *userFolder) worker(args ...string) *command {
	h.t.Helper()
	return h.launch(exec.Command(binary(h.t, "./worker"), args...))
}

func (h *userFolder) launch(cmd *exec.Cmd) *command {
	h.t.Helper()
	h.trust()
	c := &command{t: h.t, cmd: cmd}
	cmd.Dir, cmd.Env, cmd.WaitDelay = h.dir, h.environ, 5*time.Second
	if cmd.Stdout == nil {
		cmd.Stdout, cmd.Stderr = &c.out, &c.err
	}
	var err error
	c.done, err = proc.Start(cmd)
	require.NoError(h.t, err)
	h.t.Cleanup(c.end)
	return c
}

// end asks the process to exit, so that it stops its own children, and kills it after 15 seconds.
func (c *command) end() {
	_ = c.cmd.Process.Signal(syscall.SIGTERM) // the process may have exited already
	select {
	case <-c.done:
	case <-time.After(15 * time.Second):
		_ = c.cmd.Process.Kill()
		<-c.done
	}
	if c.t.Failed() {
		c.t.Logf("%s, %s, said:\n%s\n%s", strings.Join(c.cmd.Args, " "), c.cmd.ProcessState, ending(c.out.String()),
			ending(c.err.String()))
	}
}

// ending returns the last 2,000 bytes of an output, which a failure shows.
func ending(s string) string { return s[max(0, len(s)-2000):] }

// wait returns when the process has ended.
func (c *command) wait() *command {
	c.t.Helper()
	select {
	case <-c.done:
	case <-time.After(within):
		require.Fail(c.t, "it does not end: "+strings.Join(c.cmd.Args, " "))
	}
	return c
}

func (c *command) code() int { return c.cmd.ProcessState.ExitCode() }

func (c *command) signal(s syscall.Signal) {
	c.t.Helper()
	require.NoError(c.t, c.cmd.Process.Signal(s))
}

// exits waits for the process and checks its exit code.
func (c *command) exits(code int) *command {
	c.t.Helper()
	c.wait()
	require.Equal(c.t, code, c.code(), "%s\n%s\n%s", strings.Join(c.cmd.Args, " "), ending(c.out.String()),
		ending(c.err.String()))
	return c
}

// says waits until the process has written the text to stdout or stderr.
func (c *command) says(text string) {
	c.t.Helper()
	require.Eventually(c.t, func() bool {
		return strings.Contains(c.out.String(), text) || strings.Contains(c.err.String(), text)
	}, within, 5*time.Millisecond, "%q was never said", text)
}

// decoded decodes a command's output as one JSON value.
func decoded[T any](c *command) T {
	c.t.Helper()
	var v T
	require.NoError(c.t, json.Unmarshal([]byte(c.out.String()), &v), "%s", c.out.String())
	return v
}

// decodedLines decodes a command's output as JSON lines.
func decodedLines[T any](c *command) []T {
	c.t.Helper()
	var all []T
	for line := range strings.Lines(c.out.String()) {
		var v T
		require.NoError(c.t, json.Unmarshal([]byte(line), &v), "%s", line)
		all = append(all, v)
	}
	return all
}

func (h *userFolder) read(name string) string {
	h.t.Helper()
	b, err := os.ReadFile(h.path(name))
	require.NoError(h.t, err)
	return string(b)
}
