package httpapi

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync/atomic"
	"time"

	lru "github.com/hashicorp/golang-lru/v2"
	"go.opentelemetry.io/otel/propagation"
	"golang.org/x/time/rate"

	"github.com/everturn/everturn/client"
	"github.com/everturn/everturn/config"
)

// maxCallers is how many callers' use is remembered; a caller that is forgotten starts anew.
const maxCallers = 10_000

// callers counts what each principal uses.
type callers struct {
	limits config.HTTP
	list   *lru.Cache[string, *caller]
}

// caller is the use of one principal of a tenant.
type caller struct {
	requests *rate.Limiter
	streams  atomic.Int64
}

func newCallers(limits config.HTTP) *callers {
	list, err := lru.New[string, *caller](maxCallers)
	if err != nil {
		panic(err) // only of a size that is not positive
	}
	return &callers{limits, list}
}

// of returns the use of a token's principal.
func (c *callers) of(t client.Token) *caller {
	key := t.Tenant + "\x00" + t.Principal
	fresh := &caller{requests: rate.NewLimiter(rate.Limit(c.limits.RequestsPerSecond), 2*c.limits.RequestsPerSecond)}
	if known, found, _ := c.list.PeekOrAdd(key, fresh); found {
		c.list.Get(key) // it is in use
		return known
	}
	return fresh
}

// authorize checks that the caller may use a route now, and sets the call's token and client.
func (s *Server) authorize(c *call, rt route) error {
	if rt.right == "" {
		c.Client = s.Client
		return nil
	}
	token, err := s.authenticate(c.r)
	if err != nil {
		return err
	}
	c.token = token
	if !token.Allows(rt.right) {
		return &problem{status: http.StatusForbidden, kind: kindForbidden, code: "right_missing", message: fmt.Sprintf(
			"this token does not have the right %q: see `everturn tokens`", rt.right)}
	}
	if !s.callers.of(token).requests.Allow() {
		return &problem{status: http.StatusTooManyRequests, kind: kindTooMany, code: "rate_limited", retryAfter: 1,
			message: fmt.Sprintf("%s sends more than %d requests per second: see http.requests_per_second", token.Principal,
				s.Config.HTTP.RequestsPerSecond)}
	}
	c.Client = s.Client.OfTenant(token.Tenant)
	c.r = c.r.WithContext(propagation.TraceContext{}.Extract(c.r.Context(), propagation.HeaderCarrier(c.r.Header)))
	return nil
}

// authenticate returns the token of a request: that of the header or, for the web page, of the cookie.
func (s *Server) authenticate(r *http.Request) (client.Token, error) {
	scheme, secret, ok := strings.Cut(r.Header.Get("Authorization"), " ")
	if !ok {
		var err error
		if secret, err = s.cookie(r); err != nil {
			return client.Token{}, err
		}
	} else if !strings.EqualFold(scheme, "bearer") {
		return client.Token{}, noToken
	}
	token, err := client.TokenBySecret(r.Context(), s.Client.Journal(), strings.TrimSpace(secret))
	switch {
	case errors.Is(err, client.ErrNotFound):
		return client.Token{}, unauthenticated("wrong_token", "there is no such token")
	case err != nil:
		return client.Token{}, err
	case !token.Active(time.Now()):
		return client.Token{}, unauthenticated("token_ended", "the token has expired or is revoked")
	}
	return token, nil
}

// noToken is the problem of a request without a token.
var noToken = unauthenticated("no_token",
	"send a token of `everturn tokens create` as the header Authorization: Bearer TOKEN")

func unauthenticated(code, message string) *problem {
	return &problem{status: http.StatusUnauthorized, kind: kindUnauthenticated, code: code, message: message}
}

// openStream counts a stream of the caller until done is called.
func (c *call) openStream() (done context.CancelFunc, err error) {
	use := c.server.callers.of(c.token)
	if limit := int64(c.server.Config.HTTP.Streams); use.streams.Add(1) > limit {
		use.streams.Add(-1)
		return nil, &problem{status: http.StatusTooManyRequests, kind: kindTooMany, code: "too_many_streams", retryAfter: 5,
			message: fmt.Sprintf("%s has %d open streams: see http.streams", c.token.Principal, limit)}
	}
	return func() { use.streams.Add(-1) }, nil
}
