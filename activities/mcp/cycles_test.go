package mcp_test

import (
	"flag"
	"path/filepath"
	"runtime"
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

// TestServersThatFailOverAndOverLeaveNothing runs one host whose servers fail repeatedly in every known way. No
// resource may leak.
func TestServersThatFailOverAndOverLeaveNothing(t *testing.T) {
	before := settledUsage()
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
	during := settledUsage()
	require.NoError(t, h.Close())
	require.Eventually(t, func() bool { return len(children(t)) == 0 }, 10*time.Second, 5*time.Millisecond,
		"processes are left 10 s after close")
	require.Eventually(t, func() bool { return runtime.NumGoroutine() <= before.goroutines+1 }, // and Eventually's
		10*time.Second, 5*time.Millisecond, "there were %d goroutines before", before.goroutines)
	after := settledUsage()
	assert.LessOrEqual(t, after.descriptors, before.descriptors, "open files")
	assert.Less(t, during.heap, before.heap+64<<20, "memory grows with the faults")
	t.Logf("%d cycles in %s: %+v before, %+v then, %+v after", *cycles, took.Round(time.Millisecond), before, during,
		after)
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
