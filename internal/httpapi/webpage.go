package httpapi

import (
	"net/http"
	"strings"

	"github.com/everturn/everturn/client"
	"github.com/everturn/everturn/config"
	"github.com/everturn/everturn/internal/httpapi/page"
)

// secure reports whether users reach the server by TLS, its own or that of a proxy.
func secure(o config.HTTP) bool { return o.TLSCert != "" || strings.HasPrefix(o.PublicURL, "https://") }

// SignInURL returns the address of the page that signs in with a link. listen is the address of the server, which
// counts if the configuration has no public URL.
func SignInURL(o config.HTTP, listen, secret string) string {
	base := strings.TrimSuffix(o.PublicURL, "/")
	switch {
	case base != "":
	case o.TLSCert != "":
		base = "https://" + listen
	default:
		base = "http://" + listen
	}
	return base + page.LinkPath(secret)
}

// registerPage adds the web page to mux.
func (s *Server) registerPage(mux *http.ServeMux) error {
	return page.Register(mux, page.Options{Any: s.Client, Agents: agentNames(s.Config), Log: s.Log,
		Secure: secure(s.Config.HTTP),
		Caller: func(r *http.Request) (client.Token, *client.Client, error) {
			c := &call{server: s, r: r}
			err := s.authorize(c, route{right: read})
			return c.token, c.Client, err
		}})
}

// cookie returns the secret of a request of the web page.
func (s *Server) cookie(r *http.Request) (string, error) {
	secret := page.Secret(r, secure(s.Config.HTTP))
	switch {
	case secret == "":
		return "", noToken
	case !page.SameOrigin(r):
		return "", crossOrigin
	}
	return secret, nil
}

// crossOrigin is the problem of a request that a page of another origin has sent.
var crossOrigin = &problem{status: http.StatusForbidden, kind: kindForbidden, code: "cross_origin",
	message: "a page of another origin may not do this: name its origin in http.allowed_origins"}

// agentNames returns the IDs of the agents of a configuration, the default one first.
func agentNames(cfg config.Config) (names []string) {
	for _, a := range cfg.AllAgents() {
		names = append(names, a.ID)
	}
	return names
}

// Status returns the HTTP status, for the web page.
func (p *problem) Status() int { return p.status }
