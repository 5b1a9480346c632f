package mcp

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/modelcontextprotocol/go-sdk/auth"
	"golang.org/x/oauth2"
	"golang.org/x/oauth2/clientcredentials"

	"github.com/everturn/everturn/activities/mcp/netguard"
	"github.com/everturn/everturn/internal/redact"
)

// Bounds on access tokens.
const (
	tokenWithin           = 20 * time.Second // for one token request
	tokenLife             = time.Minute      // a token is used at least this long: see current for the exception
	tokenRate, tokenBurst = 0.1, 10          // token requests per second, and at once
)

// tokens gets access tokens with client credentials (RFC 6749, 4.4), and keeps the current one.
type tokens struct {
	config  *clientcredentials.Config
	client  *http.Client
	issued  *issued
	gate    chan struct{} // capacity 1; its holder may read and replace the token
	token   *oauth2.Token
	since   time.Time // when the token was issued
	limiter bucket    // limits the rate of token requests

	useless atomic.Pointer[oauth2.Token] // the last token that replaced a refused one and was refused, too
}

// issued holds the most recent access tokens of a server, which must be redacted in what that server says. An
// authorization server chooses its tokens, so a token is no secret elsewhere: it could be a name that other servers
// use.
type issued struct {
	redact redactor
	mu     sync.Mutex
	past   []string
}

// Bounds on the tokens that are redacted from what a server says. Older tokens have expired.
const (
	maxPastTokens     = 16
	maxPastTokenBytes = 32 << 10
)

// newTokens returns a source of access tokens for a server with client credentials. Token requests follow no redirects,
// and have a guard of their own, for the token URL and the server's networks.
func newTokens(s Server, redact redactor) (*tokens, error) {
	g, err := netguard.New(s.OAuth.TokenURL, s.Networks)
	if err != nil {
		return nil, fmt.Errorf("MCP server %q: its token URL %w", s.ID, err)
	}
	transport := g.Transport()
	transport.DisableKeepAlives = true // a request every hour or so
	return &tokens{
		issued: &issued{redact: redact}, gate: make(chan struct{}, 1), limiter: newBucket(tokenRate, tokenBurst),
		config: &clientcredentials.Config{
			ClientID: s.OAuth.ClientID, ClientSecret: s.OAuth.ClientSecret, TokenURL: s.OAuth.TokenURL, Scopes: s.OAuth.Scopes,
		},
		client: &http.Client{Transport: transport, CheckRedirect: func(*http.Request, []*http.Request) error {
			return errors.New("a token endpoint that redirects is not followed: configure the address that it leads to")
		}},
	}, nil
}

// bearer adds an access token to requests. If the server refuses the token, bearer gets a new one and sends the request
// once more: a server does not act on a request that it answers with 401 (RFC 9110, 15.5.2). If the server refuses the
// new token, too, further requests are sent once, with that token, for tokenLife.
type bearer struct {
	base   http.RoundTripper
	tokens *tokens
}

// RoundTrip implements http.RoundTripper. It returns the response with status 401 if the request cannot be sent once
// more, or if there is no new token.
func (b *bearer) RoundTrip(req *http.Request) (*http.Response, error) {
	token, err := b.tokens.current(req.Context(), nil) // nil: no token was refused yet
	if err != nil {
		closeBody(req)
		return nil, err
	}
	resp, err := b.base.RoundTrip(authorised(req, token))
	if err != nil || resp.StatusCode != http.StatusUnauthorized {
		return resp, err
	}
	again, ok := replay(req)
	if !ok { // the body cannot be sent a second time
		return resp, nil
	}
	if token, err = b.tokens.current(req.Context(), token); err != nil {
		closeBody(again)
		return resp, nil // resp says that the token was refused
	}
	_ = resp.Body.Close()
	resp, err = b.base.RoundTrip(authorised(again, token))
	if err == nil && resp.StatusCode == http.StatusUnauthorized {
		b.tokens.useless.Store(token)
	}
	return resp, err
}

