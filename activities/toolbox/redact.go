package toolbox

import (
	"net/url"
	"strings"
)

// minSecret is the shortest configured value that is looked for: shorter ones are flags and numbers.
const minSecret = 6

// redactor takes the values that a server was configured with out of text about it: a server that prints its token
// on stderr must not put it into the journal.
type redactor struct{ r *strings.Replacer }

func newRedactor(s Server, inherited []string) redactor {
	var pairs []string
	add := func(v string) {
		if len(v) >= minSecret {
			pairs = append(pairs, v, "[redacted]")
		}
	}
	for _, v := range s.Env {
		add(v)
	}
	for _, v := range inherited {
		add(v)
	}
	for _, v := range s.Headers {
		add(v)
		if _, token, ok := strings.Cut(v, " "); ok { // Bearer <token>
			add(token)
		}
	}
	if u, err := url.Parse(s.URL); err == nil {
		add(u.RawQuery)
		if pass, ok := u.User.Password(); ok {
			add(pass)
		}
	}
	return redactor{r: strings.NewReplacer(pairs...)}
}

func (r redactor) text(s string) string { return r.r.Replace(s) }
