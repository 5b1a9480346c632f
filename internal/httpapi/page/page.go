package page

import (
	"bytes"
	"errors"
	"html/template"
	"log/slog"
	"net/http"
	"time"

	"github.com/everturn/everturn/client"
)

// Options configure the page.
type Options struct {
	// Caller returns the token of a request that may read, and the client of the token's tenant. Its error has a method
	// Status with the HTTP status, unless the server failed.
	Caller func(*http.Request) (client.Token, *client.Client, error)
	// Any is the client of any tenant.
	Any    *client.Client
	Agents []string
	Secure bool // users reach the page by TLS
	Log    *slog.Logger
}

// policy is the Content-Security-Policy. The module's only Trusted Types policy parses HTML of this server.
const policy = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; " +
	"form-action 'self'; base-uri 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'; " +
	"trusted-types everturn"

// page serves the web page.
type page struct {
	Options
	templates *template.Template
}

// Register adds the page's routes to mux.
func Register(mux *http.ServeMux, o Options) error {
	a, err := newAssets()
	if err != nil {
		return err
	}
	p := &page{Options: o}
	if p.templates, err = parseTemplates(a); err != nil {
		return err
	}
	mux.Handle("GET /assets/{file}", a)
	mux.Handle("GET /sign-in/{link}", p.public((*visit).showLink))
	mux.Handle("POST /sign-in/{link}", p.public((*visit).spendLink))
	mux.Handle("POST /sign-out", p.public((*visit).signOut))
	mux.Handle("GET /{$}", p.signedIn((*visit).sessions))
	mux.Handle("GET /inbox", p.signedIn((*visit).inbox))
	mux.Handle("GET /s/{session}", p.signedIn((*visit).session))
	return nil
}

// visit is a request for a page.
type visit struct {
	*page
	*client.Client // of the token's tenant; nil before the sign-in
	token          client.Token
	w              http.ResponseWriter
	r              *http.Request
	now            time.Time
}

// public returns the handler of a page that needs no token.
func (p *page) public(serve func(*visit) error) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		h := w.Header()
		h.Set("Content-Security-Policy", policy)
		h.Set("Referrer-Policy", "no-referrer")
		h.Set("Cross-Origin-Opener-Policy", "same-origin")
		v := &visit{page: p, w: w, r: r, now: time.Now()}
		if err := serve(v); err != nil {
			v.fail(err)
		}
	})
}

// signedIn returns the handler of a page for callers with a token.
func (p *page) signedIn(serve func(*visit) error) http.Handler {
	return p.public(func(v *visit) (err error) {
		if v.token, v.Client, err = p.Caller(v.r); err != nil {
			return err
		}
		return serve(v)
	})
}

// render sends a page. It renders all of it first, so that an error is a page of its own.
func (v *visit) render(status int, name string, data any) error {
	var b bytes.Buffer
	if err := v.templates.ExecuteTemplate(&b, name, data); err != nil {
		return err
	}
	v.w.Header().Set("Content-Type", "text/html; charset=utf-8")
	v.w.WriteHeader(status)
	_, _ = b.WriteTo(v.w) // an error means that the browser has left
	return nil
}

// plain is a page that says one thing.
type plain struct {
	head
	Status  int
	Heading string
	Text    string
	Command string // that helps
	Again   bool   // the browser loads the page again at once
	Session string // that was not found
}

// fail sends the page of an error.
func (v *visit) fail(err error) {
	p := plain{head: v.head(""), Status: http.StatusInternalServerError}
	var known interface{ Status() int }
	switch {
	case errors.As(err, &known):
		p.Status = known.Status()
	case errors.Is(err, client.ErrNotFound):
		p.Status = http.StatusNotFound
	case errors.Is(err, client.ErrUnavailable), errors.Is(err, client.ErrUnreachable):
		p.Status = http.StatusServiceUnavailable
	}
	switch p.Status {
	case http.StatusUnauthorized:
		p.Heading, p.Command = "Sign in", "everturn tokens link"
		p.Text = "This browser is not signed in, or its sign-in has ended. Print a one-time link where the server runs:"
		// The cookie does not come with a link that another site has. It comes when this page loads the address again.
		p.Again = v.r.Method == http.MethodGet && v.r.Header.Get("Sec-Fetch-Site") == "cross-site"
	case http.StatusForbidden:
		p.Heading, p.Text = "You may not read here", "Your token lacks the right read, or the request came from another site."
	case http.StatusNotFound:
		p.Heading, p.Session = "No such session", v.r.PathValue("session")
	case http.StatusTooManyRequests:
		p.Heading, p.Text = "Too many requests", "Wait for a few seconds, and load the page again."
	case http.StatusServiceUnavailable:
		p.Heading = "The journal does not answer"
		p.Text = "Turns continue on their workers, and nothing is lost. Load the page again in a few seconds."
	default:
		v.Log.Error("page failed", "path", v.r.Pattern, "error", err)
		p.Heading, p.Text = "The server failed", "Its log says why. Turns continue on their workers."
	}
	p.Title = p.Heading
	if err := v.render(p.Status, "plain.html", p); err != nil {
		v.Log.Error("page failed", "path", v.r.Pattern, "error", err)
	}
}

// head is what all pages have.
type head struct {
	Title     string
	Theme     string // dark, light, or "" for the system's
	Principal string
	Tenant    string
	CanSend   bool
	CanDecide bool
}

func (v *visit) head(title string) head {
	h := head{Title: title, Principal: v.token.Principal, Tenant: v.token.Tenant,
		CanSend: v.token.Allows(client.RightSend), CanDecide: v.token.Allows(client.RightDecide)}
	if c, err := v.r.Cookie("theme"); err == nil && (c.Value == "dark" || c.Value == "light") {
		h.Theme = c.Value
	}
	return h
}
