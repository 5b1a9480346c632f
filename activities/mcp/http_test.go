package mcp_test

import (
	"bufio"
	"net/http"
	"net/http/httptest"
	"os/exec"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/everturn/everturn/activities/mcp"
	"github.com/everturn/everturn/workflows/turn"
)

// serveHTTP runs the test server as a process over HTTP. It returns the server's URL and a function that kills it.
func serveHTTP(t *testing.T, args ...string) (string, func()) {
	t.Helper()
	cmd := exec.Command(binary, append([]string{"-http", "127.0.0.1:0", "-until-eof"}, args...)...)
	_, err := cmd.StdinPipe()
	require.NoError(t, err)
	out, err := cmd.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	kill := func() { _ = cmd.Process.Kill(); _ = cmd.Wait() }
	t.Cleanup(kill)
	url, err := bufio.NewReader(out).ReadString('\n')
	require.NoError(t, err)
	return strings.TrimSpace(url), kill
}

// newHTTPHost is newHost without the check for leftover processes, because the test owns the server.
func newHTTPHost(t *testing.T, opts mcp.Options, s mcp.Server) *mcp.Host {
	t.Helper()
	opts.Servers = []mcp.Server{s}
	h, err := mcp.New(opts)
	require.NoError(t, err)
	t.Cleanup(func() { assert.NoError(t, h.Close()) })
	return h
}

func TestCallsOverHTTP(t *testing.T) {
	ledger := filepath.Join(t.TempDir(), "ledger")
	url, kill := serveHTTP(t, "-ledger", ledger)
	h := newHTTPHost(t, mcp.Options{}, mcp.Server{ID: "web", URL: url})
	assert.Equal(t, "hello", call(t, h, "mcp/web/echo", `{"text":"hello"}`).Text)
	assert.Equal(t, turn.OutcomeError, call(t, h, "mcp/web/fail", `{"text":"no"}`).Outcome)

	req := request(t, h, "mcp/web/slow", `{"text":"x"}`)
	req.Timeout = 200 * time.Millisecond
	r, err := h.Call(t.Context(), req)
	require.NoError(t, err)
	assert.Equal(t, turn.OutcomeUnknown, r.Outcome)
	awaitEvent(t, ledger, "cancelled")

	ch, cancel := async(t, h, request(t, h, "mcp/web/stubborn", `{"text":"x"}`))
	defer cancel()
	require.Eventually(t, func() bool { return events(ledger)["begun"] == 2 }, 10*time.Second, 5*time.Millisecond)
	echo := request(t, h, "mcp/web/echo", `{"text":"x"}`)
	kill()
	assert.Equal(t, turn.OutcomeUnknown, receive(t, ch).result.Outcome)
	_, err = h.Call(t.Context(), echo)
	assert.Equal(t, turn.CodeToolNotSent, turn.CodeOf(err), "a refused connection sends nothing")
}

func TestHeadersGoToTheConfiguredHostOnly(t *testing.T) {
	url, _ := serveHTTP(t)
	var strangers atomic.Int32
	stranger := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { strangers.Add(1) }))
	t.Cleanup(stranger.Close)
	var authorised atomic.Int32
	proxy := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Authorization") == "Bearer canary-token" {
			authorised.Add(1)
		}
		if r.URL.Path == "/away" {
			http.Redirect(w, r, stranger.URL, http.StatusTemporaryRedirect)
			return
		}
		forward(w, r, url)
	}))
	t.Cleanup(proxy.Close)
	headers := map[string]string{"Authorization": "Bearer canary-token"}
	h := newHTTPHost(t, mcp.Options{}, mcp.Server{ID: "web", URL: proxy.URL + "/mcp", Headers: headers})
	assert.Equal(t, "x", call(t, h, "mcp/web/echo", `{"text":"x"}`).Text)
	assert.Positive(t, authorised.Load())

	away := newHTTPHost(t, mcp.Options{}, mcp.Server{ID: "web", URL: proxy.URL + "/away", Headers: headers})
	assert.Contains(t, away.Catalogues(t.Context())[0].Problem, "is not followed")
	assert.Zero(t, strangers.Load())
}

// forward forwards a request and streams the response back.
func forward(w http.ResponseWriter, r *http.Request, url string) {
	req, _ := http.NewRequestWithContext(r.Context(), r.Method, url, r.Body)
	req.Header = r.Header.Clone()
	resp, err := http.DefaultTransport.RoundTrip(req)
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadGateway)
		return
	}
	defer resp.Body.Close()
	for k, v := range resp.Header {
		w.Header()[k] = v
	}
	w.WriteHeader(resp.StatusCode)
	flusher, _ := w.(http.Flusher)
	buf := make([]byte, 4096)
	for {
		n, err := resp.Body.Read(buf)
		_, _ = w.Write(buf[:n])
		flusher.Flush()
		if err != nil {
			return
		}
	}
}
