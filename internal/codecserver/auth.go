package codecserver

import (
	"cmp"
	"context"
	"crypto/subtle"
	"errors"
	"fmt"
	"net/http"
	"strings"

	"github.com/coreos/go-oidc/v3/oidc"
)

// Auth configures which callers may use the server. A caller with Token or with an accepted token of Issuer may.
type Auth struct {
	// Token is a bearer token that the server accepts; empty means none.
	Token string
	// Issuer is the URL of an OpenID Connect issuer whose tokens for Audience the server accepts, if Allow lists their
	// users: by verified email address, *@domain or subject, or all of them by *.
	Issuer, Audience string
	Allow            []string
	// Anyone lets every caller in. It is only for a server on a loopback address.
	Anyone bool
}

// verify checks the credentials of a request. It returns a name of the caller for the log, or an error.
type verify func(*http.Request) (who string, err error)

var errNoToken = errors.New("no bearer token")

// verifier returns the function that checks requests. If there is an issuer, verifier fetches its configuration
// first.
func (a Auth) verifier(ctx context.Context) (verify, error) {
	var tokens *oidc.IDTokenVerifier
	switch {
	case a.Issuer != "":
		provider, err := oidc.NewProvider(ctx, a.Issuer)
		if err != nil {
			return nil, fmt.Errorf("reading the configuration of the OpenID Connect issuer: %w", err)
		}
		tokens = provider.Verifier(&oidc.Config{ClientID: a.Audience})
	case a.Token == "" && !a.Anyone:
		return nil, errors.New("everyone could decrypt: set codec_server.token or codec_server.oidc_issuer")
	}
	return func(r *http.Request) (string, error) {
		if a.Anyone {
			return "anyone", nil
		}
		sent := bearerTokens(r)
		for _, token := range sent {
			if a.Token != "" && subtle.ConstantTimeCompare([]byte(token), []byte(a.Token)) == 1 {
				return "token", nil
			}
		}
		err := errNoToken
		for _, token := range sent {
			err = errors.New("the token is wrong")
			if tokens == nil { // there is no issuer
				continue
			}
			var who string
			if who, err = a.user(r.Context(), tokens, token); err == nil {
				return who, nil
			}
		}
		return "", err
	}, nil
}

// bearerTokens returns the tokens of a request, ID tokens first. The Web UI sends its user's access token in
// Authorization, and in Authorization-Extras the ID token, which names the user.
func bearerTokens(r *http.Request) (list []string) {
	if extra := r.Header.Get("Authorization-Extras"); extra != "" {
		list = append(list, extra)
	}
	if scheme, token, ok := strings.Cut(r.Header.Get("Authorization"), " "); ok && strings.EqualFold(scheme, "bearer") {
		list = append(list, token)
	}
	return list
}

// user verifies a token of the issuer and returns its user's email address or subject. The error says why the token
// is not accepted, for instance because Allow does not list the user.
func (a Auth) user(ctx context.Context, tokens *oidc.IDTokenVerifier, raw string) (string, error) {
	token, err := tokens.Verify(ctx, raw)
	if err != nil {
		return "", err
	}
	var claims struct {
		Email    string `json:"email"`
		Verified bool   `json:"email_verified"`
	}
	if err := token.Claims(&claims); err != nil {
		return "", fmt.Errorf("reading the token's claims: %w", err)
	}
	if !claims.Verified {
		claims.Email = ""
	}
	who := cmp.Or(claims.Email, token.Subject)
	for _, pattern := range a.Allow {
		// Users of some issuers choose their subject, which may look like an address: it matches no pattern with @.
		if pattern == "*" || pattern == token.Subject && !strings.Contains(pattern, "@") ||
			claims.Email != "" && matchesEmail(pattern, claims.Email) {
			return who, nil
		}
	}
	return "", fmt.Errorf("%s is not in codec_server.oidc_allow", who)
}

// matchesEmail reports whether a pattern, an email address or *@domain, matches an address. It ignores case.
func matchesEmail(pattern, address string) bool {
	domain, any := strings.CutPrefix(pattern, "*@")
	if !any {
		return strings.EqualFold(pattern, address)
	}
	at := strings.LastIndexByte(address, '@')
	return at > 0 && strings.EqualFold(address[at+1:], domain)
}
