package mcp

import (
	"encoding/base64"
	"net/url"
	"regexp"
	"slices"
	"strings"

	"github.com/everturn/everturn/internal/printable"
	"github.com/everturn/everturn/internal/redact"
)

// redactor removes the values that a server was configured with from what the server says: a server that prints its
// token, on stderr, in an error or in a result, must not put it into the journal. It does not apply the operator's
// patterns, which would change a tool's hash. The zero redactor knows no values.
type redactor struct {
	shared *redact.Redactor // secrets by position or name; shared by the whole worker
	looks  *redact.Redactor // possible secrets; of this server only
	all    *redact.Redactor // every configured value; not used on results, in which a folder's name must stay readable
}

// newRedactor adds the server's secrets to the shared ones. inherited are the values of the variables in
// Server.EnvAllow, in its order.
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

// address adds a configured URL's password, query and path.
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
	segments, path := printable.Hidden(raw)
	r.all.Add(path)
	for _, v := range segments {
		r.classify("", v)
	}
}

// classify adds a value to the redactor that fits its name and shape.
func (r redactor) classify(name, v string) {
	r.all.Add(spellings(v)...)
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
		r.looks.Add(spellings(v)...)
	}
}

// keyShaped reports whether a value is almost certainly a key. Only such a value is removed from what the model and
// other servers say: a server that issues the token "--dry-run" must not change the calls of others.
func keyShaped(v string) bool {
	return keyLooks.MatchString(v) && strings.ContainsAny(v, "0123456789") && (!strings.Contains(v, "/") || len(v) >= 32)
}

// spellings returns a value and its sanitized form.
func spellings(v string) []string {
	return slices.Compact([]string{v, printable.Sanitize(v)})
}

// The two signs of a secret: its name, and its shape. The shapes do not match paths, addresses and plain words.
var (
	secretName  = regexp.MustCompile(`(?i)key|token|secret|pass|pwd|auth|credential|private|dsn|connection_?string`)
	secretLooks = regexp.MustCompile(`^[A-Za-z0-9+_=.~-]{12,}$`)
	keyLooks    = regexp.MustCompile(`^[A-Za-z0-9+_=][A-Za-z0-9+_=.~/-]{15,}$`)
)

// basic returns the credentials of basic authentication (RFC 7617), which the header holds in base64, and their
// password.
func basic(scheme, token string) []string {
	plain, err := base64.StdEncoding.DecodeString(token)
	if err != nil || !strings.EqualFold(scheme, "basic") {
		return nil
	}
	_, password, _ := strings.Cut(string(plain), ":")
	return []string{string(plain), password}
}

// learn adds secrets, including ones issued later, such as access tokens.
func (r redactor) learn(values ...string) {
	for _, v := range values {
		if keyShaped(v) {
			r.shared.Add(spellings(v)...)
		} else {
			r.looks.Add(spellings(v)...)
		}
	}
}

// unlearn removes values that are no longer secret.
func (r redactor) unlearn(values ...string) {
	for _, v := range values {
		if keyShaped(v) {
			r.shared.Remove(spellings(v)...)
		} else {
			r.looks.Remove(spellings(v)...)
		}
	}
}

// text removes every configured value from an error or a log line, or from a part of one.
func (r redactor) text(s string) string { return r.all.Values(r.result(s)) }

// tail is like text, for a text whose beginning is lost.
func (r redactor) tail(s string) string { return r.all.Tail(r.looks.Tail(r.shared.Tail(s))) }

// line is like text, for an error: redacted before it is cut, on one line, at most limit bytes.
func (r redactor) line(s string, limit int) string { return line(s, limit, r.text) }

// resultLine is like line, for text that the model sees.
func (r redactor) resultLine(s string, limit int) string { return line(s, limit, r.result) }

// maxLine bounds how much of a text is used to make a line, in bytes.
const maxLine = 128 << 10

// line redacts before it cuts. If it uses only a part of the text, it drops that part's end, which may be the beginning
// of a secret in any encoding.
func line(s string, limit int, redacted func(string) string) string {
	if len(s) <= maxLine {
		return printable.Line(redacted(printable.Sanitize(s)), limit)
	}
	head := redacted(printable.Sanitize(s[:printable.Start(s, maxLine)]))
	return printable.Line(head[:printable.Start(head, max(len(head)-4*redact.MaxSecret, 0))], limit)
}

// result removes the secrets from what a server says.
func (r redactor) result(s string) string { return r.looks.Values(r.shared.Values(s)) }
