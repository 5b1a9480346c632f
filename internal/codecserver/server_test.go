package codecserver

import (
	"bytes"
	"context"
	"crypto/rand"
	"crypto/rsa"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	commonpb "go.temporal.io/api/common/v1"
	"go.temporal.io/sdk/converter"
	"google.golang.org/protobuf/encoding/protojson"

	"github.com/everturn/everturn/codec"
	"github.com/everturn/everturn/codec/codectest"
)

const (
	canary = "the canary sings at noon"
	origin = "http://127.0.0.1:8233"
	token  = "codec-token-0123456789"
)

// harness is a server with what it has logged.
type harness struct {
	*httptest.Server
	t    *testing.T
	keys *codec.Keys
	mu   sync.Mutex
	log  bytes.Buffer
}

func (r *harness) Write(b []byte) (int, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.log.Write(b)
}

func (r *harness) logged() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.log.String()
}

func serve(t *testing.T, change func(*Options)) *harness {
	t.Helper()
	r := &harness{t: t, keys: codectest.Keys(t)}
	o := Options{Keys: r.keys, Namespace: "ns", Auth: Auth{Token: token}, Origin: origin,
		Log: slog.New(slog.NewTextHandler(r, nil))}
	if change != nil {
		change(&o)
	}
	handler, err := Handler(t.Context(), o)
	require.NoError(t, err)
	r.Server = httptest.NewServer(handler)
	t.Cleanup(r.Close)
	return r
}

// page returns a request's body as the Web UI sends it.
func (r *harness) page(namespace string) string {
	p, err := r.keys.DataConverter(namespace).ToPayloads(canary, 7)
	require.NoError(r.t, err)
	b, err := protojson.Marshal(p)
	require.NoError(r.t, err)
	return string(b)
}

// send sends what the Web UI sends, with changed headers; an empty value removes a header.
func (r *harness) send(method, path, body string, headers map[string]string) (*http.Response, string) {
	r.t.Helper()
	req, err := http.NewRequestWithContext(r.t.Context(), method, r.URL+path, strings.NewReader(body))
	require.NoError(r.t, err)
	for k, v := range map[string]string{"Content-Type": "application/json", "X-Namespace": "ns", "Origin": origin,
		"Authorization": "Bearer " + token} {
		req.Header.Set(k, v)
	}
	for k, v := range headers {
		req.Header.Set(k, v)
		if v == "" {
			req.Header.Del(k)
		}
	}
	res, err := http.DefaultClient.Do(req)
	require.NoError(r.t, err)
	defer res.Body.Close()
	b, err := io.ReadAll(res.Body)
	require.NoError(r.t, err)
	return res, string(b)
}

func TestTheWebUIReadsPlainContent(t *testing.T) {
	r := serve(t, nil)
	res, _ := r.send("OPTIONS", "/decode", "", map[string]string{"Authorization": "", "X-Namespace": "",
		"Access-Control-Request-Method":  "POST",
		"Access-Control-Request-Headers": "authorization,authorization-extras,content-type,x-namespace"})
	assert.Equal(t, http.StatusNoContent, res.StatusCode, "the browser asks first, without credentials")
	assert.Equal(t, origin, res.Header.Get("Access-Control-Allow-Origin"))
	for _, header := range []string{"Authorization", "Authorization-Extras", "Content-Type", "X-Namespace"} {
		assert.Contains(t, res.Header.Get("Access-Control-Allow-Headers"), header)
	}

	res, body := r.send("POST", "/decode", r.page("ns"), nil)
	require.Equal(t, http.StatusOK, res.StatusCode, body)
	assert.Equal(t, origin, res.Header.Get("Access-Control-Allow-Origin"))
	assert.Equal(t, "no-store", res.Header.Get("Cache-Control"))
	var got commonpb.Payloads
	require.NoError(t, protojson.Unmarshal([]byte(body), &got))
	var text string
	var number int
	require.NoError(t, converter.GetDefaultDataConverter().FromPayloads(&got, &text, &number))
	assert.Equal(t, canary, text)
	assert.Equal(t, 7, number)

	assert.Contains(t, r.logged(), `who=token what=/decode namespace=ns payloads=2`, "the audit line")
	assert.NotContains(t, r.logged(), canary)
	assert.NotContains(t, r.logged(), token)
}

