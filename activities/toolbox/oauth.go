package toolbox

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"time"

	"golang.org/x/oauth2"
	"golang.org/x/oauth2/clientcredentials"

	"github.com/everturn/everturn/activities/toolbox/plain"
)

// tokenWithin bounds one request for an access token.
const tokenWithin = 20 * time.Second

// tokens gets access tokens by client credentials (RFC 6749, 4.4), and keeps the one that is good.
type tokens struct {
	config *clientcredentials.Config
	client *http.Client
	redact redactor
	gate   chan struct{} // of one: who holds it may look at the token and replace it
	token  *oauth2.Token
	past   []string // tokens that were given out, the last ones, none of which may be seen
}

// maxPastTokens bounds the tokens that are looked for in what a server says: they expire.
const maxPastTokens = 64

// newTokens asks for tokens under a guard of its own, made from the same networks.
func newTokens(s Server, redact redactor) (*tokens, error) {
	g, err := guardOf(s.OAuth.TokenURL, s.Networks)
	if err != nil {
		return nil, fmt.Errorf("MCP server %q: its token URL %w", s.ID, err)
	}
	transport := g.transport()
	transport.DisableKeepAlives = true // once an hour or so
	return &tokens{
		redact: redact, gate: make(chan struct{}, 1),
		config: &clientcredentials.Config{
			ClientID: s.OAuth.ClientID, ClientSecret: s.OAuth.ClientSecret, TokenURL: s.OAuth.TokenURL, Scopes: s.OAuth.Scopes,
		},
		client: &http.Client{Transport: transport, CheckRedirect: func(*http.Request, []*http.Request) error {
			return errors.New("a token endpoint that redirects is not followed: configure the address that it leads to")
		}},
	}, nil
}

// bearer adds an access token to requests. Where the server does not take the token, a new one is got and the request is
// sent once more: what was answered with 401 was not acted on.
type bearer struct {
	base   http.RoundTripper
	tokens *tokens
}

// RoundTrip implements http.RoundTripper.
func (b *bearer) RoundTrip(req *http.Request) (*http.Response, error) {
	token, err := b.tokens.current(req.Context(), nil)
	if err != nil {
		closeBody(req)
		return nil, err
	}
	resp, err := b.base.RoundTrip(authorised(req, token))
	if err != nil || resp.StatusCode != http.StatusUnauthorized {
		return resp, err
	}
	again, ok := replay(req)
	if !ok {
		return resp, nil
	}
	if token, err = b.tokens.current(req.Context(), token); err != nil {
		closeBody(again)
		return resp, nil // which says that it was refused
	}
	_ = resp.Body.Close()
	return b.base.RoundTrip(authorised(again, token))
}

// current is the token to use now, but not the one that was refused.
func (t *tokens) current(ctx context.Context, refused *oauth2.Token) (*oauth2.Token, error) {
	select {
	case t.gate <- struct{}{}:
		defer func() { <-t.gate }()
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	if t.token.Valid() && t.token != refused {
		return t.token, nil
	}
	own, cancel := detached(ctx, tokenWithin)
	defer cancel()
	token, err := t.config.Token(context.WithValue(own, oauth2.HTTPClient, t.client))
	if err != nil { // it may quote what the endpoint said, and that what it was sent
		return nil, fmt.Errorf("asking for an access token: %s", plain.Line(t.redact.text(err.Error()), 400))
	}
	t.remember(token)
	t.token = token
	return token, nil
}

// remember keeps a token out of sight, and forgets the oldest where there are many.
func (t *tokens) remember(token *oauth2.Token) {
	t.redact.learn(token.AccessToken, token.RefreshToken)
	t.past = append(t.past, token.AccessToken, token.RefreshToken)
	if over := len(t.past) - maxPastTokens; over > 0 {
		t.redact.unlearn(t.past[:over]...)
		t.past = slices.Clone(t.past[over:])
	}
}

// unlearn forgets secrets that are none any more.
func (r redactor) unlearn(values ...string) {
	for _, w := range []*words{r.all, r.secret} {
		if w == nil {
			continue
		}
		w.mu.Lock()
		for _, v := range values {
			for _, form := range formsOf(v) {
				delete(w.forms, form)
			}
		}
		w.mu.Unlock()
		w.add(nil)
	}
}

func authorised(req *http.Request, token *oauth2.Token) *http.Request {
	req = req.Clone(req.Context())
	token.SetAuthHeader(req)
	return req
}

// replay is the request anew; false where its body is gone.
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

func closeBody(req *http.Request) {
	if req.Body != nil {
		_ = req.Body.Close()
	}
}
