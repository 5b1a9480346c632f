package httpapi

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/cookiejar"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/everturn/everturn/client"
	"github.com/everturn/everturn/config"
	"github.com/everturn/everturn/journal"
	"github.com/everturn/everturn/workflows/turn"
)

// tab is a browser of a harness with its cookies.
type tab struct {
	*harness
	client *http.Client
}

func (h *harness) tab() *tab {
	h.t.Helper()
	jar, err := cookiejar.New(nil)
	require.NoError(h.t, err)
	return &tab{h, &http.Client{Jar: jar, CheckRedirect: func(*http.Request, []*http.Request) error {
		return http.ErrUseLastResponse
	}}}
}

// do sends a request with the cookies.
func (b *tab) do(method, path, body string, headers ...string) (*http.Response, string) {
	b.t.Helper()
	h := *b.harness
	return h.sendWith(b.client, method, path, "", body, headers...)
}

// link returns the path of a link.
func (h *harness) link(tenant string, rights ...client.Right) string {
	h.t.Helper()
	_, secret, err := h.journal.Tenant(tenant).CreateLink(h.t.Context(),
		client.CreateTokenInput{Principal: "ann", Rights: rights})
	require.NoError(h.t, err)
	u, err := url.Parse(SignInURL(config.HTTP{}, "127.0.0.1:7280", secret))
	require.NoError(h.t, err)
	return u.Path
}

// signedIn returns a browser with the cookie.
func (h *harness) signedIn(tenant string, rights ...client.Right) *tab {
	h.t.Helper()
	b := h.tab()
	res, _ := b.do("POST", h.link(tenant, rights...), "")
	require.Equal(h.t, http.StatusSeeOther, res.StatusCode)
	return b
}

// A link signs a browser in once. A look at it does not spend it, and its secret is no token.
func TestSignIn(t *testing.T) {
	h := serve(t)
	link := h.link("", client.RightRead, client.RightDecide)
	secret := strings.TrimPrefix(link, "/sign-in/")
	status, body := h.send("GET", "/v1/sessions", secret, "")
	assert.Equal(t, http.StatusUnauthorized, status)
	assert.Equal(t, "wrong_token", code(t, body))

	b := h.tab()
	for range 2 {
		res, body := b.do("GET", link, "")
		assert.Equal(t, http.StatusOK, res.StatusCode)
		assert.Contains(t, body, "Sign in as ann")
		assert.Empty(t, res.Cookies())
	}
	res, _ := b.do("POST", link, "", "Origin", "https://evil.example")
	assert.Equal(t, http.StatusForbidden, res.StatusCode)
	res, _ = b.do("POST", link, "", "Sec-Fetch-Site", "same-origin", "Origin", h.URL)
	require.Equal(t, http.StatusSeeOther, res.StatusCode)
	require.Len(t, res.Cookies(), 1)
	cookie := res.Cookies()[0]
	assert.True(t, cookie.HttpOnly)
	assert.Equal(t, http.SameSiteStrictMode, cookie.SameSite)
	assert.Equal(t, "/", cookie.Path)
	assert.Equal(t, 30*24*3600, cookie.MaxAge)
	res, _ = h.tab().do("POST", link, "")
	assert.Equal(t, http.StatusGone, res.StatusCode, "it is spent")
	res, _ = h.tab().do("GET", link, "")
	assert.Equal(t, http.StatusGone, res.StatusCode)

	res, _ = b.do("GET", "/", "")
	assert.Equal(t, http.StatusOK, res.StatusCode)
	res, _ = b.do("GET", "/v1/sessions", "")
	assert.Equal(t, http.StatusOK, res.StatusCode, "the API takes the cookie")
	res, body = b.do("POST", "/v1/sessions/s/stop", "")
	assert.Equal(t, http.StatusForbidden, res.StatusCode)
	assert.Equal(t, "right_missing", code(t, body), "with the link's rights")

	res, _ = b.do("POST", "/sign-out", "")
	assert.Equal(t, http.StatusOK, res.StatusCode)
	token, err := h.journal.TokenBySecret(t.Context(), cookie.Value)
	require.NoError(t, err)
	assert.False(t, token.Active(time.Now()), "its token is revoked")
	res, body = b.do("GET", "/", "")
	assert.Equal(t, http.StatusUnauthorized, res.StatusCode)
	assert.Contains(t, body, "everturn tokens link")
}

