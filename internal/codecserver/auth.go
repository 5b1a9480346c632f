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

// Auth decides who may use the server.
type Auth struct {
	// Token is a bearer token; empty means none.
	Token string
	// Issuer, Audience and Allow accept the OpenID Connect tokens of an issuer. Allow are verified email addresses,
	// *@domain, subjects, or *.
	Issuer, Audience string
	Allow            []string
	// Anyone lets every caller in. It is for a server that only this machine reaches.
	Anyone bool
}

// verify returns the name of the caller, or an error.
type verify func(*http.Request) (who string, err error)

var errNoToken = errors.New("no bearer token")

// verifier reads the issuer's configuration, if there is an issuer.
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
		sent := bearers(r)
		for _, token := range sent {
			if a.Token != "" && subtle.ConstantTimeCompare([]byte(token), []byte(a.Token)) == 1 {
				return "token", nil
			}
		}
		err := errNoToken
		for _, token := range sent {
			if err = errors.New("the token is wrong"); tokens == nil {
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

// bearers returns the tokens of a request. The Web UI sends its user's access token in Authorization, and the ID token,
// which says who the user is, in Authorization-Extras.
func bearers(r *http.Request) (list []string) {
	if extra := r.Header.Get("Authorization-Extras"); extra != "" {
		list = append(list, extra)
	}
	if scheme, token, ok := strings.Cut(r.Header.Get("Authorization"), " "); ok && strings.EqualFold(scheme, "bearer") {
		list = append(list, token)
	}
	return list
}

// user returns the user of a token of the issuer, if the user may decrypt.
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
		if pattern == "*" || pattern == token.Subject && !strings.Contains(pattern, "@") ||
			claims.Email != "" && ofAddress(pattern, claims.Email) {
			return who, nil
		}
	}
	return "", fmt.Errorf("%s is not in codec_server.oidc_allow", who)
}

// ofAddress reports whether a pattern, an address or *@domain, matches an address. A subject that looks like an address
// matches none: users of some issuers choose it.
func ofAddress(pattern, address string) bool {
	domain, any := strings.CutPrefix(pattern, "*@")
	if !any {
		return strings.EqualFold(pattern, address)
	}
	at := strings.LastIndexByte(address, '@')
	return at > 0 && strings.EqualFold(address[at+1:], domain)
}
