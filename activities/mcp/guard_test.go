package mcp

import (
	"context"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/everturn/everturn/internal/redact"
	"github.com/everturn/everturn/workflows/turn"
)

// names is a DNS server that returns the same address for every name. A test can change the address.
type names struct{ address atomic.Pointer[netip.Addr] }

func (n *names) resolver(t *testing.T) *net.Resolver {
	t.Helper()
	conn, err := net.ListenPacket("udp", "127.0.0.1:0")
	require.NoError(t, err)
	done := make(chan struct{})
	t.Cleanup(func() { _ = conn.Close(); <-done })
	go func() {
		defer close(done)
		buf := make([]byte, 512)
		for {
			size, from, err := conn.ReadFrom(buf)
			if err != nil {
				return
			}
			_, _ = conn.WriteTo(n.answer(buf[:size]), from)
		}
	}()
	return &net.Resolver{PreferGo: true, Dial: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return (&net.Dialer{}).DialContext(ctx, "udp", conn.LocalAddr().String())
	}}
}

// answerKind returns the query with one answerKind whose TTL is zero (RFC 1035, 4.1). There are no IPv6 addresses.
func (n *names) answer(query []byte) []byte {
	end := 12
	for end < len(query) && query[end] != 0 {
		end += int(query[end]) + 1
	}
	end += 5
	asked := query[end-3] // the low byte of the type; all queried types fit into it
	out := append([]byte{query[0], query[1], 0x81, 0x80, 0, 1, 0, 0, 0, 0, 0, 0}, query[12:end]...)
	if asked != 1 {
		return out
	}
	out[7] = 1
	address := n.address.Load().As4()
	return append(append(out, 0xc0, 12, 0, 1, 0, 1, 0, 0, 0, 0, 0, 4), address[:]...)
}

// TestANameThatIsMadeToPointElsewhereIsNotFollowed covers a name that resolves to the server when the host connects,
// and to this machine when it calls.
func TestANameThatIsMadeToPointElsewhereIsNotFollowed(t *testing.T) {
	server := sdk.NewServer(&sdk.Implementation{Name: "srv", Version: "1"}, nil)
	sdk.AddTool(server, &sdk.Tool{Name: "work"},
		func(context.Context, *sdk.CallToolRequest, struct{}) (*sdk.CallToolResult, any, error) {
			return &sdk.CallToolResult{Content: []sdk.Content{&sdk.TextContent{Text: "done"}}}, nil, nil
		})
	victim, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	l, err := net.Listen("tcp", strings.Replace(victim.Addr().String(), "127.0.0.1", "127.0.0.2", 1))
	require.NoError(t, err)
	opts := &sdk.StreamableHTTPOptions{DisableLocalhostProtection: true, Stateless: true}
	//nolint:gosec // loopback, for tests
	srv := &http.Server{Handler: sdk.NewStreamableHTTPHandler(func(*http.Request) *sdk.Server { return server }, opts)}
	// each request dials
	srv.SetKeepAlivesEnabled(false)
	go func() { _ = srv.Serve(l) }()
	t.Cleanup(func() { _ = srv.Close() })
	var hits atomic.Int32
	go func() {
		for {
			c, err := victim.Accept()
			if err != nil {
				return
			}
			hits.Add(1)
			_ = c.Close()
		}
	}()
	t.Cleanup(func() { _ = victim.Close() })

	var dns names
	real, elsewhere := netip.MustParseAddr("127.0.0.2"), netip.MustParseAddr("127.0.0.1")
	dns.address.Store(&real)
	_, port, _ := net.SplitHostPort(l.Addr().String())
	h, err := New(Options{Servers: []Server{{
		ID: "srv", URL: "http://rebinding.example:" + port, Networks: []string{"127.0.0.2/32"},
		ConnectTimeout: 10 * time.Second,
	}}})
	require.NoError(t, err)
	t.Cleanup(func() { assert.NoError(t, h.Close()) })
	h.connectors["srv"].dialer.(*httpDialer).guard.Resolver = dns.resolver(t)
	c := h.Catalogues(t.Context())[0]
	require.Empty(t, c.Problem)
	req := turn.ToolRequest{Tool: "mcp/srv/work", Hash: c.Tools[0].Hash, Arguments: json.RawMessage(`{}`),
		Timeout: 10 * time.Second}
	r, err := h.Call(t.Context(), req)
	require.NoError(t, err)
	require.Equal(t, "done", r.Text)

	dns.address.Store(&elsewhere)
	_, err = h.Call(t.Context(), req)
	assert.Equal(t, turn.CodeToolNotSent, turn.CodeOf(err))
	assert.ErrorContains(t, err, "rebinding.example points to 127.0.0.1, which is this machine")
	assert.Zero(t, hits.Load())
}

