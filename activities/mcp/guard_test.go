package mcp

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"strings"
	"testing"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/everturn/everturn/activities/tools/tool"
	"github.com/everturn/everturn/internal/redact"
)

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
		require.NoError(t, tokens.issued.remember(fmt.Sprintf("access-token-%d", i), "the-refresh-token"))
		require.NotContains(t, r.text("it was the-refresh-token"), "-", "a token that is issued again is not an old one")
	}
	assert.Equal(t, "access-token-0", r.text("access-token-0"))
	last := fmt.Sprintf("access-token-%d", 10*maxPastTokens-1)
	assert.NotContains(t, r.text("it was "+last+" and the-client-secret"), "-")
}

// tokenLogin is a login with this token.
type tokenLogin struct {
	Login
	token string
}

func (l tokenLogin) Token(context.Context) (string, error) { return l.token, nil }

// TestALoginsTokenThatIsTooLongToRedactIsNotSent checks that a login's token has the same bound as that of a client.
func TestALoginsTokenThatIsTooLongToRedactIsNotSent(t *testing.T) {
	given := newRedactor(Server{ID: "given"}, nil, redact.New())
	long := tokenLogin{token: strings.Repeat("x", redact.MaxSecret+1)}
	_, err := loginHandler{long, &issued{redact: given}}.TokenSource(t.Context())
	assert.ErrorContains(t, err, "the token is 8193 bytes; the maximum is 8192")
}

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

// TestSecretsAreSharedByAllServers checks that secrets that are known by name are redacted in the texts of all servers.
// A server's settings that only look like secrets are redacted in that server's own texts, and all its other settings
// in its errors only.
func TestSecretsAreSharedByAllServers(t *testing.T) {
	shared := redact.New()
	given := newRedactor(Server{ID: "given", Env: map[string]string{"DB_PASSWORD": "correct horse",
		"API_KEY": "configured-5e1f09c2", "RELEASE": "release-2026-11", "FOLDER": "/srv/some/folder"}}, nil, shared)
	other := newRedactor(Server{ID: "other"}, nil, shared)
	output := "correct horse release-2026-11 /srv/some/folder configured-5e1f09c2"
	assert.Equal(t, "correct horse release-2026-11 /srv/some/folder [redacted]", other.text(output),
		"words are not blanked elsewhere")
	assert.Equal(t, "[redacted] [redacted] /srv/some/folder [redacted]", given.result(output))
	assert.Equal(t, "[redacted] [redacted] [redacted] [redacted]", given.text(output))
}

// TestATokenIsASecretOfItsServerOnly checks that an access token is redacted in the results, errors and logs of its
// server, and nowhere else: the authorization server chooses the token, which may be a name that other servers use.
func TestATokenIsASecretOfItsServerOnly(t *testing.T) {
	const token = "production-cluster-1"
	var log strings.Builder
	opts := Options{Secrets: redact.New(), Logger: slog.New(slog.NewTextHandler(&log, nil)), Servers: []Server{
		{ID: "web", URL: "https://web.example"}, {ID: "other", URL: "https://other.example"}}}
	h, err := New(opts)
	require.NoError(t, err)
	t.Cleanup(func() { assert.NoError(t, h.Close()) })
	web, other := h.connectors["web"], h.connectors["other"]
	login := loginHandler{tokenLogin{token: token}, web.dialer.(*httpDialer).issued}
	_, err = login.TokenSource(t.Context())
	require.NoError(t, err)

	assert.Equal(t, "[redacted]", web.redact.result(token))
	assert.Equal(t, "[redacted]", web.redact.text(token))
	blob := &sdk.EmbeddedResource{Resource: &sdk.ResourceContents{Blob: []byte(token), MIMEType: "text/plain"}}
	r := renderContent(&sdk.CallToolResult{Content: []sdk.Content{blob}}, tool.Limits{Shown: 99, Full: 99}, web.redact)
	assert.Equal(t, "[redacted]", string(r.Full))
	web.log.Warn("a failure", "error", errors.New("not with "+token))
	assert.NotContains(t, log.String(), token)

	assert.Equal(t, token, opts.Secrets.String(token))
	assert.Equal(t, token, other.redact.text(token))
	other.log.Warn("a failure", "error", errors.New("not on "+token))
	assert.Contains(t, log.String(), token)
}
