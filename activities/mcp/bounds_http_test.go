package mcp_test

import (
	"bytes"
	"context"
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

	"github.com/everturn/everturn/activities/mcp"
	"github.com/everturn/everturn/workflows/turn"
)

// handler responds to a request with this ID.
type handler = func(w http.ResponseWriter, r *http.Request, id string)

// result returns a handler that responds with a result.
func result(result string) handler {
	return func(w http.ResponseWriter, _ *http.Request, id string) { answerJSON(w, []byte(id), result) }
}

// modern returns the responses of a server of the newest protocol, which has one resource of each name: a text of 8
// MiB.
func modern(tools func() string) map[string]handler {
	return map[string]handler{
		"server/discover": result(
			`{"resultType":"complete","supportedVersions":["2026-07-28"],"capabilities":{"tools":{},"resources":{}}}`),
		"tools/list": func(w http.ResponseWriter, r *http.Request, id string) {
			result(`{"resultType":"complete","ttlMs":100000000,"cacheScope":"private","tools":[`+tools()+`]}`)(w, r, id)
		},
		"resources/read": result(
			`{"resultType":"complete","ttlMs":0,"cacheScope":"private","contents":[{"uri":"x:","text":"` +
				strings.Repeat("abc ", 2<<20) + `"}]}`),
	}
}

// evilServer is an MCP server over HTTP with one tool, t.
func evilServer(t *testing.T, answers map[string]handler) mcp.Server {
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
		if answer := answers[req.Method]; answer != nil {
			answer(w, r, string(req.ID))
			return
		}
		switch req.Method {
		case "initialize":
			answerJSON(w, req.ID,
				`{"protocolVersion":"2025-06-18","capabilities":{"tools":{}},"serverInfo":{"name":"evil","version":"1"}}`)
		case "tools/list":
			answerJSON(w, req.ID, `{"tools":[{"name":"t","inputSchema":{"type":"object"}}]}`)
		case "server/discover":
			w.WriteHeader(http.StatusNotFound)
		default:
			w.WriteHeader(http.StatusAccepted)
		}
	}))
	t.Cleanup(s.Close)
	return mcp.Server{ID: "web", URL: s.URL}
}

func answerJSON(w http.ResponseWriter, id []byte, result string) {
	w.Header().Set("Content-Type", "application/json")
	fmt.Fprintf(w, `{"jsonrpc":"2.0","id":%s,"result":%s}`, id, result)
}

// TestAnswersOverHTTPAreBounded covers calls whose response exceeds a bound of HTTP: the call's outcome, and the bound
// that puts the server into backoff, if any.
func TestAnswersOverHTTPAreBounded(t *testing.T) {
	manyValues := strings.Repeat(`,{}`, 300_000)
	for name, c := range map[string]struct {
		answer handler
		bound  string
	}{
		"headers": {answer: func(w http.ResponseWriter, _ *http.Request, id string) {
			for i := range 10_000 {
				w.Header().Set(fmt.Sprintf("X%d", i), "x")
			}
			answerJSON(w, []byte(id), `{"content":[]}`)
		}},
		"values in a stream of events in another letter case": {bound: "values_per_message",
			answer: func(w http.ResponseWriter, _ *http.Request, id string) {
				w.Header().Set("Content-Type", "Text/Event-Stream")
				fmt.Fprintf(w,
					": \"\ndata: {\"jsonrpc\":\"2.0\",\"id\":%s,\"result\":{\"content\":[],\"structuredContent\":{\"a\":[0%s]}}}\n\n", id, manyValues)
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
			h := newHTTPHost(t, mcp.Options{BackoffMin: time.Minute},
				evilServer(t, map[string]handler{"tools/call": c.answer}))
			r := call(t, h, "mcp/web/t", `{}`)
			assert.Equal(t, turn.OutcomeUnknown, r.Outcome, "it was sent")
			assert.Less(t, len(h.Health()[0].LastError), 4<<10)
			if c.bound != "" {
				require.Eventually(t, func() bool { return standingOf(t, h, "web").Excess.Bound == c.bound }, 10*time.Second,
					5*time.Millisecond)
			}
		})
	}
}

// TestACallIsRedirectedOnce checks that a server that runs a call and then redirects it to itself runs it at most
// twice.
func TestACallIsRedirectedOnce(t *testing.T) {
	var acted atomic.Int32
	h := newHTTPHost(t, mcp.Options{}, evilServer(t,
		map[string]handler{"tools/call": func(w http.ResponseWriter, r *http.Request, _ string) {
			acted.Add(1)
			http.Redirect(w, r, r.URL.Path, http.StatusTemporaryRedirect)
		}}))
	assert.Equal(t, turn.OutcomeUnknown, call(t, h, "mcp/web/t", `{}`).Outcome)
	assert.Equal(t, int32(2), acted.Load())
}