// The cookie counts only in requests of the page itself, even for origins that may use the API with a token.
func TestTheCookieIsOfThePageOnly(t *testing.T) {
	h := serve(t, func(c *config.Config) { c.HTTP.AllowedOrigins = []string{"https://app.example.com"} })
	b := h.signedIn("", journal.Rights()...)
	for name, c := range map[string]struct {
		method, path string
		headers      []string
		refused      bool
	}{
		"the page":           {"GET", "/v1/sessions", []string{"Sec-Fetch-Site", "same-origin"}, false},
		"a typed address":    {"GET", "/", []string{"Sec-Fetch-Site", "none", "Sec-Fetch-Dest", "document"}, false},
		"a link":             {"GET", "/", []string{"Sec-Fetch-Site", "same-site", "Sec-Fetch-Dest", "document"}, false},
		"a script elsewhere": {"GET", "/v1/sessions", []string{"Sec-Fetch-Site", "same-site"}, true},
		"a frame elsewhere":  {"GET", "/", []string{"Sec-Fetch-Site", "cross-site", "Sec-Fetch-Dest", "iframe"}, true},
		"an allowed origin":  {"POST", "/v1/sessions/s/stop", []string{"Origin", "https://app.example.com"}, true},
		"its script":         {"GET", "/v1/sessions", []string{"Origin", "https://app.example.com"}, true},
		"another port": {"POST", "/v1/sessions/s/stop",
			[]string{"Origin", "http://127.0.0.1:1", "Sec-Fetch-Site", "same-site"}, true},
	} {
		t.Run(name, func(t *testing.T) {
			res, _ := b.do(c.method, c.path, "", c.headers...)
			assert.Equal(t, c.refused, res.StatusCode == http.StatusForbidden, res.StatusCode)
		})
	}
}

// With TLS, the cookie is for TLS only, and other hosts of the domain cannot set it.
func TestTheCookieWithTLS(t *testing.T) {
	h := serve(t, func(c *config.Config) { c.HTTP.PublicURL = "https://agents.example.com" })
	res, _ := h.tab().do("POST", h.link("", client.RightRead), "", "Host", "agents.example.com")
	require.Len(t, res.Cookies(), 1)
	assert.True(t, res.Cookies()[0].Secure)
	assert.Equal(t, "__Host-everturn", res.Cookies()[0].Name)
}

// hostileText would run scripts if it were HTML.
const hostileText = `<img src=x onerror=alert(1)></title></textarea><script>alert(2)</script>` +
	"\n\n[a](javascript:alert(3)) ![p](https://evil.example/p.png)\u202e"

// hostileSession makes a session whose ID, messages, tools, arguments and results would run scripts. Its second call
// waits for an approval, and its second step runs. It returns the path of its page.
func (h *harness) hostileSession() string {
	h.t.Helper()
	j, ctx, id, now := h.journal, h.t.Context(), `"><svg onload=alert(4)>'`, time.Now()
	begun, err := j.Begin(ctx, turn.BeginInput{Session: id, Turn: "t",
		Message: turn.UserMessage{ID: "m", Text: hostileText}, At: now})
	require.NoError(h.t, err)
	step := journal.StepKey{Turn: "t", Step: 1}
	started, err := j.StartInference(ctx, journal.StartInference{Session: id, Key: step, Expect: begun.Head,
		Model: "<b>model", At: now})
	require.NoError(h.t, err)
	calls := []turn.ToolCall{
		{ID: "1.0", WireID: "a", Tool: "mcp/<b>x</b>/y",
			Arguments: `{"path":"<i>a</i>","content":"</pre><script>alert(5)</script>"}`},
		{ID: "1.1", WireID: "b", Tool: "local/shell", Arguments: `{"command":"echo '<script>alert(6)</script>'\u202e"}`},
	}
	_, err = j.SettleInference(ctx, journal.SettleInference{Session: id, Key: step, Attempt: 1, Base: started.Base,
		At:    now,
		Model: "<b>model", Message: turn.Message{Text: hostileText, ToolCalls: calls},
		Answer: turn.Completion{Text: hostileText, Reasoning: hostileText, ToolCalls: calls}})
	require.NoError(h.t, err)
	_, err = j.ClaimCall(ctx, journal.CallRecord{Turn: "t", Step: 1, Call: calls[0], Attempt: 1, ClaimedAt: now}, false)
	require.NoError(h.t, err)
	_, err = j.SettleCall(ctx, "t", "1.0", 1, turn.ToolResult{Outcome: turn.OutcomeError, Text: hostileText}, now)
	require.NoError(h.t, err)
	_, err = j.Ask(ctx, id, "t", []turn.Request{{ID: "1.1", Kind: turn.RequestApproval, Step: 1, Tool: calls[1].Tool,
		Arguments: calls[1].Arguments, ArgumentsHash: turn.HashText(calls[1].Arguments), Risk: turn.RiskHigh,
		Why:      hostileText,
		MaxGrant: turn.GrantCommand}}, now)
	require.NoError(h.t, err)
	return "/s/" + url.PathEscape(id)
}

