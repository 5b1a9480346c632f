package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"

	"github.com/modelcontextprotocol/go-sdk/auth"
	"github.com/modelcontextprotocol/go-sdk/oauthex"
)

// callback is the address to which the authorization server redirects the browser at the end. Nothing listens there:
// only the address of the redirect is needed.
const callback = "http://localhost:3000/callback"

// clientDocument is the URL of the client's metadata document, which the suite knows.
const clientDocument = "https://conformance-test.local/client-metadata.json"

// login consents to everything at once: it is the authorization code flow of the SDK, whose browser is a single
// request.
type login struct {
	handler *auth.AuthorizationCodeHandler
}

func newLogin(f facts) (login, error) {
	config := &auth.AuthorizationCodeHandlerConfig{
		RedirectURL: callback, AuthorizationCodeFetcher: consent, RequestRefreshToken: true,
		ClientIDMetadataDocumentConfig: &auth.ClientIDMetadataDocumentConfig{URL: clientDocument},
		DynamicClientRegistrationConfig: &auth.DynamicClientRegistrationConfig{
			Metadata: &oauthex.ClientRegistrationMetadata{RedirectURIs: []string{callback}},
		},
	}
	if f.ClientSecret != "" {
		config.PreregisteredClient = &oauthex.ClientCredentials{
			ClientID: f.ClientID, ClientSecretAuth: &oauthex.ClientSecretAuth{ClientSecret: f.ClientSecret},
		}
	}
	handler, err := auth.NewAuthorizationCodeHandler(config)
	if err != nil {
		return login{}, fmt.Errorf("preparing the login: %w", err)
	}
	return login{handler}, nil
}

// Token implements mcp.Login.
func (l login) Token(ctx context.Context) (string, error) {
	source, err := l.handler.TokenSource(ctx)
	if err != nil || source == nil {
		return "", err
	}
	token, err := source.Token()
	if err != nil {
		return "", err
	}
	return token.AccessToken, nil
}

// Renew implements mcp.Login.
func (l login) Renew(ctx context.Context, resp *http.Response) error {
	return l.handler.Authorize(ctx, resp.Request, resp)
}

// consent requests the page on which a user would agree; the suite's servers agree by themselves and redirect.
func consent(ctx context.Context, args *auth.AuthorizationArgs) (*auth.AuthorizationResult, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, args.URL, nil)
	if err != nil {
		return nil, fmt.Errorf("asking for consent: %w", err)
	}
	browser := &http.Client{CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	resp, err := browser.Do(req)
	if err != nil {
		return nil, fmt.Errorf("asking for consent: %w", err)
	}
	if err := resp.Body.Close(); err != nil {
		return nil, fmt.Errorf("asking for consent: %w", err)
	}
	back, err := url.Parse(resp.Header.Get("Location"))
	if err != nil || resp.Header.Get("Location") == "" {
		return nil, errors.New("asking for consent: the answer is no redirect")
	}
	q := back.Query()
	return &auth.AuthorizationResult{Code: q.Get("code"), State: q.Get("state"), Iss: q.Get("iss")}, nil
}

// tokenEndpoint looks up the token endpoint, which an operator takes from the documentation of an authorization server.
func tokenEndpoint(ctx context.Context, server string) (string, error) {
	u, err := url.Parse(server)
	if err != nil {
		return "", fmt.Errorf("reading the server's URL: %w", err)
	}
	where := u.Scheme + "://" + u.Host + "/.well-known/oauth-protected-resource" + u.Path
	resource, err := oauthex.GetProtectedResourceMetadata(ctx, where, server, http.DefaultClient)
	if err != nil || len(resource.AuthorizationServers) == 0 {
		return "", errors.Join(errors.New("the server names no authorization server"), err)
	}
	meta, err := auth.GetAuthServerMetadata(ctx, resource.AuthorizationServers[0], http.DefaultClient)
	if err != nil || meta == nil {
		return "", errors.Join(errors.New("the authorization server does not describe itself"), err)
	}
	return meta.TokenEndpoint, nil
}
