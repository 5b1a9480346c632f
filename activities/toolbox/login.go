package toolbox

import (
	"context"
	"fmt"
	"io"
	"net/http"

	"github.com/modelcontextprotocol/go-sdk/auth"
	"golang.org/x/oauth2"
)

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

// checkLogin refuses a login for a server without HTTP, which would never use it, and one beside client credentials.
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

// loginHandler passes a Login to the SDK, which handles the refusal, the renewal and the single repetition.
type loginHandler struct {
	login  Login
	issued *issued
}

var _ auth.OAuthHandler = loginHandler{}

// TokenSource implements auth.OAuthHandler.
func (h loginHandler) TokenSource(ctx context.Context) (oauth2.TokenSource, error) {
	token, err := h.login.Token(ctx)
	if err != nil || token == "" {
		return nil, err
	}
	h.issued.remember(token)
	return oauth2.StaticTokenSource(&oauth2.Token{AccessToken: token}), nil
}

// Authorize implements auth.OAuthHandler.
func (h loginHandler) Authorize(ctx context.Context, req *http.Request, resp *http.Response) error {
	_, _ = io.Copy(io.Discard, io.LimitReader(resp.Body, 64<<10)) // so that the connection can be reused
	_ = resp.Body.Close()
	resp.Request = req
	return h.login.Renew(ctx, resp)
}
