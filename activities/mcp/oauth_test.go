package mcp_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/everturn/everturn/activities/mcp"
	"github.com/everturn/everturn/workflows/turn"
)

// issuer issues a new access token each time. Only the last one is valid.
type issuer struct {
	issued atomic.Int32
	broken atomic.Bool
	brief  bool // each token expires at once, according to the issuer
}

func (i *issuer) last() string { return fmt.Sprintf("canary-access-token-%d", i.issued.Load()) }

func (i *issuer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	_ = r.ParseForm()
	id, secret, ok := r.BasicAuth()
	w.Header().Set("Content-Type", "application/json")
	if i.broken.Load() || !ok || id != "client" || secret != "canary-client-secret" ||
		r.Form.Get("scope") != "read write" {
		w.WriteHeader(http.StatusUnauthorized)
		_, _ = fmt.Fprintf(w, `{"error":"invalid_client","error_description":"%s is not %s"}`, secret, "right")
		return
	}
	i.issued.Add(1)
	expires := 3600
	if i.brief {
		expires = 1
	}
	_ = json.NewEncoder(w).Encode(map[string]any{"access_token": i.last(), "token_type": "Bearer", "expires_in": expires})
}

// guarded returns the configuration of an MCP server that accepts only the issuer's last token.
func guarded(t *testing.T, i *issuer) mcp.Server {
	t.Helper()
	url, _ := serveHTTP(t)
	tokens := httptest.NewServer(i)
	t.Cleanup(tokens.Close)
	front := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if got := r.Header.Get("Authorization"); got != "Bearer "+i.last() {
			http.Error(w, "not with "+got, http.StatusUnauthorized)
			return
		}
		forward(w, r, url)
	}))
	t.Cleanup(front.Close)
	return mcp.Server{ID: "web", URL: front.URL, ConnectTimeout: 10 * time.Second, OAuth: mcp.OAuth{
		TokenURL: tokens.URL, ClientID: "client", ClientSecret: "canary-client-secret", Scopes: []string{"read", "write"},
	}}
}

func TestClientCredentialsOpenTheDoor(t *testing.T) {
	var i issuer
	h := newHTTPHost(t, mcp.Options{}, guarded(t, &i))
	for range 3 {
		assert.Equal(t, "x", call(t, h, "mcp/web/echo", `{"text":"x"}`).Text)
	}
	assert.EqualValues(t, 1, i.issued.Load(), "a token that is good was not kept")
}

func TestATokenThatIsRefusedIsReplacedOnce(t *testing.T) {
	var i issuer
	h := newHTTPHost(t, mcp.Options{}, guarded(t, &i))
	req := request(t, h, "mcp/web/echo", `{"text":"x"}`)
	i.issued.Add(1) // revokes the host's token
	r, err := h.Call(t.Context(), req)
	require.NoError(t, err)
	assert.Equal(t, "x", r.Text)
	assert.EqualValues(t, 3, i.issued.Load())

	i.issued.Add(1)
	i.broken.Store(true)
	r, err = h.Call(t.Context(), req)
	require.NoError(t, err)
	assert.Equal(t, []any{turn.OutcomeError, turn.CodeToolNotSent}, []any{r.Outcome, r.Code},
		"what is refused unread is not sent")
	assert.NotContains(t, r.Text, "canary")
}

// TestACallIsRepeatedOnlyIfANewTokenMayHelp checks that after a server has refused a new token, too, further calls are
// sent once, with that token.
func TestACallIsRepeatedOnlyIfANewTokenMayHelp(t *testing.T) {
	var i issuer
	s := guarded(t, &i)
	var refused atomic.Int32
	s.URL = frontOf(t, s.URL, refusing(http.StatusUnauthorized, true, &refused))
	h := newHTTPHost(t, mcp.Options{}, s)
	req := request(t, h, "mcp/web/append", `{"text":"x"}`)
	for range 3 {
		r, err := h.Call(t.Context(), req)
		require.NoError(t, err)
		assert.Equal(t, []any{turn.OutcomeError, turn.CodeToolNotSent}, []any{r.Outcome, r.Code})
	}
	assert.EqualValues(t, 4, refused.Load(), "the first call twice, each further call once")
	assert.EqualValues(t, 2, i.issued.Load())
}