// TestTheBodyOfAnErrorIsBounded checks that an error's body is read only up to the bound of a refusal, whatever its
// media type is.
func TestTheBodyOfAnErrorIsBounded(t *testing.T) {
	for _, kind := range []string{"text/event-stream", "application/json", ""} {
		const blocks = 64 // blocks of 1 MiB; loopback buffers some of them
		var taken atomic.Int32
		done := make(chan struct{})
		h := newHTTPHost(t, mcp.Options{},
			evilServer(t, map[string]handler{"tools/call": func(w http.ResponseWriter, _ *http.Request, _ string) {
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
			}}))
		r := call(t, h, "mcp/web/t", `{}`)
		assert.Equal(t, turn.OutcomeUnknown, r.Outcome)
		receive(t, done)
		assert.Less(t, taken.Load(), int32(blocks), "%q", kind)
	}
}

// TestLargeResultsThatAreNotKeptAreBoundedTogether checks that a large result waits, over every transport, until there
// is memory for it, and holds that memory until the journal has it.
func TestLargeResultsThatAreNotKeptAreBoundedTogether(t *testing.T) {
	for _, over := range []string{"stdio", "http", "sse"} {
		t.Run(over, func(t *testing.T) {
			server := stdioServer("srv")
			switch over {
			case "http":
				server = mcp.Server{ID: "srv"}
				server.URL, _ = serveHTTP(t)
			case "sse":
				server = mcp.Server{ID: "srv", Transport: mcp.TransportSSE}
				server.URL, _ = serveSSE(t, nil)
			}
			h := newHTTPHost(t, mcp.Options{}, server)
			req := request(t, h, "mcp/srv/big", `{"bytes":300000}`)
			giveBack := h.TakeMemory()
			hurried := req
			hurried.Timeout = time.Second
			r, err := h.Call(t.Context(), hurried)
			require.NoError(t, err)
			require.Equal(t, turn.OutcomeUnknown, r.Outcome, "there is no room for its result")
			kept := make(chan struct{})
			req.Kept = kept
			waits, _ := async(t, h, req)
			giveBack()
			got := receive(t, waits)
			require.NoError(t, got.err)
			assert.Equal(t, turn.OutcomeOK, got.result.Outcome, got.result.Text)
			assert.Nil(t, h.TakeMemory(), "a result that is not kept takes room")
			close(kept)
			require.Eventually(t, func() bool { return h.TakeMemory() != nil }, 10*time.Second, time.Millisecond)
		})
	}
}

// TestResultsOfManyValuesAreLarge checks that a message with many values counts as large, because it takes more memory
// than its bytes.
func TestResultsOfManyValuesAreLarge(t *testing.T) {
	values := `{"content":[],"structuredContent":{"x":[{"a":0}` + strings.Repeat(`,{"a":0}`, 80_000) + `]}}`
	h := newHTTPHost(t, mcp.Options{}, evilServer(t, map[string]handler{"tools/call": result(values)}))
	req := request(t, h, "mcp/web/t", `{}`)
	kept := make(chan struct{})
	defer close(kept)
	req.Kept = kept
	r, err := h.Call(t.Context(), req)
	require.NoError(t, err)
	require.Equal(t, turn.OutcomeOK, r.Outcome, r.Text)
	req.Timeout = time.Second
	r, err = h.Call(t.Context(), req)
	require.NoError(t, err)
	require.Equal(t, turn.OutcomeUnknown, r.Outcome, "there is no room for two of 160,000 values")
}

// TestAListIsAskedForAgainWhateverItsServerSays checks that the host lists the tools again even if the server declares
// its list valid for a day.
func TestAListIsAskedForAgainWhateverItsServerSays(t *testing.T) {
	var lists atomic.Int32
	server := evilServer(t, modern(func() string {
		return fmt.Sprintf(`{"name":"t%d","inputSchema":{"type":"object"}}`, lists.Add(1))
	}))
	h := newHTTPHost(t, mcp.Options{RefreshEvery: 10 * time.Millisecond}, server)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	again := make(chan struct{}, 100)
	go h.Watch(ctx, func(turn.Catalogue) { again <- struct{}{} })
	receive(t, again)
	receive(t, again)
}
