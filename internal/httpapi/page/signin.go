package page

import (
	"errors"
	"net"
	"net/http"
	"net/url"
	"time"

	"github.com/everturn/everturn/client"
)

// signedInFor is how long a browser stays signed in.
const signedInFor = 30 * 24 * time.Hour

// LinkPath returns the path of the page that signs in with a link.
func LinkPath(secret string) string { return "/sign-in/" + secret }

// cookieName returns the name of the sign-in cookie. Browsers send cookies to all ports of a host, and several servers
// may run on one, so the name has the port. With TLS, the prefix keeps other hosts of the domain from setting it.
func cookieName(r *http.Request, secure bool) string {
	name := "everturn"
	if _, port, err := net.SplitHostPort(r.Host); err == nil {
		name += "-" + port
	}
	if secure {
		return "__Host-" + name
	}
	return name
}

// Secret returns the token's secret in a request's sign-in cookie; "" if there is none. secure is Options.Secure.
func Secret(r *http.Request, secure bool) string {
	c, err := r.Cookie(cookieName(r, secure))
	if err != nil {
		return ""
	}
	return c.Value
}

// SameOrigin reports whether a request with the cookie comes from a page of this server or, as an address that was
// typed, from the user. A page of another port of this host is of the same site, and gets the cookie, but it is of
// another origin.
func SameOrigin(r *http.Request) bool {
	if origin := r.Header.Get("Origin"); origin != "" {
		u, err := url.Parse(origin)
		return err == nil && u.Host == r.Host
	}
	switch r.Header.Get("Sec-Fetch-Site") {
	case "", "same-origin", "none":
		return true
	}
	return r.Method == http.MethodGet && r.Header.Get("Sec-Fetch-Dest") == "document" // a link was followed
}

// signIn is the page of a link.
type signIn struct {
	head
	Link   client.Token
	Rights []string
}

// link returns the link that the path names, if it can be spent.
func (v *visit) link() (client.Token, error) {
	link, err := client.LinkBySecret(v.r.Context(), v.Any.Journal(), v.r.PathValue("link"))
	if err == nil && !link.Active(v.now) {
		err = client.ErrNotFound
	}
	return link, err
}

// showLink asks whether to spend a link. Programs that look at links before users do, do not spend it.
func (v *visit) showLink() error {
	link, err := v.link()
	switch {
	case errors.Is(err, client.ErrNotFound):
		return v.linkEnded()
	case err != nil:
		return err
	}
	p := signIn{head: v.head("Sign in"), Link: link}
	for _, r := range link.Rights {
		p.Rights = append(p.Rights, string(r))
	}
	return v.render(http.StatusOK, "signin.html", p)
}

func (v *visit) linkEnded() error {
	return v.render(http.StatusGone, "plain.html", plain{head: v.head("Link used or expired"),
		Heading: "This link no longer works", Command: "everturn tokens link",
		Text: "It was used already, or it is older than 10 minutes. Print a new one where the server runs:"})
}

// spendLink exchanges a link for the cookie.
func (v *visit) spendLink() error {
	_, secret, err := client.SpendLink(v.r.Context(), v.Any.Journal(), v.r.PathValue("link"), signedInFor)
	switch {
	case errors.Is(err, client.ErrNotFound):
		return v.linkEnded()
	case err != nil:
		return err
	}
	v.setCookie(secret, int(signedInFor/time.Second))
	http.Redirect(v.w, v.r, "/", http.StatusSeeOther)
	return nil
}

// signOut revokes the cookie's token.
func (v *visit) signOut() error {
	token, err := client.TokenBySecret(v.r.Context(), v.Any.Journal(), Secret(v.r, v.Secure))
	if err == nil {
		err = v.Any.OfTenant(token.Tenant).Journal().RevokeToken(v.r.Context(), token.ID)
	}
	if err != nil && !errors.Is(err, client.ErrNotFound) {
		return err
	}
	v.setCookie("", -1)
	return v.render(http.StatusOK, "plain.html", plain{head: v.head("Signed out"), Heading: "You are signed out",
		Text:    "This browser's token is revoked. To sign in again, print a one-time link where the server runs:",
		Command: "everturn tokens link"})
}

func (v *visit) setCookie(secret string, maxAge int) {
	http.SetCookie(v.w, &http.Cookie{Name: cookieName(v.r, v.Secure), Value: secret, Path: "/", MaxAge: maxAge,
		HttpOnly: true, SameSite: http.SameSiteStrictMode, Secure: v.Secure})
}
