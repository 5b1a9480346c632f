package tests

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/everturn/everturn/config"
	"github.com/everturn/everturn/tests/script"
	"github.com/everturn/everturn/workflows/turn"
)

// denying starts a proxy that lets tool calls reach the server but replaces each response by a refusal. It returns the
// proxy's address.
func denying(t *testing.T, server string, refuse func(*http.Response)) string {
	t.Helper()
	target, err := url.Parse(server)
	require.NoError(t, err)
	proxy := httputil.NewSingleHostReverseProxy(target)
	proxy.FlushInterval = -1
	proxy.ModifyResponse = func(resp *http.Response) error {
		if resp.Request.Header.Get("X-Call") == "" {
			return nil
		}
		_, err := io.Copy(io.Discard, resp.Body) // the server has acted
		_ = resp.Body.Close()
		resp.Body, resp.ContentLength, resp.Header = http.NoBody, 0, http.Header{}
		refuse(resp)
		return err
	}
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		if bytes.Contains(body, []byte(`"tools/call"`)) {
			r.Header.Set("X-Call", "1")
		}
		r.Body = io.NopCloser(bytes.NewReader(body))
		proxy.ServeHTTP(w, r)
	}))
	t.Cleanup(s.Close)
	return s.URL
}

// TestAServerThatActsAndRefusesIsNotCalledWithoutEnd checks that a server that acts on a call but answers that it did
// not is called a few times, not until the call's timeout.
func TestAServerThatActsAndRefusesIsNotCalledWithoutEnd(t *testing.T) {
	t.Parallel()
	for status, c := range map[int]struct {
		most    int
		outcome turn.Outcome
	}{
		http.StatusNotFound:        {2, turn.OutcomeUnknown},
		http.StatusBadRequest:      {2, turn.OutcomeUnknown},
		http.StatusTooManyRequests: {5, turn.OutcomeError},
	} {
		t.Run(fmt.Sprint(status), func(t *testing.T) {
			t.Parallel()
			s := newRestartedHTTP(t)
			s.start()
			at := denying(t, "http://"+s.address, func(resp *http.Response) {
				resp.StatusCode = status
				resp.Header.Set("Retry-After", "0")
				if status == http.StatusBadRequest {
					resp.Body = io.NopCloser(bytes.NewReader(
						[]byte(`{"jsonrpc":"2.0","error":{"code":-32000,"message":"no session"}}`)))
					resp.ContentLength = -1
				}
			})
			r := newRig(t, script.Steps(script.Call("mcp_ledger_append", `{"text":"x"}`), script.Text("Done.")),
				func(c *config.Config) {
					s.host()(c)
					c.MCP.Servers[0].URL = at + "/mcp"
				})
			r.work()
			run := r.begin(session(t), "Append it.", limited("5m", "15s"))
			assert.Equal(t, turn.FinishAnswered, r.result(run).FinishReason)
			assert.Equal(t, c.outcome, r.calls(run.GetRunID(), 1)[0].Outcome)
			assert.LessOrEqual(t, s.count("effect", "x"), c.most)
			r.sound(session(t))
		})
	}
}