func TestTemporalsClientUsesTheServer(t *testing.T) {
	r := serve(t, func(o *Options) { o.AllowEncode = true })
	remote := converter.NewRemotePayloadCodec(converter.RemotePayloadCodecOptions{Endpoint: r.URL,
		ModifyRequest: func(req *http.Request) error {
			req.Header.Set("Authorization", "Bearer "+token)
			req.Header.Set("X-Namespace", "ns")
			return nil
		}})
	dc := converter.NewCodecDataConverter(converter.GetDefaultDataConverter(), remote)
	p, err := dc.ToPayload(canary)
	require.NoError(t, err)
	assert.NotContains(t, p.String(), canary)
	var got string
	require.NoError(t, dc.FromPayload(p, &got))
	assert.Equal(t, canary, got)
}

func TestWhoIsRefused(t *testing.T) {
	r := serve(t, nil)
	foreign := codectest.Keys(t)
	p, err := foreign.DataConverter("ns").ToPayloads(canary)
	require.NoError(t, err)
	unknown, err := protojson.Marshal(p)
	require.NoError(t, err)
	for name, c := range map[string]struct {
		method, path, body string
		headers            map[string]string
		code               int
		says               string
	}{
		"no token":          {headers: map[string]string{"Authorization": ""}, code: 401, says: "no bearer token"},
		"another token":     {headers: map[string]string{"Authorization": "Bearer " + token + "x"}, code: 401},
		"another scheme":    {headers: map[string]string{"Authorization": "Basic " + token}, code: 401},
		"another origin":    {headers: map[string]string{"Origin": "http://evil.example"}, code: 403},
		"a null origin":     {headers: map[string]string{"Origin": "null"}, code: 403},
		"another's options": {method: "OPTIONS", headers: map[string]string{"Origin": "http://evil.example"}, code: 403},
		"another namespace": {headers: map[string]string{"X-Namespace": "other"}, code: 403, says: `"ns" only`},
		"no namespace":      {headers: map[string]string{"X-Namespace": ""}, code: 403},
		"content of another namespace": {body: r.page("other"), code: 400,
			says: "encrypted for another namespace"},
		"an unknown key": {body: string(unknown), code: 400, says: "unknown encryption key"},
		"no JSON":        {body: "{", code: 400},
		"too much":       {body: strings.Repeat(" ", maxBodyBytes+1), code: 413, says: "exceeds"},
		"encode":         {path: "/encode", code: 404},
		"another method": {method: "GET", code: 405},
	} {
		t.Run(name, func(t *testing.T) {
			if c.method == "" {
				c.method = "POST"
			}
			if c.path == "" {
				c.path = "/decode"
			}
			if c.body == "" {
				c.body = r.page("ns")
			}
			res, body := r.send(c.method, c.path, c.body, c.headers)
			assert.Equal(t, c.code, res.StatusCode, body)
			assert.Contains(t, body, c.says)
			assert.NotContains(t, body, canary)
			if c.headers["Origin"] != "" {
				assert.Empty(t, res.Header.Get("Access-Control-Allow-Origin"))
			}
		})
	}
	res, _ := r.send("GET", "/healthz", "", map[string]string{"Authorization": "", "Origin": ""})
	assert.Equal(t, http.StatusOK, res.StatusCode)
	assert.Contains(t, r.logged(), "codec refused")
}

// issuer is an OpenID Connect issuer with one key.
type issuer struct {
	*httptest.Server
	t      *testing.T
	signer jose.Signer
}

