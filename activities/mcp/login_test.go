package mcp_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/everturn/everturn/activities/mcp"
	"github.com/everturn/everturn/workflows/turn"
)

// visitor returns a new token at each login: "token-1", "token-2" and so on.
type visitor struct {
	logins atomic.Int64
	last   int64 // the number of logins after which the user declines; 0: never
	asked  atomic.Pointer[http.Response]
}

func (v *visitor) Token(context.Context) (string, error) {
	if n := v.logins.Load(); n > 0 {
		return "token-" + string(rune('0'+n)), nil
	}
	return "", nil
}

func (v *visitor) Renew(_ context.Context, resp *http.Response) error {
	if v.last > 0 && v.logins.Load() == v.last {
		return errors.New("the user has declined")
	}
	v.logins.Add(1)
	v.asked.Store(resp)
	return nil
}

// gateway is a server that requires a token, and another one for calls. The handler call serves a tool call that has
// its token.
func gateway(t *testing.T, url string, call http.HandlerFunc) string {
	t.Helper()
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			return
		}
		r.Body = io.NopCloser(bytes.NewReader(body))
		token, calling := r.Header.Get("Authorization"), bytes.Contains(body, []byte(`"tools/call"`))
		switch {
		case token == "":
			w.Header().Set("WWW-Authenticate", `Bearer resource_metadata="https://example.org/"`)
			w.WriteHeader(http.StatusUnauthorized)
		case calling && token == "Bearer token-1":
			w.Header().Set("WWW-Authenticate", `Bearer error="insufficient_scope", scope="tools"`)
			w.WriteHeader(http.StatusForbidden)
		case calling:
			call(w, r)
		default:
			forward(w, r, url)
		}
	}))
	t.Cleanup(s.Close)
	return s.URL
}

func TestALoginIsAskedForAndTheRequestSentOnceMore(t *testing.T) {
	ledger := filepath.Join(t.TempDir(), "ledger")
	url, _ := serveHTTP(t, "-ledger", ledger)
	v := &visitor{}
	h := newHTTPHost(t, mcp.Options{}, mcp.Server{ID: "web", Login: v,
		URL: gateway(t, url, func(w http.ResponseWriter, r *http.Request) {
			forward(w, r, url)
		})})
	r := call(t, h, "mcp/web/append", `{"text":"x"}`)
	assert.Equal(t, turn.OutcomeOK, r.Outcome, "%s", r.Text)
	assert.Equal(t, int64(2), v.logins.Load(), "one for the server, one for the call")
	assert.Contains(t, v.asked.Load().Header.Get("WWW-Authenticate"), "insufficient_scope")
	assert.NotNil(t, v.asked.Load().Request)
	assert.Equal(t, 1, events(ledger)["begun"])
}

// TestACallThatIsLostAfterALoginIsUnknown covers a call that is refused, sent again after a login, and then lost: the
// refusal of the first request says nothing about the second one.
func TestACallThatIsLostAfterALoginIsUnknown(t *testing.T) {
	url, _ := serveHTTP(t)
	reached := make(chan struct{}, 1)
	h := newHTTPHost(t, mcp.Options{}, mcp.Server{ID: "web", Login: &visitor{},
		URL: gateway(t, url, func(http.ResponseWriter, *http.Request) {
			reached <- struct{}{}
			panic(http.ErrAbortHandler)
		})})
	req := request(t, h, "mcp/web/append", `{"text":"x"}`)
	req.Timeout = 10 * time.Second
	r, err := h.Call(t.Context(), req)
	require.NoError(t, err)
	assert.Equal(t, turn.OutcomeUnknown, r.Outcome, "%s", r.Text)
	assert.Len(t, reached, 1)
}

// TestACallIsNotSentWithoutALogin checks that a call is not sent again if its login fails, and that the server's
// refusal is reported.
func TestACallIsNotSentWithoutALogin(t *testing.T) {
	url, _ := serveHTTP(t)
	h := newHTTPHost(t, mcp.Options{}, mcp.Server{ID: "web", Login: &visitor{last: 1},
		URL: gateway(t, url, func(http.ResponseWriter, *http.Request) { t.Error("the call was sent again") })})
	for range 2 {
		r, err := h.Call(t.Context(), request(t, h, "mcp/web/append", `{"text":"x"}`))
		require.NoError(t, err)
		assert.Equal(t, []any{turn.OutcomeError, turn.CodeToolNotSent}, []any{r.Outcome, r.Code})
		assert.Contains(t, r.Text, "refused it with HTTP 403 (Forbidden)")
	}
	assert.Zero(t, h.Health()[0].Failures)
}

// TestARedirectedCallIsNotSentAgain checks that a call is not sent again after a redirect that leads to a refusal: the
// server may have acted before it redirected the call.
func TestARedirectedCallIsNotSentAgain(t *testing.T) {
	url, _ := serveHTTP(t)
	var sent atomic.Int32
	v := &visitor{}
	v.logins.Store(2) // the token that the gateway requires for calls
	h := newHTTPHost(t, mcp.Options{}, mcp.Server{ID: "web", Login: v,
		URL: gateway(t, url, func(w http.ResponseWriter, r *http.Request) {
			if r.URL.Path == "/refuses" {
				w.WriteHeader(http.StatusUnauthorized)
				return
			}
			sent.Add(1)
			http.Redirect(w, r, "/refuses", http.StatusTemporaryRedirect)
		})})
	r := call(t, h, "mcp/web/append", `{"text":"x"}`)
	assert.Equal(t, turn.OutcomeUnknown, r.Outcome, "%s", r.Text)
	assert.EqualValues(t, 1, sent.Load())
}