// current returns the access token to use now. It requests a new one if there is none, if the last one has expired, or
// if the server has refused the last one: refused is the token that the caller saw refused; nil: none. Only one caller
// at a time requests a token. current fails at once if the limiter allows no more requests, or if the refused token is
// younger than tokenLife and has replaced another refused one: the reason is then probably not the token.
func (t *tokens) current(ctx context.Context, refused *oauth2.Token) (*oauth2.Token, error) {
	select {
	case t.gate <- struct{}{}:
		defer func() { <-t.gate }()
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	// Before the first token, t.token and refused are both nil, so they are equal. A token counts as valid for at least
	// tokenLife, whatever expiry the endpoint gave it.
	if t.token != refused && (t.token.Valid() || time.Since(t.since) < tokenLife) {
		return t.token, nil
	}
	if refused != nil && refused == t.useless.Load() && time.Since(t.since) < tokenLife {
		return nil, errors.New("asking for an access token: the server has refused a new one")
	}
	if !t.limiter.take(time.Now(), 1) {
		return nil, errors.New("asking for an access token: too many were needed in a short time")
	}
	// The request has none of ctx's values, so that it does not join ctx's trace.
	own, cancel := context.WithTimeout(context.Background(), tokenWithin) // but it ends with ctx: see AfterFunc
	defer cancel()
	defer context.AfterFunc(ctx, cancel)()
	token, err := t.config.Token(context.WithValue(own, oauth2.HTTPClient, t.client))
	if err != nil { // the error may quote the endpoint's response, which may quote the request
		return nil, fmt.Errorf("asking for an access token: %s", t.issued.redact.line(err.Error(), 400))
	}
	if err := t.issued.remember(token.AccessToken, token.RefreshToken); err != nil {
		return nil, fmt.Errorf("asking for an access token: %w", err)
	}
	t.token, t.since = token, time.Now()
	return token, nil
}

// remember adds issued tokens to the server's own redactor; empty ones do not count. It keeps the tokens that were
// issued last, at most maxPastTokens and maxPastTokenBytes of them, and removes older ones from the redactor. If a
// token is too long to be redacted, it adds none and returns an error: such a token must not be sent.
func (i *issued) remember(tokens ...string) error {
	for _, t := range tokens {
		if len(t) > redact.MaxSecret {
			return fmt.Errorf("the token is %d bytes; the maximum is %d", len(t), redact.MaxSecret)
		}
	}
	i.mu.Lock()
	defer i.mu.Unlock()
	for _, t := range tokens {
		if t == "" {
			continue
		}
		if at := slices.Index(i.past, t); at >= 0 { // issued again: it is now the newest
			i.past = slices.Delete(i.past, at, at+1)
		} else {
			i.redact.own.Add(spellings(t)...)
		}
		i.past = append(i.past, t)
	}
	over, size := len(i.past), 0 // past[over:] stays, with size bytes
	for over > 0 && len(i.past)-over < maxPastTokens && size+len(i.past[over-1]) <= maxPastTokenBytes {
		over--
		size += len(i.past[over])
	}
	for _, t := range i.past[:over] {
		i.redact.own.Remove(spellings(t)...)
	}
	i.past = slices.Delete(i.past, 0, over)
	return nil
}

// authorised returns a copy of the request with the access token.
func authorised(req *http.Request, token *oauth2.Token) *http.Request {
	req = req.Clone(req.Context())
	token.SetAuthHeader(req)
	return req
}

// replay returns a copy of the request to send again; false if its body cannot be read again.
func replay(req *http.Request) (*http.Request, bool) {
	again := req.Clone(req.Context())
	switch {
	case req.Body == nil || req.Body == http.NoBody:
		return again, true
	case req.GetBody == nil:
		return nil, false
	}
	body, err := req.GetBody()
	again.Body = body
	return again, err == nil
}

// closeBody closes the body of a request that is not sent, as http.RoundTripper requires.
func closeBody(req *http.Request) {
	if req.Body != nil {
		_ = req.Body.Close()
	}
}

// Login obtains access tokens for one server in a way that the host does not know, such as a user's consent in a
// browser (OAuth's authorization code). It is for programs that embed the host; configured servers have client
// credentials or headers. The host's guard does not check the addresses that a Login's own requests go to.
type Login interface {
	// Token returns the access token to send with the next request; empty if there is none.
	Token(ctx context.Context) (string, error)
	// Renew is called when the server answered a request with 401 or 403. resp.Request and the headers of resp describe
	// the request and the refusal; Renew must not read the body. If it returns nil, the request is sent once more, with
	// the token that Token returns then.
	Renew(ctx context.Context, resp *http.Response) error
}

// checkLogin refuses a login for a server that is not reached over streamable HTTP, which would never use the login,
// and a login together with client credentials.
func (s Server) checkLogin() error {
	switch {
	case s.Login == nil:
		return nil
	case s.Transport != TransportHTTP:
		return fmt.Errorf("MCP server %q: a login is for servers over http, not over %s", s.ID, s.Transport)
	case s.OAuth.TokenURL != "":
		return fmt.Errorf("MCP server %q: it has a login and client credentials: take one of them away", s.ID)
	}
	return nil
}

// loginHandler passes a Login to the SDK. If the server refuses a request, the SDK calls Authorize and then sends the
// request once more.
type loginHandler struct {
	login  Login
	issued *issued
}

var _ auth.OAuthHandler = loginHandler{}

// TokenSource implements auth.OAuthHandler. It returns nil if there is no token.
func (h loginHandler) TokenSource(ctx context.Context) (oauth2.TokenSource, error) {
	token, err := h.login.Token(ctx)
	if err != nil || token == "" {
		return nil, err
	}
	if err := h.issued.remember(token); err != nil {
		return nil, fmt.Errorf("the login of the MCP server: %w", err)
	}
	return oauth2.StaticTokenSource(&oauth2.Token{AccessToken: token}), nil
}

// Authorize implements auth.OAuthHandler: it renews the login after the server has refused req with resp. It fails if
// the request is a call that the server redirected before it refused it: the server may have acted on the call.
func (h loginHandler) Authorize(ctx context.Context, req *http.Request, resp *http.Response) error {
	_, _ = io.Copy(io.Discard, io.LimitReader(resp.Body, 64<<10)) // so that the connection can be reused
	_ = resp.Body.Close()
	if state := callStateOf(ctx); state != nil && state.refused.Load() == nil {
		return fmt.Errorf("the server redirected the call and then refused it with HTTP %d", resp.StatusCode)
	}
	resp.Request = req
	return h.login.Renew(ctx, resp)
}