// The page shows a turn as it is: what a user wrote, what the model said and called, how a call ended, and the request
// that waits with its exact arguments and their hash.
func TestThePageShowsASession(t *testing.T) {
	h := serve(t)
	path := h.hostileSession()
	_, body := h.signedIn("", journal.Rights()...).do("GET", path, "")
	hash := turn.HashText(`{"command":"echo '<script>alert(6)</script>'\u202e"}`)
	for _, want := range []string{
		`data-after="t/`, "mcp/&lt;b&gt;x&lt;/b&gt;/y",
		`<ins data-n="1">&lt;/pre&gt;&lt;script&gt;alert(5)&lt;/script&gt;</ins>`,
		"Allow local/shell?", hash, `data-hash="` + hash + `"`, `{&#34;command&#34;:&#34;echo &#39;&lt;script&gt;alert(6)`,
		`data-allow="command"`, `data-allow="call"`, "waits for you", `id="end-t-1"`,
		"[picture: p https://evil.example/p.png]",
	} {
		assert.Contains(t, body, want)
	}
	assert.NotContains(t, body, `data-allow="tool"`, "more than the request permits")
	assert.NotContains(t, body, `id="live"`)

	// The step that runs: its text up to the last event, and no text of an attempt that was given up.
	step := journal.StepKey{Turn: "t", Step: 2}
	s, err := h.journal.Session(t.Context(), `"><svg onload=alert(4)>'`)
	require.NoError(t, err)
	for i, texts := range [][]string{{"given up"}, {"<b>Half ", "a word"}} {
		_, err = h.journal.StartInference(t.Context(), journal.StartInference{Session: s.ID, Key: step, Expect: s.Head,
			Outcomes: []turn.CallOutcome{{CallID: "1.0"}}, Model: "m", At: time.Now()})
		require.NoError(t, err)
		for _, text := range texts {
			require.NoError(t, h.journal.AppendEvents(t.Context(), step, i+1,
				[]turn.Event{{Kind: turn.EventTextDelta, Text: text}}))
		}
	}
	last, err := h.journal.LastEvent(t.Context(), "t")
	require.NoError(t, err)
	_, body = h.signedIn("", journal.Rights()...).do("GET", path, "")
	assert.Contains(t, body, fmt.Sprintf(`data-after="t/%d"`, last.Index))
	assert.Contains(t, body, "&lt;b&gt;Half a word")
	assert.NotContains(t, body, "given up")
}

func TestThePageEscapes(t *testing.T) {
	h := serve(t)
	path := h.hostileSession()
	b := h.signedIn("", journal.Rights()...)
	for _, p := range []string{"/", "/inbox", path, "/?q=" + url.QueryEscape(hostileText), "/s/" +
		url.PathEscape(hostileText)} {
		res, body := b.do("GET", p, "")
		csp := res.Header.Get("Content-Security-Policy")
		assert.Contains(t, csp, "default-src 'none'")
		assert.Contains(t, csp, "require-trusted-types-for 'script'")
		for _, wrong := range []string{"<img", "<script>", "<svg onload", "</textarea><script", `"javascript:`, "src=\"https",
			" style="} {
			if before, after, found := strings.Cut(body, wrong); found {
				t.Errorf("%s has %s: %q", p, wrong, before[max(0, len(before)-100):]+wrong+after[:min(100, len(after))])
			}
		}
	}
	_, body := b.do("GET", "/", "")
	assert.Contains(t, body, "&lt;img src=x")
	assert.NotContains(t, body, "\u202e", "it changes the order of other characters")
	var list sessionList
	_, body = b.do("GET", "/v1/sessions", "")
	require.NoError(t, json.Unmarshal([]byte(body), &list))
	require.Len(t, list.Sessions, 1)
}

// A session of another tenant is not found, and a token without the right read sees nothing.
func TestThePageKeepsTenantsApart(t *testing.T) {
	h := serve(t)
	h.turn("acme", "s", "t")
	res, body := h.signedIn("acme", client.RightRead).do("GET", "/s/s", "")
	assert.Equal(t, http.StatusOK, res.StatusCode)
	assert.NotContains(t, body, "data-compose", "without the right send")
	res, body = h.signedIn("", client.RightRead).do("GET", "/s/s", "")
	assert.Contains(t, []int{http.StatusNotFound, http.StatusServiceUnavailable}, res.StatusCode)
	assert.NotContains(t, body, "Turn 1")
	res, _ = h.signedIn("acme", client.RightSend).do("GET", "/s/s", "")
	assert.Equal(t, http.StatusForbidden, res.StatusCode)
}

// The first view is small, and browsers keep what does not change.
func TestTheFirstViewIsSmall(t *testing.T) {
	h := serve(t)
	for i := range 50 {
		h.turn("", "session-"+string(rune('a'+i%26))+string(rune('a'+i/26)),
			"t"+string(rune('a'+i%26))+string(rune('a'+i/26)))
	}
	b := h.signedIn("", client.RightRead)
	res, body := b.do("GET", "/", "")
	assert.Equal(t, "no-store", res.Header.Get("Cache-Control"))
	total := len(body)
	for _, part := range strings.Split(body, `"/assets/`)[1:] {
		name, _, _ := strings.Cut(part, `"`)
		res, content := b.do("GET", "/assets/"+name, "", "Accept-Encoding", "gzip")
		require.Equal(t, http.StatusOK, res.StatusCode)
		assert.Contains(t, res.Header.Get("Cache-Control"), "immutable")
		assert.Equal(t, "gzip", res.Header.Get("Content-Encoding"))
		total += len(content)
	}
	assert.Less(t, total, 60<<10)
	t.Logf("the first view has %d bytes", total)
}
