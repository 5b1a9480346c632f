package toolbox

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"sync"
	"time"

	"golang.org/x/oauth2"
	"golang.org/x/oauth2/clientcredentials"

	"github.com/everturn/everturn/internal/redact"
)

// Bounds on access tokens. Each new one is a secret that every redactor learns.
const (
	tokenWithin           = 20 * time.Second // for a request
	tokenLife             = time.Minute      // a token is used that long, unless the server refuses it
	tokenRate, tokenBurst = 0.1, 10          // requests a second, and at once
)

// tokens gets access tokens by client credentials (RFC 6749, 4.4), and keeps the one that is good.
type tokens struct {
	config *clientcredentials.Config
	client *http.Client
	issued *issued
	gate   chan struct{} // of one: who holds it may look at the token and replace it
	token  *oauth2.Token
	since  time.Time // when the token was issued
	asked  bucket    // requests for tokens
}

// issued holds the most recent access tokens, which must be redacted.
type issued struct {
	redact redactor
	mu     sync.Mutex
	past   []string
}

// Bounds on the tokens that are looked for in what a server says: they expire.
const (
	maxPastTokens     = 16
	maxPastTokenBytes = 32 << 10
)

// newTokens asks for tokens under a guard of its own, made from the same networks.
func newTokens(s Server, redact redactor) (*tokens, error) {
	g, err := guardOf(s.OAuth.TokenURL, s.Networks)
	if err != nil {
		return nil, fmt.Errorf("MCP server %q: its token URL %w", s.ID, err)
	}
	transport := g.transport()
	transport.DisableKeepAlives = true // once an hour or so
	return &tokens{
		issued: &issued{redact: redact}, gate: make(chan struct{}, 1), asked: newBucket(tokenRate, tokenBurst),
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
	if t.token != refused && (t.token.Valid() || time.Since(t.since) < tokenLife) {
		return t.token, nil
	}
	if !t.asked.take(time.Now(), 1) {
		return nil, errors.New("asking for an access token: too many were needed in a short time")
	}
	own, cancel := detached(ctx, tokenWithin)
	defer cancel()
	token, err := t.config.Token(context.WithValue(own, oauth2.HTTPClient, t.client))
	if err != nil { // it may quote what the endpoint said, and that what it was sent
		return nil, fmt.Errorf("asking for an access token: %s", t.issued.redact.line(err.Error(), 400))
	}
	if longest := max(len(token.AccessToken), len(token.RefreshToken)); longest > redact.MaxSecret {
		return nil, fmt.Errorf("asking for an access token: the token is %d bytes; the maximum is %d", longest, redact.MaxSecret)
	}
	t.issued.remember(token.AccessToken, token.RefreshToken)
	t.token, t.since = token, time.Now()
	return token, nil
}

// remember makes tokens known to the redactor, and has it forget the oldest if there are many.
func (i *issued) remember(tokens ...string) {
	i.mu.Lock()
	defer i.mu.Unlock()
	for _, t := range tokens {
		if t == "" || slices.Contains(i.past, t) {
			continue
		}
		i.redact.learn(t)
		i.past = append(i.past, t)
	}
	over, size := len(i.past), 0
	for over > 0 && len(i.past)-over < maxPastTokens && size+len(i.past[over-1]) <= maxPastTokenBytes {
		over--
		size += len(i.past[over])
	}
	i.redact.unlearn(i.past[:over]...)
	i.past = slices.Delete(i.past, 0, over)
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
