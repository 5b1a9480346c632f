package toolbox_test

import (
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/everturn/everturn/activities/toolbox"
	"github.com/everturn/everturn/workflows/turn"
)

// A 400 says that the call was not accepted where it is about no request in particular. One that answers the call does not.
func TestACallThatIsAnsweredWith400(t *testing.T) {
	for name, c := range map[string]struct {
		body    string
		notSent bool
	}{
		"a session that is not known": {`{"jsonrpc":"2.0","error":{"code":-32000,"message":"No valid session ID provided"},"id":null}`, true},
		"an error without an ID":      {`{"jsonrpc":"2.0","error":{"code":-32000,"message":"No valid session ID provided"}}`, true},
		"an error of this call":       {`{"jsonrpc":"2.0","error":{"code":-32000,"message":"half done"},"id":77}`, false},
		"words":                       {`half done`, false},
		"nothing":                     {``, false},
	} {
		t.Run(name, func(t *testing.T) {
			url, _ := serveHTTP(t)
			var refuse atomic.Bool
			proxy := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				body, _ := io.ReadAll(r.Body)
				if strings.Contains(string(body), `"tools/call"`) && refuse.Swap(false) {
					w.Header().Set("Content-Type", "application/json")
					w.WriteHeader(http.StatusBadRequest)
					_, _ = io.WriteString(w, c.body)
					return
				}
				r.Body = io.NopCloser(strings.NewReader(string(body)))
				forward(w, r, url)
			}))
			t.Cleanup(proxy.Close)
			h := newHTTPHost(t, toolbox.Options{}, toolbox.Server{ID: "web", URL: proxy.URL})
			req := request(t, h, "mcp/web/echo", `{"text":"x"}`)
			refuse.Store(true)
			r, err := h.Call(t.Context(), req)
			if c.notSent {
				assert.Equal(t, turn.CodeToolNotSent, turn.CodeOf(err), "%+v", r)
				return
			}
			require.NoError(t, err)
			assert.NotEqual(t, turn.OutcomeOK, r.Outcome)
		})
	}
}