func TestAnAddressThatIsRefusedIsSaidOnce(t *testing.T) {
	h, err := New(Options{Servers: []Server{
		{ID: "srv", URL: "https://10.1.2.3/mcp?key=canary", ConnectTimeout: 10 * time.Second}}})
	require.NoError(t, err)
	t.Cleanup(func() { assert.NoError(t, h.Close()) })
	problem := h.Catalogues(t.Context())[0].Problem
	assert.Contains(t, problem, "10.1.2.3 is not on the public internet: name its network")
	assert.NotContains(t, problem, "points to")
	assert.NotContains(t, problem, "canary")
}

// TestAServerThatDoesNotAnswerIsNamedByItsAddress checks that the error names the server that accepts connections and
// does not respond, because there may be many servers.
func TestAServerThatDoesNotAnswerIsNamedByItsAddress(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	t.Cleanup(func() { _ = l.Close() })
	h, err := New(Options{Servers: []Server{
		{ID: "srv", URL: "http://" + l.Addr().String() + "/mcp?key=canary", ConnectTimeout: 300 * time.Millisecond}}})
	require.NoError(t, err)
	t.Cleanup(func() { assert.NoError(t, h.Close()) })
	problem := h.Catalogues(t.Context())[0].Problem
	assert.Contains(t, problem, "http://"+l.Addr().String()+
		"/mcp?key=hidden: it did not finish its handshake within 300ms (timeouts.connect)")
	assert.NotContains(t, problem, "canary")
	assert.NotContains(t, problem, "downloading")
}

// TestOnlyTheLastTokensAreLookedFor checks that the memory for tokens does not grow with their number, because a host
// may receive new ones as long as it lives.
func TestOnlyTheLastTokensAreLookedFor(t *testing.T) {
	s := Server{ID: "srv", URL: "https://mcp.example",
		OAuth: OAuth{TokenURL: "https://idp.example", ClientSecret: "the-client-secret"}}
	r := newRedactor(s, nil, redact.New())
	tokens, err := newTokens(s, r)
	require.NoError(t, err)
	for i := range 10 * maxPastTokens {
		tokens.issued.remember(fmt.Sprintf("access-token-%d", i))
	}
	assert.Equal(t, "access-token-0", r.text("access-token-0"))
	last := fmt.Sprintf("access-token-%d", 10*maxPastTokens-1)
	assert.NotContains(t, r.text("it was "+last+" and the-client-secret"), "-")
}

// tokenLogin is a login with a token.
type tokenLogin struct{ Login }

func (tokenLogin) Token(context.Context) (string, error) { return "login-token-5e1f09c2", nil }

// TestPasswordsInSettingsAreSecrets checks that passwords are redacted in connection strings, and in settings whose
// names announce a password in other words than PASSWORD.
func TestPasswordsInSettingsAreSecrets(t *testing.T) {
	r := newRedactor(Server{ID: "db", Env: map[string]string{
		"DATABASE_URL": "postgres://ann:correct-horse@db.example/sales?sslpassword=battery!staple",
		"PASSPHRASE":   "some spaces 9",
		"DB_PASS":      "hunter2!xyz", "MYSQL_PWD": "open sesame", "FOLDER": "/srv/some/folder",
	}}, nil, redact.New())
	assert.Equal(t, "[redacted] [redacted] [redacted] [redacted] [redacted] /srv/some/folder db.example",
		r.result("correct-horse battery!staple some spaces 9 hunter2!xyz open sesame /srv/some/folder db.example"))
}

// TestSecretsAreSharedByAllServers checks that secrets that are known by name, and login tokens, are redacted in the
// texts of all servers. A server's settings that only look like secrets are redacted in that server's own texts, and
// all its other settings in its errors only.
func TestSecretsAreSharedByAllServers(t *testing.T) {
	shared := redact.New()
	given := newRedactor(Server{ID: "given", Env: map[string]string{"DB_PASSWORD": "correct horse",
		"RELEASE": "release-2026-11", "FOLDER": "/srv/some/folder"}}, nil, shared)
	other := newRedactor(Server{ID: "other"}, nil, shared)
	said := "correct horse release-2026-11 /srv/some/folder login-token-5e1f09c2"
	_, err := loginHandler{tokenLogin{}, &issued{redact: given}}.TokenSource(t.Context())
	require.NoError(t, err)
	assert.Equal(t, "correct horse release-2026-11 /srv/some/folder [redacted]", other.text(said),
		"words are not blanked elsewhere")
	assert.Equal(t, "[redacted] [redacted] /srv/some/folder [redacted]", given.result(said))
	assert.Equal(t, "[redacted] [redacted] [redacted] [redacted]", given.text(said))
}
