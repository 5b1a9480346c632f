package mcp_test

import (
	"context"
	"encoding/json"
	"os"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/everturn/everturn/activities/mcp"
	"github.com/everturn/everturn/workflows/turn"
)

// These bound the cost of a flooding server to this process until its connection is dropped.
const (
	floodHeap        = 256 << 20 // bytes
	floodDescriptors = 200
	floodGoroutines  = 6000 // the SDK may respond to each message of a burst in a goroutine
)

// watermark is the maximum use of each resource during a measurement.
type watermark struct{ heap, descriptors, goroutines int }

func usageNow() watermark {
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	open, _ := os.ReadDir("/proc/self/fd") // other systems have no such folder, and the count is 0
	return watermark{int(m.HeapInuse), len(open), runtime.NumGoroutine()}
}

// settledUsage is usageNow after a garbage collection.
func settledUsage() watermark {
	runtime.GC()
	return usageNow()
}

// watermarks measures until stop is called, which returns the increase from the first values to the maximum.
func watermarks() (stop func() watermark) {
	base, most, quit, done := settledUsage(), watermark{}, make(chan struct{}), make(chan struct{})
	go func() {
		defer close(done)
		for tick := time.NewTicker(20 * time.Millisecond); ; {
			now := usageNow()
			most = watermark{max(most.heap, now.heap), max(most.descriptors, now.descriptors),
				max(most.goroutines, now.goroutines)}
			select {
			case <-quit:
				tick.Stop()
				return
			case <-tick.C:
			}
		}
	}()
	return func() watermark {
		close(quit)
		<-done
		return watermark{most.heap - base.heap, most.descriptors - base.descriptors, most.goroutines - base.goroutines}
	}
}

// standing is a server's entry in the output of `tools status --json`.
type standing struct {
	Server, State, LastError string
	RetryAt                  time.Time `json:"retry_at"`
	Connections              int
	Excess                   struct{ Bound string }
}

func standingOf(t *testing.T, h *mcp.Host, server string) (out standing) {
	t.Helper()
	for _, health := range h.Health() {
		if health.Server == server {
			b, err := json.Marshal(health)
			require.NoError(t, err)
			require.NoError(t, json.Unmarshal(b, &out))
			out.LastError = health.LastError
		}
	}
	return out
}

func TestAServerThatFloodsIsDropped(t *testing.T) {
	pings := []string{"requests_per_second", "replies_in_flight"} // either may be exceeded first
	for name, tc := range map[string]struct {
		args, over string
		calls      bool // the flood comes in the middle of a call
		bounds     []string
	}{
		"pings, nothing is read":  {args: "-flood ping", over: "stdio", bounds: pings},
		"pings, replies are held": {args: "-flood ping", over: "http", bounds: pings},
		"pings inside an answer":  {args: "-flood ping -flood-call", over: "http", calls: true, bounds: pings},
		"list_changed": {args: "-flood list_changed", over: "stdio",
			bounds: []string{"messages_per_second"}},
		"progress inside an answer": {args: "-flood progress -flood-call", over: "http", calls: true,
			bounds: []string{"messages_per_second"}},
		"empty lines": {args: "-flood blank -flood-max 200", over: "stdio",
			bounds: []string{"messages_per_second"}},
		"values": {args: "-flood values -flood-max 2", over: "stdio",
			bounds: []string{"values_per_message"}},
		"values over SSE": {args: "-flood values -flood-max 2 -sse", over: "sse",
			bounds: []string{"values_per_message"}},
		"nesting": {args: "-flood nesting -flood-max 2", over: "stdio",
			bounds: []string{"nesting_per_message"}},
		"stderr in a call": {args: "-flood stderr -flood-call", over: "stdio", calls: true,
			bounds: []string{"stderr_bytes_per_second"}},
		"streams to reopen": {args: "-flood reopen", over: "http", bounds: []string{"requests_per_second"}},
		"5,000 questions of a call": {args: "-flood elicit -flood-call -flood-max 5000", over: "stdio", calls: true,
			bounds: []string{"questions_per_call"}},
	} {
		t.Run(name, func(t *testing.T) {
			hostile := stdioServer("bad", strings.Fields(tc.args)...)
			if tc.over != "stdio" {
				url, _ := serveHTTP(t, strings.Fields(tc.args)...)
				hostile = mcp.Server{ID: "bad", URL: url, Transport: mcp.Transport(tc.over),
					ConnectTimeout: 10 * time.Second}
			}
			hostile.ElicitationTimeout = time.Minute
			hostServesBeside(t, hostile, tc.calls, tc.bounds)
		})
	}
}

// hostServesBeside checks that the host drops the hostile server, reports why, stays small and continues to use another
// server.
func hostServesBeside(t *testing.T, hostile mcp.Server, calls bool, bounds []string) {
	url, _ := serveHTTP(t)
	opts := mcp.Options{BackoffMin: time.Minute, Servers: []mcp.Server{hostile, {ID: "good", URL: url}},
		Environ: environ}
	h, err := mcp.New(opts)
	require.NoError(t, err)
	t.Cleanup(func() { assert.NoError(t, h.Close()) })
	echo := request(t, h, "mcp/good/echo", `{"text":"x"}`)
	var ch <-chan ended
	stop := watermarks()
	if calls {
		req := request(t, h, "mcp/bad/work", `{}`)
		req.Elicit = newUser().elicit
		var cancel context.CancelFunc
		ch, cancel = async(t, h, req)
		defer cancel()
	} else {
		go h.Watch(t.Context(), func(turn.Catalogue) {})
	}
	require.Eventually(t, func() bool {
		r, err := h.Call(t.Context(), echo)
		return assert.NoError(t, err) && assert.Equal(t, "x", r.Text, "another server suffers") &&
			standingOf(t, h, "bad").Excess.Bound != ""
	}, time.Minute, 20*time.Millisecond, "the connection is kept")
	s := standingOf(t, h, "bad")
	assert.Contains(t, bounds, s.Excess.Bound)
	assert.Contains(t, s.LastError, s.Excess.Bound)
	assert.Equal(t, "failing", s.State)
	assert.True(t, time.Until(s.RetryAt) > 30*time.Second, "there is no backoff")
	require.Eventually(t, func() bool { return standingOf(t, h, "bad").Connections == 0 }, time.Minute,
		5*time.Millisecond, "its process is still there")
	if calls {
		r := receive(t, ch)
		require.NoError(t, r.err)
		assert.Equal(t, turn.OutcomeUnknown, r.result.Outcome, "it was sent")
		_, err := h.Call(t.Context(), turn.ToolRequest{Tool: "mcp/bad/work"})
		assert.Equal(t, turn.CodeToolNotSent, turn.CodeOf(err))
	}
	most := stop()
	assert.Less(t, most.heap, floodHeap)
	assert.Less(t, most.descriptors, floodDescriptors)
	assert.Less(t, most.goroutines, floodGoroutines)
	t.Logf("dropped for %s at %+v", s.Excess.Bound, most)
}
