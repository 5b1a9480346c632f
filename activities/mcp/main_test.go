package mcp_test

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/everturn/everturn/activities/mcp"
	"github.com/everturn/everturn/workflows/turn"
)

// binary is the path of the MCP server that the tests use. TestMain builds it once.
var binary string

func TestMain(m *testing.M) {
	if os.Getenv(helperEnv) != "" { // a host that the test kills; variables describe its server
		os.Exit(m.Run())
	}
	dir, err := os.MkdirTemp("", "mcpserver")
	if err != nil {
		panic(err)
	}
	binary = filepath.Join(dir, "mcpserver")
	out, err := exec.Command("go", "build", "-o", binary, "github.com/everturn/everturn/tests/mcpserver").CombinedOutput()
	if err != nil {
		fmt.Fprintf(os.Stderr, "building the test server: %v\n%s", err, out)
		os.Exit(1)
	}
	code := m.Run()
	_ = os.RemoveAll(dir)
	http.DefaultTransport.(*http.Transport).CloseIdleConnections() // those of the proxies in tests
	if code == 0 {
		if err := goleak.Find(); err != nil {
			fmt.Fprintln(os.Stderr, err)
			code = 1
		}
	}
	os.Exit(code)
}

// environ is the environment of hosts under test.
func environ(name string) (string, bool) {
	v, ok := map[string]string{
		"PATH": os.Getenv("PATH"), "HOME": "/nowhere", "OPENAI_API_KEY": "sk-canary-1234567890", "SECRET": "hush-hush-hush",
	}[name]
	return v, ok
}

// stdioServer is the test server as a child process in the given mode.
func stdioServer(id string, args ...string) mcp.Server {
	return mcp.Server{ID: id, Command: binary, Args: args, ConnectTimeout: 10 * time.Second}
}

func newHost(t *testing.T, opts mcp.Options, servers ...mcp.Server) *mcp.Host {
	t.Helper()
	opts.Servers, opts.Environ = servers, environ
	if opts.StopGrace == 0 {
		opts.StopGrace = 100 * time.Millisecond
	}
	h, err := mcp.New(opts)
	require.NoError(t, err)
	t.Cleanup(func() {
		assert.NoError(t, h.Close())
		assert.Empty(t, children(t), "processes are left behind")
	})
	return h
}

// children returns the living processes that run the test server, and those that it has started. They carry our mark,
// because other tests may run on this machine.
func children(t *testing.T) []int {
	t.Helper()
	stats, err := filepath.Glob("/proc/[0-9]*/stat")
	require.NoError(t, err)
	var pids []int
	for _, file := range stats {
		pid, _ := strconv.Atoi(filepath.Base(filepath.Dir(file)))
		args, err := os.ReadFile(filepath.Join(filepath.Dir(file), "cmdline"))
		env, _ := os.ReadFile(filepath.Join(filepath.Dir(file), "environ")) // empty if the process is ending
		grandchild := strings.Contains(string(args), "while :; do sleep 1; done") &&
			bytes.Contains(env, fmt.Appendf(nil, "EVERTURN_CHILD_OF=%d.", os.Getpid()))
		if err == nil && (strings.HasPrefix(string(args), binary) || grandchild) {
			pids = append(pids, pid)
		}
	}
	return pids
}

func alive(pid int) bool {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return false
	}
	fields := strings.Fields(string(b[strings.LastIndexByte(string(b), ')')+1:]))
	return fields[0] != "Z"
}

// catalogue returns the server's catalogue from the host, which must have no problem.
func catalogue(t *testing.T, h *mcp.Host, server string) turn.Catalogue {
	t.Helper()
	for _, c := range h.Catalogues(t.Context()) {
		if c.Server == server {
			require.Empty(t, c.Problem)
			return c
		}
	}
	t.Fatalf("no catalogue of %s", server)
	return turn.Catalogue{}
}

// request returns a call of the tool with its current hash.
func request(t *testing.T, h *mcp.Host, id, arguments string) turn.ToolRequest {
	t.Helper()
	server := "local"
	if rest, ok := strings.CutPrefix(id, "mcp/"); ok {
		server, _, _ = strings.Cut(rest, "/")
	}
	for _, d := range catalogue(t, h, server).Tools {
		if d.ID == id {
			return turn.ToolRequest{
				Tool: id, Hash: d.Hash, Arguments: json.RawMessage(arguments), Repeatable: d.Repeatable, Timeout: 20 * time.Second,
				Session: "s", Turn: "t", Step: 3, CallID: "3.0", Attempt: 1,
			}
		}
	}
	t.Fatalf("no tool %s", id)
	return turn.ToolRequest{}
}

func call(t *testing.T, h *mcp.Host, id, arguments string) turn.ToolResult {
	t.Helper()
	r, err := h.Call(t.Context(), request(t, h, id, arguments))
	require.NoError(t, err)
	return r
}

// awaitEvent waits for an event in the server's ledger.
func awaitEvent(t *testing.T, ledger, event string) {
	t.Helper()
	require.Eventually(t, func() bool { return events(ledger)[event] > 0 }, 10*time.Second, 5*time.Millisecond,
		"no %s in the ledger", event)
}

// events counts the ledger's lines by event.
func events(ledger string) map[string]int {
	counts := map[string]int{}
	f, err := os.Open(ledger)
	if err != nil {
		return counts
	}
	defer f.Close()
	for s := bufio.NewScanner(f); s.Scan(); {
		var e struct{ Event string }
		if json.Unmarshal(s.Bytes(), &e) == nil {
			counts[e.Event]++
		}
	}
	return counts
}

// async runs the call in a goroutine. It returns a channel with the result and a function that cancels the call.
func async(t *testing.T, h *mcp.Host, req turn.ToolRequest) (<-chan ended, context.CancelFunc) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	ch := make(chan ended, 1)
	go func() {
		r, err := h.Call(ctx, req)
		ch <- ended{r, err}
	}()
	return ch, cancel
}

type ended struct {
	result turn.ToolResult
	err    error
}

func receive[T any](t *testing.T, ch <-chan T) T {
	t.Helper()
	select {
	case v := <-ch:
		return v
	case <-time.After(20 * time.Second):
		t.Fatal("nothing came within 20 s")
		panic("unreachable")
	}
}
