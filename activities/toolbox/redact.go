package toolbox

import (
	"encoding/base64"
	"encoding/json"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"sync"

	"github.com/everturn/everturn/activities/toolbox/plain"
)

// minSecret is the shortest configured value that is looked for: shorter ones are flags and numbers.
const minSecret = 6

// redacted stands where a secret stood.
const redacted = "[redacted]"

// redactor takes the values that a server was configured with out of what it says: a server that says its token, on
// stderr, in an error or in a result, must not put it into the journal. Errors and logs lose every value; results keep
// those that are no secrets, since a folder's name has to stay readable in them. Copies share what they know. The zero
// redactor knows nothing.
type redactor struct{ all, secret *words }

// words are values to take out, each in the forms in which it may be said.
type words struct {
	mu       sync.RWMutex
	forms    map[string]bool
	replacer *strings.Replacer
}

// newRedactor knows the server's configuration; inherited are the values of the variables in Server.EnvAllow, in its order.
func newRedactor(s Server, inherited []string) redactor {
	r := redactor{all: &words{forms: map[string]bool{}}, secret: &words{forms: map[string]bool{}}}
	var values []string
	for name, v := range s.Env {
		values = append(values, v)
		if isSecret(name, v) {
			r.learn(v)
		}
	}
	for i, v := range inherited {
		values = append(values, v)
		if i >= len(s.EnvAllow) || isSecret(s.EnvAllow[i], v) {
			r.learn(v)
		}
	}
	r.all.add(values)
	for _, v := range s.Headers {
		r.learn(v)
		if scheme, token, ok := strings.Cut(v, " "); ok { // Bearer <token>
			r.learn(append(basic(scheme, token), token)...)
		}
	}
	if u, err := url.Parse(s.URL); err == nil {
		pass, _ := u.User.Password()
		r.learn(u.RawQuery, pass)
		for name, list := range u.Query() {
			r.all.add(list)
			r.learn(slices.DeleteFunc(list, func(v string) bool { return !isSecret(name, v) })...)
		}
	}
	for _, raw := range []string{s.URL, s.OAuth.TokenURL} {
		segments, path := plain.Hidden(raw)
		r.all.add(append(segments, path))
		r.learn(slices.DeleteFunc(segments, func(v string) bool { return !isSecret("", v) })...)
	}
	r.learn(s.OAuth.ClientSecret)
	return r
}

// The two signs of a secret: what it is called, and that it looks like nothing else. Paths, addresses and plain words are
// none by their looks.
var (
	secretName  = regexp.MustCompile(`(?i)key|token|secret|passw|auth|credential|canary|private`)
	secretLooks = regexp.MustCompile(`^[A-Za-z0-9+_=.~-]{12,}$`)
)

func isSecret(name, value string) bool {
	return secretName.MatchString(name) || secretLooks.MatchString(value) && strings.ContainsAny(value, "0123456789")
}

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
	if r.all != nil {
		r.all.add(values)
		r.secret.add(values)
	}
}

// text takes every configured value out of an error, a log line or what goes into one.
func (r redactor) text(s string) string { return r.all.replace(s) }

// result takes the secrets out of what a server has to say.
func (r redactor) result(s string) string { return r.secret.replace(s) }

func (w *words) add(values []string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, v := range values {
		for _, form := range formsOf(v) {
			w.forms[form] = true
		}
	}
	if len(w.forms) == 0 {
		return
	}
	// The longest first: one that begins like another must not leave its rest behind.
	forms := make([]string, 0, len(w.forms))
	for form := range w.forms {
		forms = append(forms, form)
	}
	slices.SortFunc(forms, func(a, b string) int {
		if len(a) != len(b) {
			return len(b) - len(a)
		}
		return strings.Compare(a, b)
	})
	pairs := make([]string, 0, 2*len(forms))
	for _, form := range forms {
		pairs = append(pairs, form, redacted)
	}
	w.replacer = strings.NewReplacer(pairs...)
}

func (w *words) replace(s string) string {
	if w == nil {
		return s
	}
	w.mu.RLock()
	replacer := w.replacer
	w.mu.RUnlock()
	if replacer == nil {
		return s
	}
	return replacer.Replace(s)
}

// formsOf are the ways in which a value is commonly said: as it is, clean, as part of JSON, of a URL, and in base64.
func formsOf(v string) []string {
	if len(strings.TrimSpace(v)) < minSecret {
		return nil
	}
	quoted, _ := json.Marshal(v) // strings always marshal
	bare, _ := plainJSON(v)
	forms := []string{
		v, strings.TrimSpace(v), strings.TrimSpace(plain.Sanitize(v)), string(quoted[1 : len(quoted)-1]), string(bare[1 : len(bare)-1]),
		url.QueryEscape(v), url.PathEscape(v), base64.StdEncoding.EncodeToString([]byte(v)), base64.RawURLEncoding.EncodeToString([]byte(v)),
	}
	return slices.DeleteFunc(forms, func(f string) bool { return len(f) < minSecret })
}
