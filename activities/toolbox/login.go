package toolbox

import (
	"context"
	"fmt"
	"io"
	"net/http"

	"github.com/modelcontextprotocol/go-sdk/auth"
	"golang.org/x/oauth2"
)

// Login gets access tokens for one server in a way that the host does not know, such as a person's consent in a browser
// (OAuth's authorization code). It is for programs that embed the host; configured servers have client credentials or
// headers. Its requests are its own: the host's guard on addresses does not look at them.
type Login interface {
	// Token is the access token to send with the next request; empty where there is none.
	Token(ctx context.Context) (string, error)
	// Renew is told that the server answered a request with 401 or 403; resp.Request and the headers of resp say for what and
	// why, its body is not to be read. Where it returns nil, the request is sent once more, with the token that there is then.
	Renew(ctx context.Context, resp *http.Response) error
}

// checkLogin refuses a login where nobody would ask for it.
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

// loginHandler makes a Login known to the SDK, which keeps the order of refusal, renewal and the one repetition.
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
	_, _ = io.Copy(io.Discard, io.LimitReader(resp.Body, 64<<10)) // so that the connection can be used again
	_ = resp.Body.Close()
	resp.Request = req
	return h.login.Renew(ctx, resp)
}
