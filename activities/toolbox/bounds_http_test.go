package toolbox_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/everturn/everturn/activities/toolbox"
	"github.com/everturn/everturn/workflows/turn"
)

// evilServer is an MCP server over HTTP with one tool, t, whose calls are answered by answer.
func evilServer(t *testing.T, answer func(w http.ResponseWriter, r *http.Request, id string)) toolbox.Server {
	t.Helper()
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var req struct {
			ID     json.RawMessage
			Method string
		}
		if r.Method != http.MethodPost || json.NewDecoder(r.Body).Decode(&req) != nil {
			w.WriteHeader(http.StatusMethodNotAllowed)
			return
		}
		switch req.Method {
		case "initialize":
			answerJSON(w, req.ID, `{"protocolVersion":"2025-06-18","capabilities":{"tools":{}},"serverInfo":{"name":"evil","version":"1"}}`)
		case "tools/list":
			answerJSON(w, req.ID, `{"tools":[{"name":"t","inputSchema":{"type":"object"}}]}`)
		case "tools/call":
			answer(w, r, string(req.ID))
		case "server/discover":
			w.WriteHeader(http.StatusNotFound)
		default:
			w.WriteHeader(http.StatusAccepted)
		}
	}))
	t.Cleanup(s.Close)
	return toolbox.Server{ID: "web", URL: s.URL}
}

func answerJSON(w http.ResponseWriter, id []byte, result string) {
	w.Header().Set("Content-Type", "application/json")
	fmt.Fprintf(w, `{"jsonrpc":"2.0","id":%s,"result":%s}`, id, result)
}

// What a call ends in whose answer exceeds a bound of HTTP, and the bound for which the server is quarantined, if any.
func TestAnswersOverHTTPAreBounded(t *testing.T) {
	manyValues := strings.Repeat(`,{}`, 300_000)
	for name, c := range map[string]struct {
		answer func(w http.ResponseWriter, r *http.Request, id string)
		bound  string
	}{
		"headers": {answer: func(w http.ResponseWriter, _ *http.Request, id string) {
			for i := range 10_000 {
				w.Header().Set(fmt.Sprintf("X%d", i), "x")
			}
			answerJSON(w, []byte(id), `{"content":[]}`)
		}},
		"values in a stream of events in another letter case": {bound: "values_per_message", answer: func(w http.ResponseWriter, _ *http.Request, id string) {
			w.Header().Set("Content-Type", "Text/Event-Stream")
			fmt.Fprintf(w, ": \"\ndata: {\"jsonrpc\":\"2.0\",\"id\":%s,\"result\":{\"content\":[],\"structuredContent\":{\"a\":[0%s]}}}\n\n", id, manyValues)
		}},
		"a line that is no field": {bound: "field_bytes", answer: func(w http.ResponseWriter, _ *http.Request, _ string) {
			w.Header().Set("Content-Type", "text/event-stream")
			_, _ = w.Write(append(bytes.Repeat([]byte{1}, 1<<20), "\n\n"...))
		}},
		"a long version": {bound: "envelope_bytes", answer: func(w http.ResponseWriter, _ *http.Request, _ string) {
			w.Header().Set("Content-Type", "application/json")
			_, _ = io.WriteString(w, `{"jsonrpc":"`+strings.Repeat("2", 1<<20)+`"}`)
		}},
	} {
		t.Run(name, func(t *testing.T) {
			h := newHTTPHost(t, toolbox.Options{BackoffMin: time.Minute}, evilServer(t, c.answer))
			r := call(t, h, "mcp/web/t", `{}`)
			assert.Equal(t, turn.OutcomeUnknown, r.Outcome, "it was sent")
			assert.Less(t, len(h.Health()[0].LastError), 4<<10)
			if c.bound != "" {
				require.Eventually(t, func() bool { return standingOf(t, h, "web").Excess.Bound == c.bound }, 10*time.Second, 5*time.Millisecond)
			}
		})
	}
}

// Of an error no more is read than a refusal may have, whatever its media type is.
func TestTheBodyOfAnErrorIsBounded(t *testing.T) {
	for _, kind := range []string{"text/event-stream", "application/json", ""} {
		const blocks = 64 // of 1 MiB; loopback buffers some of them
		var taken atomic.Int32
		done := make(chan struct{})
		h := newHTTPHost(t, toolbox.Options{}, evilServer(t, func(w http.ResponseWriter, _ *http.Request, _ string) {
			defer close(done)
			w.Header().Set("Content-Type", kind)
			w.WriteHeader(http.StatusTeapot)
			block := []byte(":" + strings.Repeat("a", 1<<20) + "\n\n")
			for range blocks {
				if _, err := w.Write(block); err != nil {
					return
				}
				taken.Add(1)
			}
		}))
		r := call(t, h, "mcp/web/t", `{}`)
		assert.Equal(t, turn.OutcomeUnknown, r.Outcome)
		receive(t, done)
		assert.Less(t, taken.Load(), int32(blocks), "%q", kind)
	}
}

// Large results wait for each other until they are kept, over every transport.
func TestLargeResultsThatAreNotKeptAreBoundedTogether(t *testing.T) {
	const room, large = 4, 15 << 20 // the fifth has no room
	for _, over := range []string{"stdio", "http", "sse"} {
		t.Run(over, func(t *testing.T) {
			server := stdioServer("srv")
			if over != "stdio" {
				url, _ := serveHTTP(t, map[string][]string{"sse": {"-sse"}}[over]...)
				server = toolbox.Server{ID: "srv", URL: url, Transport: toolbox.Transport(over)}
			}
			h := newHTTPHost(t, toolbox.Options{}, server)
			req := request(t, h, "mcp/srv/big", fmt.Sprintf(`{"bytes":%d}`, large))
			kept := make(chan struct{})
			req.Kept, req.Repeatable = kept, false
			for range room {
				r, err := h.Call(t.Context(), req)
				require.NoError(t, err)
				require.Equal(t, turn.OutcomeOK, r.Outcome, r.Text)
			}
			hurried := req
			hurried.Timeout = 3 * time.Second
			r, err := h.Call(t.Context(), hurried)
			require.NoError(t, err)
			require.Equal(t, turn.OutcomeUnknown, r.Outcome, "there is no room for its result")
			last, _ := async(t, h, req)
			small := request(t, h, "mcp/srv/echo", `{"text":"x"}`)
			close(kept)
			got := receive(t, last)
			require.NoError(t, got.err)
			assert.Equal(t, turn.OutcomeOK, got.result.Outcome, got.result.Text)
			r, err = h.Call(t.Context(), small)
			require.NoError(t, err)
			assert.Equal(t, "x", r.Text)
		})
	}
}