func newIssuer(t *testing.T) *issuer {
	t.Helper()
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	require.NoError(t, err)
	i := &issuer{t: t}
	i.signer, err = jose.NewSigner(jose.SigningKey{Algorithm: jose.RS256, Key: jose.JSONWebKey{Key: key, KeyID: "k"}}, nil)
	require.NoError(t, err)
	mux := http.NewServeMux()
	mux.HandleFunc("/.well-known/openid-configuration", func(w http.ResponseWriter, _ *http.Request) {
		fmt.Fprintf(w, `{"issuer":%q,"jwks_uri":%q,"id_token_signing_alg_values_supported":["RS256"]}`, i.URL, i.URL+"/keys")
	})
	mux.HandleFunc("/keys", func(w http.ResponseWriter, _ *http.Request) {
		_ = json.NewEncoder(w).Encode(jose.JSONWebKeySet{ // a lost answer fails the test's request
			Keys: []jose.JSONWebKey{{Key: key.Public(), KeyID: "k", Algorithm: "RS256", Use: "sig"}}})
	})
	i.Server = httptest.NewServer(mux)
	t.Cleanup(i.Close)
	return i
}

func (i *issuer) token(claims map[string]any) string {
	i.t.Helper()
	all := map[string]any{"iss": i.URL, "aud": "ui", "sub": "u1", "exp": time.Now().Add(time.Hour).Unix()}
	for k, v := range claims {
		all[k] = v
	}
	b, err := json.Marshal(all)
	require.NoError(i.t, err)
	signed, err := i.signer.Sign(b)
	require.NoError(i.t, err)
	raw, err := signed.CompactSerialize()
	require.NoError(i.t, err)
	return raw
}

func TestUsersOfAnIssuer(t *testing.T) {
	i, stranger := newIssuer(t), newIssuer(t)
	r := serve(t, func(o *Options) {
		o.Auth = Auth{Issuer: i.URL, Audience: "ui", Allow: []string{"*@corp.example", "ann@other.example", "robot"}}
	})
	mail := func(address string, verified bool) map[string]any {
		return map[string]any{"email": address, "email_verified": verified}
	}
	for name, c := range map[string]struct {
		token string
		code  int
	}{
		"of the domain":       {i.token(mail("Bob@Corp.example", true)), 200},
		"of the list":         {i.token(mail("ann@other.example", true)), 200},
		"a subject":           {i.token(map[string]any{"sub": "robot"}), 200},
		"not verified":        {i.token(mail("bob@corp.example", false)), 401},
		"another domain":      {i.token(mail("bob@notcorp.example", true)), 401},
		"a domain in front":   {i.token(mail("bob@corp.example@evil.example", true)), 401},
		"a subject as mail":   {i.token(map[string]any{"sub": "ann@other.example"}), 401},
		"another audience":    {i.token(map[string]any{"sub": "robot", "aud": "other"}), 401},
		"expired":             {i.token(map[string]any{"sub": "robot", "exp": time.Now().Add(-time.Hour).Unix()}), 401},
		"another issuer":      {stranger.token(map[string]any{"sub": "robot"}), 401},
		"another's signature": {stranger.token(map[string]any{"sub": "robot", "iss": i.URL}), 401},
	} {
		t.Run(name, func(t *testing.T) {
			res, body := r.send("POST", "/decode", r.page("ns"), map[string]string{"Authorization": "Bearer " + c.token})
			assert.Equal(t, c.code, res.StatusCode, body)
			res, body = r.send("POST", "/decode", r.page("ns"), map[string]string{"Authorization": "Bearer opaque",
				"Authorization-Extras": c.token})
			assert.Equal(t, c.code, res.StatusCode, "as the Web UI sends the ID token: %s", body)
		})
	}
	assert.Contains(t, r.logged(), "who=Bob@Corp.example")
}

func TestAServerThatEveryoneCouldUseDoesNotStart(t *testing.T) {
	o := Options{Keys: codectest.Keys(t), Namespace: "ns", Log: slog.New(slog.DiscardHandler)}
	_, err := Handler(t.Context(), o)
	require.ErrorContains(t, err, "codec_server.token")
	o.Auth.Anyone = true
	l, err := net.Listen("tcp", "0.0.0.0:0")
	require.NoError(t, err)
	defer l.Close()
	require.ErrorContains(t, Serve(t.Context(), l, o), "127.0.0.1")

	local, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- Serve(ctx, local, o) }()
	res, err := http.Get("http://" + local.Addr().String() + "/healthz")
	require.NoError(t, err)
	res.Body.Close()
	cancel()
	require.NoError(t, <-done)
}
