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

// redactor removes the values with which a server was configured from the server's own texts: a server that prints its
// token on stderr, in an error or in a result must not put it into the journal. It does not apply the operator's
// patterns, which would change a tool's hash. The zero redactor knows no values.
type redactor struct {
	shared    *redact.Redactor // configured secrets that are almost certainly keys: see keyShaped; the worker's
	own       *redact.Redactor // other secrets, values that look like one, and access tokens; this server's
	allValues *redact.Redactor // every configured value; not for results, in which folder names must stay readable
}

// newRedactor returns the redactor of a server. It adds the server's secrets to shared, the worker's own redactor, so
// that they are also removed elsewhere. inherited holds the values of the variables in Server.EnvAllow, in its order.
func newRedactor(s Server, inherited []string, shared *redact.Redactor) redactor {
	r := redactor{shared: shared, own: redact.New(), allValues: redact.New()}
	for name, v := range s.Env {
		r.classify(name, v)
	}
	for i, v := range inherited {
		name := "secret" // a value without a name counts as a secret
		if i < len(s.EnvAllow) {
			name = s.EnvAllow[i]
		}
		r.classify(name, v)
	}
	for _, v := range s.Headers {
		r.learn(v)
		if scheme, token, ok := strings.Cut(v, " "); ok { // Bearer <token>
			r.learn(append(basicCredentials(scheme, token), token)...) // for Basic also the decoded credentials
		}
	}
	r.learnURL(s.URL)
	r.learnURL(s.OAuth.TokenURL)
	r.learn(s.OAuth.ClientSecret)
	return r
}

// learnURL adds the parts of a configured URL that may contain secrets: password, query, and hidden path segments.
func (r redactor) learnURL(raw string) {
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
	r.allValues.Add(path)
	for _, v := range segments {
		r.classify("", v)
	}
}

// classify adds a configured value. It always adds the value to allValues; it adds it as a secret (learn) if name,
// which may be empty, is a secret's name, and to own if only the value's shape is that of a secret. If the value is a
// URL, it adds the secrets in the URL.
func (r redactor) classify(name, v string) {
	r.allValues.Add(spellings(v)...)
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
	case secretShape.MatchString(v) && strings.ContainsAny(v, "0123456789"):
		r.own.Add(spellings(v)...)
	}
}

// keyShaped reports whether a configured value is almost certainly a key. Only such a value goes into the shared
// redactor, which also changes the texts of models and the calls of other servers: the password "--dry-run" must not
// change them.
func keyShaped(v string) bool {
	return keyShape.MatchString(v) && strings.ContainsAny(v, "0123456789") && (!strings.Contains(v, "/") || len(v) >= 32)
}

// spellings returns a value and, if different, its sanitized form: texts are sanitized before they are redacted.
func spellings(v string) []string {
	return slices.Compact([]string{v, printable.Sanitize(v)})
}

// The two signs of a secret: its name, and its shape. The shapes do not match paths, addresses and plain words.
var (
	secretName  = regexp.MustCompile(`(?i)key|token|secret|pass|pwd|auth|credential|private|dsn|connection_?string`)
	secretShape = regexp.MustCompile(`^[A-Za-z0-9+_=.~-]{12,}$`)
	keyShape    = regexp.MustCompile(`^[A-Za-z0-9+_=][A-Za-z0-9+_=.~/-]{15,}$`)
)

// basicCredentials returns the decoded credentials of a basic authentication header (RFC 7617), "user:password", and
// the password alone; nil for another scheme. token is their base64 form.
func basicCredentials(scheme, token string) []string {
	plain, err := base64.StdEncoding.DecodeString(token)
	if err != nil || !strings.EqualFold(scheme, "basic") {
		return nil
	}
	_, password, _ := strings.Cut(string(plain), ":")
	return []string{string(plain), password}
}

// learn adds secrets of the configuration.
func (r redactor) learn(values ...string) {
	for _, v := range values {
		if keyShaped(v) {
			r.shared.Add(spellings(v)...)
		} else {
			r.own.Add(spellings(v)...)
		}
	}
}

// text removes every configured value, secret or not, from an error or a log line.
func (r redactor) text(s string) string { return r.allValues.Values(r.result(s)) }

// tail is like text, for a text whose beginning is lost, so that it may begin with a part of a secret.
func (r redactor) tail(s string) string { return r.allValues.Tail(r.own.Tail(r.shared.Tail(s))) }

// line is like text and puts the text on one line of at most limit bytes.
func (r redactor) line(s string, limit int) string { return line(s, limit, r.text) }

// resultLine is like line, for text that the model sees.
func (r redactor) resultLine(s string, limit int) string { return line(s, limit, r.result) }

// maxLine bounds how much of a text is used to make a line, in bytes.
const maxLine = 128 << 10

// line sanitizes s, redacts it with the function redacted, and then cuts it to one line of at most limit bytes. It cuts
// a very long text to maxLine before redacting it, to bound the work. That cut may split a secret, in whatever
// encoding, so line also drops the end of the redacted part.
func line(s string, limit int, redacted func(string) string) string {
	if len(s) <= maxLine {
		return printable.Line(redacted(printable.Sanitize(s)), limit)
	}
	head := redacted(printable.Sanitize(s[:printable.Start(s, maxLine)]))
	return printable.Line(head[:printable.Start(head, max(len(head)-4*redact.MaxSecret, 0))], limit)
}

// result removes the secrets from a server's text for the model.
func (r redactor) result(s string) string { return r.own.Values(r.shared.Values(s)) }
