package mcp_test

import (
	"flag"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/everturn/everturn/activities/mcp"
	"github.com/everturn/everturn/workflows/turn"
)

var cycles = flag.Int("cycles", 24, "faults that servers of tools are put through one after the other")

// cycle is one way in which a server fails, and the outcome of a call to it.
type cycle struct {
	name   string
	server mcp.Server
	calls  []string // tools that are called in order; empty: the server fails before any call
	ends   turn.Outcome
}

func faultyServers(dir string) []cycle {
	failing := func(name, mode string, within time.Duration) cycle {
		s := stdioServer(name, "-mode", mode)
		s.ConnectTimeout = within
		return cycle{name: name, server: s}
	}
	pid := func(name string) string { return filepath.Join(dir, name) }
	return []cycle{
		{"crash", stdioServer("crash"), []string{"echo", "crash"}, turn.OutcomeUnknown},
		failing("hang-init", "hang", 250*time.Millisecond),
		failing("hang-list", "hanglist", 250*time.Millisecond),
		{"hang-call", stdioServer("hang-call"), []string{"echo", "stubborn"}, turn.OutcomeUnknown},
		failing("garbage", "garbage", 10*time.Second),
		failing("longline", "longline", 10*time.Second),
		{"flood", stdioServer("flood", "-mode", "flood"), []string{"echo", "crash"}, turn.OutcomeUnknown},
		{"grandchild", stdioServer("grandchild", "-mode", "grandchild", "-pidfile", pid("grandchild")),
			[]string{"echo", "crash"}, turn.OutcomeUnknown},
		{"longline-call", stdioServer("longline-call"), []string{"longline"}, turn.OutcomeUnknown},
	}
}

// used counts the resources of this process.
type used struct{ goroutines, files, heap int }

func usage(t *testing.T) used {
	t.Helper()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	u := used{goroutines: runtime.NumGoroutine(), heap: int(m.HeapAlloc)}
	if files, err := os.ReadDir("/proc/self/fd"); err == nil {
		u.files = len(files)
	}
	return u
}

// peak returns the maximum resident memory of this process, as the kernel counts it.
func peak() string {
	b, _ := os.ReadFile("/proc/self/status")
	for line := range strings.Lines(string(b)) {
		if rest, ok := strings.CutPrefix(line, "VmHWM:"); ok {
			return strings.TrimSpace(rest)
		}
	}
	return "unknown"
}

// TestServersThatFailOverAndOverLeaveNothing runs one host whose servers fail repeatedly in every known way. No
// resource may leak.
func TestServersThatFailOverAndOverLeaveNothing(t *testing.T) {
	before := usage(t)
	faulty := faultyServers(t.TempDir())
	opts := mcp.Options{BackoffMin: time.Millisecond, BackoffMax: time.Millisecond, StopGrace: 50 * time.Millisecond,
		Environ: environ}
	for _, c := range faulty {
		opts.Servers = append(opts.Servers, c.server)
	}
	h, err := mcp.New(opts)
	require.NoError(t, err)
	hashes := map[string]string{}
	for _, c := range h.Catalogues(t.Context()) {
		for _, d := range c.Tools {
			hashes[d.ID] = d.Hash
		}
	}
	began := time.Now()
	for i := range *cycles {
		provoke(t, h, faulty[i%len(faulty)], hashes)
	}
	took := time.Since(began)
	during := usage(t)
	require.NoError(t, h.Close())
	closed := time.Now()
	require.Eventually(t, func() bool { return len(children(t)) == 0 }, 10*time.Second, 5*time.Millisecond,
		"processes are left 10 s after close")
	gone := time.Since(closed)
	require.Eventually(t, func() bool { return runtime.NumGoroutine() <= before.goroutines+1 }, // and Eventually's
		10*time.Second, 5*time.Millisecond, "there were %d goroutines before", before.goroutines)
	after := usage(t)
	assert.LessOrEqual(t, after.files, before.files, "open files")
	assert.Less(t, during.heap, before.heap+64<<20, "memory grows with the faults")
	t.Logf("%d cycles in %s: 0 processes %s after close, goroutines %d then %d, files %d then %d, heap %.1f then %.1f "+
		"MB, at most %s resident",
		*cycles, took.Round(time.Millisecond), gone.Round(time.Millisecond), before.goroutines, after.goroutines,
		before.files, after.files,
		float64(before.heap)/(1<<20), float64(during.heap)/(1<<20), peak())
}

// provoke makes the server fail once.
func provoke(t *testing.T, h *mcp.Host, c cycle, hashes map[string]string) {
	t.Helper()
	if c.calls == nil {
		_, err := h.Call(t.Context(), turn.ToolRequest{Tool: "mcp/" + c.name + "/good", Timeout: 20 * time.Second})
		require.Equal(t, turn.CodeToolNotSent, turn.CodeOf(err), "%s: %v", c.name, err)
		return
	}
	for i, tool := range c.calls {
		id := "mcp/" + c.name + "/" + tool
		req := turn.ToolRequest{Tool: id, Hash: hashes[id], Arguments: []byte(`{"text":"x"}`), Timeout: 20 * time.Second}
		if tool == "stubborn" {
			req.Timeout = 30 * time.Millisecond
		}
		var r turn.ToolResult
		var err error
		require.Eventually(t, func() bool { // the call is not sent during the server's backoff
			r, err = h.Call(t.Context(), req)
			return err == nil
		}, 20*time.Second, 2*time.Millisecond, "%s: %v", id, err)
		if i == len(c.calls)-1 {
			require.Equal(t, c.ends, r.Outcome, "%s: %s", id, r.Text)
		}
	}
}