// TestTokensAreNotReplacedOften checks that a server cannot force many new tokens: its redactor learns each one as a
// secret.
func TestTokensAreNotReplacedOften(t *testing.T) {
	i := issuer{brief: true}
	h := newHTTPHost(t, mcp.Options{}, guarded(t, &i))
	req := request(t, h, "mcp/web/echo", `{"text":"x"}`)
	issued := i.issued.Load()
	assert.Equal(t, int32(1), issued, "a token that is taken is used although it has expired")
	for range 20 {
		i.issued.Add(1) // the server accepts none of them
		_, err := h.Call(t.Context(), req)
		require.NoError(t, err)
	}
	assert.LessOrEqual(t, i.issued.Load()-20-issued, int32(10))
}

func TestNoSecretIsInAnErrorOfTheTokenEndpoint(t *testing.T) {
	var i issuer
	i.broken.Store(true)
	h := newHTTPHost(t, mcp.Options{}, guarded(t, &i))
	problem := h.Catalogues(t.Context())[0].Problem
	assert.Contains(t, problem, "asking for an access token")
	assert.Contains(t, problem, "invalid_client")
	assert.NotContains(t, problem, "canary")
	assert.NotContains(t, fmt.Sprintf("%+v", health(t, h)), "canary")
}

// TestNoPartOfTheTokenURLIsInAnError checks that neither the HTTP client's error nor the endpoint's response reveals
// any part of the token endpoint's URL.
func TestNoPartOfTheTokenURLIsInAnError(t *testing.T) {
	echo := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		http.Error(w, r.URL.Query().Get("x")+" is wrong", http.StatusForbidden)
	}))
	t.Cleanup(echo.Close)
	for name, base := range map[string]string{"refused connection": "http://127.0.0.1:1", "answer": echo.URL} {
		s := mcp.Server{ID: "web", URL: "http://127.0.0.1:1/mcp", ConnectTimeout: 10 * time.Second, OAuth: mcp.OAuth{
			TokenURL: base + "/canary-of-the-path/token?x=canary%20q12345&canary-name-alone", ClientID: "client",
			ClientSecret: "canary-client-secret",
		}}
		h := newHTTPHost(t, mcp.Options{}, s)
		problem := h.Catalogues(t.Context())[0].Problem
		assert.Contains(t, problem, "asking for an access token", name)
		assert.NotContains(t, problem, "canary", name)
		assert.NotContains(t, fmt.Sprintf("%+v", health(t, h)), "canary", name)
	}
}

func TestTheTokenEndpointIsGuardedToo(t *testing.T) {
	var i issuer
	s := guarded(t, &i)
	var strayed atomic.Int32
	other := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { strayed.Add(1) }))
	t.Cleanup(other.Close)
	away := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		http.Redirect(w, r, other.URL, http.StatusTemporaryRedirect)
	}))
	t.Cleanup(away.Close)
	for want, url := range map[string]string{
		"name its network in networks": "https://169.254.169.254/token",
		"is not followed":              away.URL,
	} {
		s.OAuth.TokenURL = url
		h := newHTTPHost(t, mcp.Options{}, s)
		assert.Contains(t, h.Catalogues(t.Context())[0].Problem, want)
	}
	assert.Zero(t, strayed.Load(), "the client's secret went to a stranger")
}

