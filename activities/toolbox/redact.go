package toolbox

import (
	"encoding/base64"
	"net/url"
	"regexp"
	"slices"
	"strings"

	"github.com/everturn/everturn/internal/plain"
	"github.com/everturn/everturn/internal/redact"
)

// redactor takes the values that a server was configured with out of what it says: a server that says its token, on
// stderr, in an error or in a result, must not put it into the journal. The patterns of the operator are not its business:
// they would change what a tool is known by. The zero redactor knows nothing.
type redactor struct {
	shared *redact.Redactor // secrets, by where they stand or what they are called; the whole worker's
	looks  *redact.Redactor // what may be a secret; of this server
	all    *redact.Redactor // every value that this server was given: a folder's name has to stay readable in results
}

// newRedactor adds the server's secrets to the shared ones; inherited are the values of the variables in Server.EnvAllow, in
// its order.
func newRedactor(s Server, inherited []string, shared *redact.Redactor) redactor {
	r := redactor{shared: shared, looks: redact.New(), all: redact.New()}
	for name, v := range s.Env {
		r.classify(name, v)
	}
	for i, v := range inherited {
		name := "secret"
		if i < len(s.EnvAllow) {
			name = s.EnvAllow[i]
		}
		r.classify(name, v)
	}
	for _, v := range s.Headers {
		r.learn(v)
		if scheme, token, ok := strings.Cut(v, " "); ok { // Bearer <token>
			r.learn(append(basic(scheme, token), token)...)
		}
	}
	r.address(s.URL)
	r.address(s.OAuth.TokenURL)
	r.learn(s.OAuth.ClientSecret)
	return r
}

// address makes a configured URL's password, query and path known.
func (r redactor) address(raw string) {
	if u, err := url.Parse(raw); err == nil {
		pass, _ := u.User.Password()
		r.learn(u.RawQuery, pass)
		for name, list := range u.Query() {
			for _, v := range list {
				r.classify(name, v)
			}
		}
	}
	segments, path := plain.Hidden(raw)
	r.all.Add(path)
	for _, v := range segments {
		r.classify("", v)
	}
}

// classify adds a value to the redactor that its name and shape call for.
func (r redactor) classify(name, v string) {
	r.all.Add(spoken(v)...)
	if u, err := url.Parse(v); err == nil && u.Host != "" { // a connection string
		pass, _ := u.User.Password()
		r.learn(pass)
		for name, list := range u.Query() {
			for _, v := range list {
				r.classify(name, v)
			}
		}
	}
	switch {
	case secretName.MatchString(name):
		r.learn(v)
	case secretLooks.MatchString(v) && strings.ContainsAny(v, "0123456789"):
		r.looks.Add(spoken(v)...)
	}
}

// keyShaped reports whether a value can hardly be anything else than a key. Only such a value is blanked in what the model
// and other servers say: a server that issues the token "--dry-run" must not change the calls of others.
func keyShaped(v string) bool {
	return keyLooks.MatchString(v) && strings.ContainsAny(v, "0123456789") && (!strings.Contains(v, "/") || len(v) >= 32)
}

// spoken returns a value and its sanitized form.
func spoken(v string) []string {
	return slices.Compact([]string{v, plain.Sanitize(v)})
}

// The two signs of a secret: what it is called, and that it looks like nothing else. Paths, addresses and plain words are
// none by their looks.
var (
	secretName  = regexp.MustCompile(`(?i)key|token|secret|pass|pwd|auth|credential|private|dsn|connection_?string`)
	secretLooks = regexp.MustCompile(`^[A-Za-z0-9+_=.~-]{12,}$`)
	keyLooks    = regexp.MustCompile(`^[A-Za-z0-9+_=][A-Za-z0-9+_=.~/-]{15,}$`)
)

// basic are the name and the password in basic authentication (RFC 7617), which the header holds in base64.
func basic(scheme, token string) []string {
	plain, err := base64.StdEncoding.DecodeString(token)
	if err != nil || !strings.EqualFold(scheme, "basic") {
		return nil
	}
	_, password, _ := strings.Cut(string(plain), ":")
	return []string{string(plain), password}
}

// learn adds secrets, those too that came to be known later: access tokens for instance.
func (r redactor) learn(values ...string) {
	for _, v := range values {
		if keyShaped(v) {
			r.shared.Add(spoken(v)...)
		} else {
			r.looks.Add(spoken(v)...)
		}
	}
}

// unlearn forgets secrets that are none any more.
func (r redactor) unlearn(values ...string) {
	for _, v := range values {
		if keyShaped(v) {
			r.shared.Remove(spoken(v)...)
		} else {
			r.looks.Remove(spoken(v)...)
		}
	}
}

// text takes every configured value out of an error, a log line or what goes into one.
func (r redactor) text(s string) string { return r.all.Values(r.result(s)) }

// tail is text for a text whose beginning is lost.
func (r redactor) tail(s string) string { return r.all.Tail(r.looks.Tail(r.shared.Tail(s))) }

// line is text for an error: redacted before it is cut, on one line, at most limit bytes.
func (r redactor) line(s string, limit int) string { return line(s, limit, r.text) }

// resultLine is line for what a model is shown.
func (r redactor) resultLine(s string, limit int) string { return line(s, limit, r.result) }

// maxLine is how much of a text is looked at to make a line, in bytes.
const maxLine = 128 << 10

// line redacts before it cuts. Of a text that is looked at in part it leaves the end out, which may be that of a secret in
// any encoding.
func line(s string, limit int, redacted func(string) string) string {
	if len(s) <= maxLine {
		return plain.Line(redacted(plain.Sanitize(s)), limit)
	}
	head := redacted(plain.Sanitize(s[:plain.Start(s, maxLine)]))
	return plain.Line(head[:plain.Start(head, max(len(head)-4*redact.MaxSecret, 0))], limit)
}

// result takes the secrets out of what a server has to say.
func (r redactor) result(s string) string { return r.looks.Values(r.shared.Values(s)) }