// serveSSE serves the older SSE transport and counts the tool's effects. front may handle each request first.
func serveSSE(t *testing.T, front func(w http.ResponseWriter,
	r *http.Request) bool) (url string, effects *atomic.Int32) {
	t.Helper()
	effects = &atomic.Int32{}
	server := sdk.NewServer(&sdk.Implementation{Name: "srv", Version: "1"}, nil)
	type in struct{ Wait bool }
	sdk.AddTool(server, &sdk.Tool{Name: "work"},
		func(ctx context.Context, _ *sdk.CallToolRequest, in in) (*sdk.CallToolResult, any, error) {
			n := effects.Add(1)
			if in.Wait { // until the call is cancelled or the test ends
				select {
				case <-ctx.Done():
				case <-t.Context().Done():
				}
			}
			return &sdk.CallToolResult{Content: []sdk.Content{&sdk.TextContent{Text: fmt.Sprint("done ", n)}}}, nil, nil
		})
	type size struct {
		Bytes int `json:"bytes"`
	}
	sdk.AddTool(server, &sdk.Tool{Name: "big"},
		func(_ context.Context, _ *sdk.CallToolRequest, in size) (*sdk.CallToolResult, any, error) {
			return &sdk.CallToolResult{Content: []sdk.Content{&sdk.TextContent{Text: strings.Repeat("x", in.Bytes)}}}, nil, nil
		})
	handler := sdk.NewSSEHandler(func(*http.Request) *sdk.Server { return server }, nil)
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if front == nil || front(w, r) {
			handler.ServeHTTP(w, r)
		}
	}))
	t.Cleanup(func() { s.CloseClientConnections(); s.Close() })
	return s.URL, effects
}

func TestCallsOverSSE(t *testing.T) {
	var refuse atomic.Bool
	url, effects := serveSSE(t, func(w http.ResponseWriter, r *http.Request) bool {
		if r.Header.Get("X-Key") != "canary-header" || r.Method == http.MethodPost && refuse.Load() {
			http.Error(w, "no", http.StatusForbidden)
			return false
		}
		return true
	})
	h := newHTTPHost(t, mcp.Options{}, mcp.Server{
		ID: "old", Transport: mcp.TransportSSE, URL: url, Headers: map[string]string{"X-Key": "canary-header"},
		ConnectTimeout: 10 * time.Second,
	})
	assert.Equal(t, "done 1", call(t, h, "mcp/old/work", `{"Wait":false}`).Text)
	req := request(t, h, "mcp/old/work", `{"Wait":true}`)
	req.Timeout = 100 * time.Millisecond
	r, err := h.Call(t.Context(), req)
	require.NoError(t, err)
	assert.Equal(t, turn.OutcomeUnknown, r.Outcome)
	assert.EqualValues(t, 2, effects.Load())
	assert.Equal(t, "done 3", call(t, h, "mcp/old/work", `{"Wait":false}`).Text)

	for restarts := range int64(4) {
		refuse.Store(true)
		r, err = h.Call(t.Context(), req)
		require.NoError(t, err)
		assert.Equal(t, []any{turn.OutcomeError, turn.CodeToolNotSent}, []any{r.Outcome, r.Code}, r.Text)
		refuse.Store(false)
		require.Eventually(t, func() bool { return health(t, h).Restarts == restarts+1 }, 10*time.Second, 2*time.Millisecond,
			"over SSE a refusal ends the connection")
		req = request(t, h, "mcp/old/work", `{"Wait":true}`)
	}
	assert.EqualValues(t, 3, effects.Load())
	assert.Equal(t, "done 4", call(t, h, "mcp/old/work", `{"Wait":false}`).Text, "and the breaker is closed")
}

// TestAnSSEServerCannotSendCallsElsewhere checks that the host refuses an endpoint for calls on another host. An SSE
// server sends this endpoint in its first event.
func TestAnSSEServerCannotSendCallsElsewhere(t *testing.T) {
	var strayed atomic.Int32
	other := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { strayed.Add(1) }))
	t.Cleanup(other.Close)
	var once sync.Once
	done := make(chan struct{})
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream")
		_, _ = fmt.Fprintf(w, "event: endpoint\ndata: %s\n\n", other.URL)
		w.(http.Flusher).Flush()
		select {
		case <-r.Context().Done():
		case <-done:
		}
	}))
	t.Cleanup(s.Close)
	t.Cleanup(func() { once.Do(func() { close(done) }) })
	h := newHTTPHost(t, mcp.Options{}, mcp.Server{
		ID: "old", Transport: mcp.TransportSSE, URL: s.URL,
		Headers: map[string]string{"Authorization": "Bearer canary-token"}, ConnectTimeout: 10 * time.Second,
	})
	problem := h.Catalogues(t.Context())[0].Problem
	assert.Contains(t, problem, "is not followed")
	assert.Zero(t, strayed.Load())
	assert.False(t, strings.Contains(problem, "canary"))
}
